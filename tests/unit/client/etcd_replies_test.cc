// SPDX-License-Identifier: Apache-2.0
// Each kind of reply to each request of the store on etcd, from a server that is not etcd: wrong
// types of each field, and HTTP that has no end. Each call fails with a typed error.
#include "client/store.h"
#include "client/stores/remote_store.h"
#include "tests/unit/client/foreign_fakes.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::FakeReply;
using test::etcd::good_etcd_reply;
using test::etcd::ok;
using test::etcd::take_request;
using test::etcd::with_header;

struct Request {
  std::string path;
  std::function<void(Store&)> call;
  bool changes = true;
};

const std::vector<Request>& requests() {
  static const std::vector<Request> all{
      {"/v3/kv/txn",
       [](Store& s) {
         s.multi_get({"k", "l"}, 0s);
       },
       false},
      {"/v3/kv/txn", [](Store& s) { s.get("k", 50ms); }, false},
      {"/v3/kv/txn", [](Store& s) { s.check({"k"}); }, false},
      {"/v3/kv/txn", [](Store& s) { s.set("k", "v"); }},
      {"/v3/kv/txn", [](Store& s) { s.add("k", 1); }},
      {"/v3/kv/txn", [](Store& s) { s.append("k", "v"); }},
      {"/v3/kv/txn", [](Store& s) { s.compare_set("k", "", "w"); }},
      {"/v3/kv/txn", [](Store& s) { s.queue_push("k", "v"); }},
      {"/v3/kv/txn", [](Store& s) { s.queue_pop("k", 0s); }, false},
      {"/v3/kv/range", [](Store& s) { s.add("k", 1); }, false},
      {"/v3/kv/range", [](Store& s) { s.list(""); }, false},
      {"/v3/kv/range", [](Store& s) { s.count(""); }, false},
      {"/v3/kv/range", [](Store& s) { s.queue_length("k"); }, false},
      {"/v3/kv/deleterange", [](Store& s) { s.remove("k"); }},
      {"/v3/kv/deleterange", [](Store& s) { s.remove_prefix("k"); }},
  };
  return all;
}

/// Bodies that no reply has.
std::vector<std::string> bad_bodies() {
  return {"",
          "{",
          "\x1b[31mred",
          "null",
          "7",
          "[]",
          "\"\x1b\"",
          std::string(100'000, '['),
          "{}",
          R"({"header":7})",
          R"({"header":{}})",
          R"({"header":{"revision":5}})",
          R"({"header":{"revision":"x"}})",
          R"({"header":{"revision":"-5"}})",
          R"({"result":{}})"};
}

/// The same for a kind of request.
std::vector<std::string> bad_fields(const std::string& path) {
  if (path == "/v3/kv/deleterange") {
    return {R"("deleted":7)", R"("deleted":"-1")", R"("deleted":"x")", R"("deleted":[])"};
  }
  const std::vector<std::string> of_range{R"("count":7)",
                                          R"("count":"-1")",
                                          R"("count":"x")",
                                          R"("count":{})",
                                          R"("kvs":7)",
                                          R"("kvs":{})",
                                          R"("kvs":[7])",
                                          R"("kvs":[[]])",
                                          R"("kvs":[{}])",
                                          R"("kvs":[{"key":7}])",
                                          R"("kvs":[{"key":"!"}])",
                                          R"("kvs":[{"key":"b3RoZXI="}])",
                                          R"("kvs":[{"value":7}])",
                                          R"("kvs":[{"mod_revision":true}])"};
  if (path == "/v3/kv/range") return of_range;
  std::vector<std::string> all{R"("succeeded":7)",
                               R"("succeeded":"true")",
                               R"("succeeded":true)",
                               R"("succeeded":true,"responses":7)",
                               R"("succeeded":true,"responses":{})",
                               R"("succeeded":true,"responses":[7])",
                               R"("succeeded":true,"responses":[{},{},{},{}])",
                               R"("succeeded":true,"responses":[{"response_range":7}])",
                               R"("responses":[{"response_range":{}},7])"};
  for (const std::string& fields : of_range) {
    all.push_back(R"("succeeded":true,"responses":[{"response_range":{)" + fields + "}}]");
  }
  return all;
}

std::shared_ptr<Store> open_etcd_store(const test::FakeServer& server) {
  auto store = client::open_remote_store("etcd://" + server.address() + "/job", 50ms);
  store->set_default_timeout(50ms);
  return store;
}

void expect_unexpected(const Request& request, const FakeReply& reply, const std::string& what) {
  test::FakeServer server(take_request, good_etcd_reply);
  const auto store = open_etcd_store(server);
  server.reply_with(request.path, reply);
  const auto error = error_of([&] { request.call(*store); });
  test::expect_refused(error, {request.changes ? Code::outcome_unknown : Code::malformed}, what);
  EXPECT_TRUE(test::has(error.second, "etcd at " + server.address())) << what;
}

TEST(EtcdReplies, TheGoodRepliesOfThisTestAreGood) {
  test::FakeServer server(take_request, good_etcd_reply);
  const auto store = open_etcd_store(server);
  for (const Request& request : requests()) {
    const auto [code, text] = error_of([&] { request.call(*store); });
    EXPECT_TRUE(code == Code::ok || code == Code::not_found || code == Code::timed_out) << text;
  }
  EXPECT_EQ(error_of([&] { store->set("k", "v"); }).first, Code::ok);
  EXPECT_EQ(error_of([&] { store->add("k", 1); }).first, Code::ok);
}

TEST(EtcdReplies, ABodyThatIsNoReplyIsRefused) {
  for (const Request& request : requests()) {
    for (const std::string& body : bad_bodies()) {
      expect_unexpected(request, ok(body), request.path + ": " + body.substr(0, 80));
    }
  }
}

TEST(EtcdReplies, AFieldOfAnotherTypeIsRefused) {
  for (const Request& request : requests()) {
    for (const std::string& fields : bad_fields(request.path)) {
      expect_unexpected(request, ok(with_header(fields)), request.path + ": " + fields);
    }
  }
}

TEST(EtcdReplies, TheFailureNamesTheField) {
  test::FakeServer server(take_request, good_etcd_reply);
  const auto store = open_etcd_store(server);
  server.reply_with("/v3/kv/range", ok(with_header(R"("count":7)")));
  const auto [code, text] = error_of([&] { store->count(""); });
  EXPECT_EQ(code, Code::malformed);
  EXPECT_TRUE(
      test::has(text, "etcd at " + server.address() +
                          ": unexpected reply from etcd: the field count is not a string with "
                          "an integer from 0 to 9223372036854775807; check that"));
}

TEST(EtcdReplies, AMessageOfAWatchThatIsNoneIsRefused) {
  for (const std::string body :
       {"\n", "7\n", "{\"result\":7}\n", "{\"result\":{\"canceled\":7}}\n",
        "{\"result\":{\"events\":7}}\n", "{\"result\":{\"events\":[7]}}\n",
        "{\"result\":{\"events\":[{}]}}\n", "{\"result\":{\"events\":[{\"kv\":7}]}}\n",
        "{\"result\":{\"events\":[{\"kv\":{\"key\":7}}]}}\n", "\x1b[31m\n"}) {
    test::FakeServer server(take_request, good_etcd_reply);
    const auto store = open_etcd_store(server);
    server.reply_with("/v3/watch", ok(body));
    test::expect_refused(error_of([&] { store->get("k", 60s); }), {Code::malformed}, body);
  }
}

TEST(EtcdReplies, AWatchThatEndsIsMadeAgainUntilTheTimeIsOver) {
  for (const std::string body :
       {"", "{}\n", "{\"result\":{\"canceled\":true}}\n", "{\"error\":7}\n"}) {
    test::FakeServer server(take_request, good_etcd_reply);
    const auto store = open_etcd_store(server);
    server.reply_with("/v3/watch", ok(body));
    test::expect_refused(error_of([&] { store->get("k", 50ms); }), {Code::timed_out}, body);
  }
}

TEST(EtcdReplies, WhatHasNoEndIsRefusedAtItsLimit) {
  const std::string block(65536, 'x');
  const std::string status = "HTTP/1.1 200 OK\r\n";
  const std::string chunked = status + "Transfer-Encoding: chunked\r\n\r\n";
  struct Case {
    std::string bytes;
    std::string limit;
  };
  for (const Case& endless :
       {Case{status + "Content-Length: 1073741824\r\n\r\n",
             "the reply has 1073741824 bytes or more"},
        Case{status + "\r\n", "bytes or more, limit 67108864"},
        Case{chunked + "40000000\r\n", "bytes or more, limit 67108864"},
        Case{chunked + "1;", "a line of"}, Case{status + "A: ", "a header of"}}) {
    for (const std::string path : {"/v3/kv/range", "/v3/watch"}) {
      test::FakeServer server(take_request, good_etcd_reply);
      const auto store = open_etcd_store(server);
      store->set_default_timeout(60s);
      server.reply_with(path, {endless.bytes + block, FakeReply::Then::repeat});
      const auto [code, text] = error_of([&] {
        if (path == "/v3/watch") store->get("k", 60s);
        store->count("");
      });
      EXPECT_EQ(code, Code::too_large) << text;
      EXPECT_TRUE(test::has(text, endless.limit));
      EXPECT_TRUE(test::has(text, ", limit "));
    }
  }
}

TEST(EtcdReplies, AnErrorIsShownWithoutEscapes) {
  const std::string body = "{\"error\":\"\\u001b[31mred\\u009b\",\"code\":2}";
  for (const Request& request : requests()) {
    test::FakeServer server(take_request, good_etcd_reply);
    const auto store = open_etcd_store(server);
    server.reply_with(
        request.path,
        {"HTTP/1.1 500 Error\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body,
         FakeReply::Then::close});
    const auto error = error_of([&] { request.call(*store); });
    test::expect_refused(error, {Code::internal}, request.path);
    EXPECT_TRUE(test::has(error.second, "etcd refuses the request: ?[31mred?"));
  }
}

TEST(EtcdReplies, WhatLosesAllRacesEndsWithItsTime) {
  const std::string lost = R"("responses":[{"response_range":{}}])";
  test::FakeServer server(take_request, good_etcd_reply);
  const auto store = open_etcd_store(server);
  server.reply_with("/v3/kv/txn", ok(with_header(lost)));
  const auto [code, text] = error_of([&] { store->add("k", 1); });
  EXPECT_EQ(code, Code::timed_out);
  EXPECT_TRUE(test::has(text, "another client was faster; nothing was changed"));
}

TEST(EtcdReplies, AReplyTooMuchIsNotTakenForTheNextOne) {
  test::FakeServer server(take_request, good_etcd_reply);
  const auto store = open_etcd_store(server);
  const std::string one = ok(with_header("")).bytes;
  server.reply_with("/v3/kv/range", {one + ok(with_header(R"("deleted":"7")")).bytes});
  EXPECT_EQ(store->count(""), 0u);
  EXPECT_FALSE(store->remove("k")) << "on a new connection";
}

}  // namespace
}  // namespace c10dd
