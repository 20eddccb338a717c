// SPDX-License-Identifier: Apache-2.0
// Replies that no server of PyTorch's TCPStore sends, to each message of the store on one: numbers
// out of range, texts that are too long or too short, silence. Each call fails with a typed error.
#include "client/store.h"
#include "client/stores/remote_store.h"
#include "tests/unit/client/foreign_fakes.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::FakeReply;
using test::FakeRequest;
using test::tcp::byte;
using test::tcp::good_tcp_reply;
using test::tcp::number;
using test::tcp::take_message;
using test::tcp::text;

struct Message {
  std::string name;
  std::function<void(Store&)> call;
  bool changes = false;
};

const std::vector<Message>& messages() {
  static const std::vector<Message> all{
      {"check", [](Store& s) { s.check({"k"}); }},
      {"check", [](Store& s) { s.set("k", "v"); }, true},
      {"wait", [](Store& s) { s.wait({"k"}, 50ms); }},
      {"get", [](Store& s) { s.get("k", 0s); }},
      {"get", [](Store& s) { s.append("k", "v"); }},
      {"multi_get",
       [](Store& s) {
         s.multi_get({"k", "l"}, 0s);
       }},
      {"add", [](Store& s) { s.add("k", 1); }, true},
      {"compare_set", [](Store& s) { s.compare_set("k", "v", "w"); }, true},
      {"remove", [](Store& s) { s.remove("k"); }, true},
      {"queue_length", [](Store& s) { s.queue_push("k", "v"); }, true},
      {"queue_length", [](Store& s) { s.queue_length("k"); }},
      {"queue_pop", [](Store& s) { s.queue_pop("k", 0s); }, true},
      {"list_keys", [](Store& s) { s.list(""); }},
  };
  return all;
}

std::vector<FakeReply> bad_replies(const std::string& name) {
  if (name == "check" || name == "wait") {
    return {{byte(2)}, {byte(0xFF)}, {byte(0x1b)}, {"", FakeReply::Then::close}};
  }
  if (name == "add") return {{number(7).substr(0, 3), FakeReply::Then::close}};
  if (name == "remove" || name == "queue_length") {
    return {{number(-1)}, {number(INT64_MIN)}, {number(7).substr(0, 3), FakeReply::Then::close}};
  }
  if (name == "queue_pop") {
    return {{number(-1)}, {number(1) + number(-1)}, {number(1), FakeReply::Then::close}};
  }
  if (name == "list_keys") {
    return {{number(-1)},
            {number(INT64_MAX)},
            {number(1) + number(INT64_MAX)},
            {number(4'194'305)},
            {number(2) + text("/k"), FakeReply::Then::close}};
  }
  return {{number(-1)},
          {number(INT64_MAX)},
          {number(67'108'865)},
          {number(10) + "abc", FakeReply::Then::close},
          {"", FakeReply::Then::close}};
}

std::shared_ptr<Store> open_tcp_store(const test::FakeServer& server) {
  auto store = client::open_remote_store("tcp://" + server.address(), 1s);
  store->set_default_timeout(50ms);
  store->queue_length("k");  // so that it knows what the server can do
  store->list("");
  return store;
}

TEST(TcpReplies, TheGoodRepliesOfThisTestAreGood) {
  test::FakeServer server(take_message, good_tcp_reply);
  const auto store = open_tcp_store(server);
  for (const Message& message : messages()) {
    EXPECT_EQ(error_of([&] { message.call(*store); }).second, "no error") << message.name;
  }
}

TEST(TcpReplies, AReplyThatNoServerSendsIsRefused) {
  for (const Message& message : messages()) {
    for (const FakeReply& reply : bad_replies(message.name)) {
      test::FakeServer server(take_message, good_tcp_reply);
      const auto store = open_tcp_store(server);
      server.reply_with(message.name, reply);
      const auto error = error_of([&] { message.call(*store); });
      const std::string what = message.name + ", " + std::to_string(reply.bytes.size()) + " bytes";
      // A connection for a further call begins with a check, so it is not made.
      test::expect_refused(error,
                           message.changes
                               ? std::vector{Code::outcome_unknown, Code::timed_out}
                               : std::vector{Code::malformed, Code::too_large, Code::timed_out},
                           what);
      EXPECT_TRUE(test::has(error.second, "TCPStore at " + server.address())) << what;
    }
  }
}

TEST(TcpReplies, TheFailureSaysTheMessageWhatCameAndWhatWasExpected) {
  test::FakeServer server(take_message, good_tcp_reply);
  const auto store = open_tcp_store(server);
  server.reply_with("queue_length", {number(-7)});
  EXPECT_TRUE(test::has(error_of([&] { store->queue_length("k"); }).second,
                        "unexpected reply to queue_length: got the number -7, expected 0 to"));
  server.reply_with("get", {number(100'000'000)});
  EXPECT_TRUE(test::has(error_of([&] { store->get("k", 0s); }).second,
                        "a text of 100000000 bytes, limit 67108864 in total"));
}

TEST(TcpReplies, AServerThatContradictsItselfKeepsNoCallBeyondItsTime) {
  // It says that the key is missing, and then that it exists.
  test::FakeServer server(take_message, [](const FakeRequest& asked) {
    if (asked.name == "wait") return FakeReply{};
    return asked.name == "check" ? FakeReply{byte(0)} : good_tcp_reply(asked);
  });
  const auto store = open_tcp_store(server);
  test::expect_refused(error_of([&] { store->wait({"k"}, 50ms); }), {Code::malformed}, "by turns");
}

TEST(TcpReplies, SilenceEndsWithTheTimeOut) {
  test::FakeServer server(take_message, good_tcp_reply);
  const auto store = open_tcp_store(server);
  server.reply_with("get", {});
  const auto begin = std::chrono::steady_clock::now();
  test::expect_refused(error_of([&] { store->get("k", 0s); }), {Code::timed_out}, "silence");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST(TcpReplies, BytesWithoutEndKeepNoCallBeyondItsTime) {
  test::FakeServer server(take_message, good_tcp_reply);
  const auto store = open_tcp_store(server);
  server.reply_with("list_keys",
                    {number(4'000'000) + std::string(65536, '\0'), FakeReply::Then::repeat});
  test::expect_refused(error_of([&] { store->list(""); }),
                       {Code::timed_out, Code::malformed, Code::ok}, "empty texts");
}

TEST(TcpReplies, AReplyTooMuchIsNotTakenForTheNextOne) {
  test::FakeServer server(take_message, good_tcp_reply);
  const auto store = open_tcp_store(server);
  server.reply_with("remove", {number(1) + number(99)});
  EXPECT_TRUE(store->remove("k"));
  EXPECT_EQ(store->add("k", 1), 7) << "on a new connection";
}

}  // namespace
}  // namespace c10dd
