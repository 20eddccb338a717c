// SPDX-License-Identifier: Apache-2.0
// What the fakes of Redis, PyTorch's TCPStore and etcd have in common: they take the requests of
// the stores apart, and reply as a good server does unless a test says otherwise.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/tcpstore_wire.h"
#include "tests/unit/fake_server.h"
#include "tests/unit/resp_words.h"

namespace c10dd::test::redis {

/// Takes a command. Its name is the operation if it runs the script.
inline std::optional<FakeRequest> take_command(std::string& in) {
  const auto taken = take_resp_words(in);
  if (!taken) return std::nullopt;
  const std::vector<std::string>& words = *taken;
  const bool script = words[0] == "EVALSHA" || words[0] == "EVAL";
  if (!script) return FakeRequest{words[0], words.size() > 1 ? words[1] : ""};
  const std::string op = words[3 + std::stoul(words[2])];
  return FakeRequest{words[0] == "EVAL" ? "EVAL" : op, op};
}

inline FakeReply good_redis_reply(const FakeRequest& asked) {
  static const std::map<std::string, std::string> replies{
      {"AUTH", "+OK\r\n"},
      {"SCRIPT", "$40\r\n0123456789012345678901234567890123456789\r\n"},
      {"exist", "$1\r\n0\r\n"},
      {"UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"},
      {"forgotten", "-NOSCRIPT no such script\r\n"}};
  if (asked.name == "SUBSCRIBE") {
    return {"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$" +
            std::to_string(asked.argument.size()) + "\r\n" + asked.argument + "\r\n$0\r\n\r\n"};
  }
  const auto found = replies.find(asked.name);
  return {found == replies.end() ? ":1\r\n" : found->second};
}

}  // namespace c10dd::test::redis

namespace c10dd::test::tcp {

inline std::string byte(std::uint8_t value) { return std::string(1, static_cast<char>(value)); }

inline std::string number(std::int64_t value) {
  std::string bytes;
  tcpstore::put_number(bytes, value);
  return bytes;
}

inline std::string text(const std::string& value) {
  return number(static_cast<std::int64_t>(value.size())) + value;
}

/// Takes a message of PyTorch 2.2 and later; the connection has begun with `validate`. The argument
/// is its key; of a ping its number, of a compare_set what it expects.
inline std::optional<FakeRequest> take_message(std::string& in) {
  Bytes begin;
  tcpstore::encode_message(begin, tcpstore::Dialect::v, {.query = tcpstore::Query::validate});
  tcpstore::MessageCutter cutter;
  if (in.starts_with(begin)) {
    in.erase(0, begin.size());
    return FakeRequest{"validate", ""};
  }
  EXPECT_TRUE(*cutter.cut(begin));
  const Result<bool> whole = cutter.cut(in);
  if (!whole) return FakeRequest{"bad", ""};
  if (!*whole) return std::nullopt;
  const tcpstore::Message message = cutter.decode(in);
  std::string argument(message.query == tcpstore::Query::compare_set ? message.expected
                                                                     : message.key);
  if (message.query == tcpstore::Query::ping) argument = in.substr(1, 4);
  const FakeRequest asked{std::string(name_of(message.query)), argument};
  in.erase(0, cutter.size());
  return asked;
}

/// A store in which each key has the value v.
inline FakeReply good_tcp_reply(const FakeRequest& asked) {
  static const std::map<std::string, std::string> replies{
      {"get", text("7")},          {"compare_set", text("v")},
      {"check", byte(0)},          {"wait", byte(0)},
      {"cancel_wait", byte(1)},    {"add", number(7)},
      {"remove", number(1)},       {"count_keys", number(0)},
      {"queue_length", number(1)}, {"queue_pop", number(1) + text("i")},
      {"list_keys", number(0)},    {"multi_get", text("v") + text("w")}};
  if (asked.name == "ping") return {asked.argument};
  if (asked.name == "bad") return {"", FakeReply::Then::close};
  const auto found = replies.find(asked.name);
  return {found == replies.end() ? "" : found->second};
}

}  // namespace c10dd::test::tcp

namespace c10dd::test::etcd {

/// Takes a request. Its name is the path, its argument the body.
inline std::optional<FakeRequest> take_request(std::string& in) {
  const std::size_t head = in.find("\r\n\r\n");
  if (head == std::string::npos) return std::nullopt;
  const std::size_t body = std::stoul(in.substr(in.find("Content-Length: ") + 16));
  if (in.size() < head + 4 + body) return std::nullopt;
  const std::string path = in.substr(5, in.find(' ', 5) - 5);
  const FakeRequest asked{path, in.substr(head + 4, body)};
  in.erase(0, head + 4 + body);
  return asked;
}

inline FakeReply ok(const std::string& body) {
  return {"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body};
}

/// Makes an object of these fields, beside the header that each reply has.
inline std::string with_header(const std::string& fields) {
  return R"({"header":{"revision":"5"})" + (fields.empty() ? "" : "," + fields) + "}";
}

/// An empty database, in which each change succeeds.
inline FakeReply good_etcd_reply(const FakeRequest& asked) {
  if (asked.name == "/v3/watch") return {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"};
  if (asked.name != "/v3/kv/txn") return ok(with_header(""));
  const std::string operations = asked.argument.substr(asked.argument.find("\"success\":"));
  std::string responses;
  const std::string done = operations.substr(0, operations.find("\"failure\":"));
  for (std::size_t at = 0; (at = done.find("{\"request_", at)) != std::string::npos; ++at) {
    const bool range = done.compare(at, 16, "{\"request_range\"") == 0;
    responses += std::string(responses.empty() ? "" : ",") +
                 (range ? R"({"response_range":{}})" : R"({"response_put":{}})");
  }
  return ok(with_header(R"("succeeded":true,"responses":[)" + responses + "]"));
}

}  // namespace c10dd::test::etcd
