// SPDX-License-Identifier: Apache-2.0
// The connections of the store on etcd: events of a watch that come late or for others, a watch
// that ends, transactions that lose a race, connections that the server ends, two stores and
// threads.
#include <future>

#include "tests/unit/client/foreign_fakes.h"
#include "tests/unit/client/foreign_links.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::error_of;
using test::FakeReply;
using test::etcd::ok;
using test::etcd::with_header;
using Then = FakeReply::Then;

constexpr const char* kTxn = "/v3/kv/txn";
constexpr const char* kRange = "/v3/kv/range";
constexpr const char* kWatch = "/v3/watch";

// The base64 of the keys j, k and l of the job, and of the key of an item of the queue k.
constexpr const char* kBefore = "YzEwZGQtc3RvcmUvam9iL2svag==";
constexpr const char* kKey = "YzEwZGQtc3RvcmUvam9iL2svaw==";               // c10dd-store/job/k/k
constexpr const char* kOther = "YzEwZGQtc3RvcmUvam9iL2svbA==";             // c10dd-store/job/k/l
constexpr const char* kItem = "YzEwZGQtc3RvcmUvam9iL3EvMDAwMDAwMDEvay9h";  // .../q/00000001/k/a

std::string chunk(const std::string& bytes) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx", bytes.size());
  return std::string(size.data()) + "\r\n" + bytes + "\r\n";
}
const std::string kWatchHead = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
std::string event(const std::string& key) {
  return chunk(R"({"result":{"events":[{"kv":{"key":")" + key + "\"}}]}}\n");
}
/// The reply to a transaction that has found these entries, one for each of its ranges.
FakeReply found(const std::vector<std::string>& ranges, bool succeeded = true) {
  std::string responses;
  for (const std::string& range : ranges) {
    responses +=
        (responses.empty() ? "" : ",") + std::string(R"({"response_range":{)") + range + "}}";
  }
  return ok(with_header(std::string(succeeded ? R"("succeeded":true,)" : "") + R"("responses":[)" +
                        responses + "]"));
}
std::string entry(const std::string& value_in_base64, const std::string& key = kKey) {
  return R"("kvs":[{"key":")" + key + R"(","value":")" + value_in_base64 +
         R"(","mod_revision":"3"}],"count":"1")";
}
FakeReply changed() {
  return ok(with_header(R"("succeeded":true,"responses":[{"response_put":{}}])"));
}

class EtcdLinks : public test::ForeignLinks {
 protected:
  EtcdLinks()
      : ForeignLinks("etcd://", "/job", test::etcd::take_request, test::etcd::good_etcd_reply) {}
};

TEST_F(EtcdLinks, AnEventWakesTheCallThatWaits) {
  server_.say(kTxn, {found({""}), found({entry("dg==")})});
  server_.say(kWatch, {{kWatchHead, {}, event(kBefore) + event(kKey)}});
  auto value = std::async(std::launch::async, [&] { return store_->get("k", 120s); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(value.wait_for(0s), std::future_status::timeout);
  server_.release();
  ASSERT_TRUE(ends(value));
  EXPECT_EQ(value.get(), "v");
  EXPECT_EQ(server_.asked(kTxn), 2) << "it looks when its key has come, not another";
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 1; })) << "the watch has ended";
  EXPECT_EQ(store_->count(""), 0U);
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(EtcdLinks, AWaitNeedsEachOfItsKeysOnce) {
  // Of each key: the key itself, and the queue with its name.
  server_.say(kTxn, {found({"", "", "", ""}), found({"", "", R"("count":"1")", ""}),
                     found({"", R"("count":"1")", R"("count":"1")", ""})});
  server_.say(kWatch,
              {{kWatchHead + event(kItem) + event(kItem), {}, event(kOther) + event(kItem)}});
  auto done = std::async(std::launch::async, [&] { store_->wait({"k", "l"}, 120s); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(server_.asked(kTxn), 1);
  server_.release();
  ASSERT_TRUE(ends(done));
  done.get();
  EXPECT_EQ(server_.asked(kTxn), 3) << "the item was taken by another at the second look";
}

TEST_F(EtcdLinks, AWatchThatEndsIsFollowedByALook) {
  server_.say(kTxn, {found({""}), found({""}), found({entry("dg==")})});
  server_.say(kWatch, {{kWatchHead + chunk("{\"result\":{\"canceled\":true}}\n")},
                       {kWatchHead, Then::close}});
  EXPECT_EQ(store_->get("k", 60s), "v");
  EXPECT_EQ(server_.asked(kWatch), 2);
  EXPECT_EQ(server_.asked(kTxn), 3);
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 2; }))
      << "both watches have ended, and a third was not needed";
}

TEST_F(EtcdLinks, AWatchIsOverWithItsTime) {
  server_.say(kTxn, {found({""})});
  server_.say(kWatch, {{kWatchHead + event(kBefore)}});
  EXPECT_EQ(error_of([&] { store_->get("k", 20ms); }).first, Code::timed_out);
  EXPECT_EQ(server_.asked(kTxn), 1) << "no event of its key has come";
  // On a slow machine the time may have been over before the watch.
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 1 - server_.asked(kWatch); }))
      << "the connection of a watch is not kept";
}

TEST_F(EtcdLinks, AChangeThatLosesTheRaceIsDecidedAgain) {
  server_.say(kRange, {ok(with_header(entry("NQ==")))});          // 5
  server_.say(kTxn, {found({entry("Nw==")}, false), changed()});  // 7
  EXPECT_EQ(store_->add("k", 1), 8);
  EXPECT_EQ(server_.asked(kRange), 2) << "the first one was that of open()";
  EXPECT_EQ(server_.asked(kTxn), 2);
  server_.say(kTxn, {found({entry("Nw==")}, false)});
  EXPECT_EQ(store_->compare_set("k", "5", "6"), "7");
  EXPECT_EQ(store_->compare_set("k", "7", "6"), "5") << "nothing is changed";
  EXPECT_EQ(server_.asked(kTxn), 3);
  server_.say(kRange, {ok(with_header(entry("eA==")))});  // x
  EXPECT_EQ(error_of([&] { store_->add("k", 1); }).first, Code::wrong_type);
}

TEST_F(EtcdLinks, AnItemThatAnotherHasTakenIsLeftToIt) {
  server_.say(kTxn,
              {found({entry("YQ==", kItem)}), ok(with_header("")), found({entry("Yg==", kItem)}),
               ok(with_header(R"("succeeded":true,"responses":[{"response_delete_range":{}}])"))});
  EXPECT_EQ(store_->queue_pop("k", 0s), "b");
  EXPECT_EQ(server_.asked(kTxn), 4);
}

TEST_F(EtcdLinks, AConnectionThatTheServerEndsIsNotUsedAgain) {
  const std::string body = with_header(R"("count":"3")");
  const std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ";
  server_.say(kRange, {{head + std::to_string(body.size()) + "\r\n\r\n" + body}});
  EXPECT_EQ(store_->count(""), 3U);
  EXPECT_TRUE(comes_true([&] { return server_.open_connections() == 0; })) << "although it is open";
  EXPECT_EQ(store_->count(""), 3U);
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(EtcdLinks, ARefusalTellsWhetherTheChangeMayBeMade) {
  const auto refusal = [](const std::string& text) {
    const std::string body = "{\"error\":\"" + text + "\",\"code\":14}";
    return FakeReply{"HTTP/1.1 503 No\r\nContent-Length: " + std::to_string(body.size()) +
                     "\r\n\r\n" + body};
  };
  server_.say(kTxn, {refusal("etcdserver: no leader"), changed()});
  store_->set("k", "v");
  EXPECT_EQ(server_.asked(kTxn), 2) << "nothing was changed, so it is repeated";
  EXPECT_EQ(server_.connections(), 1);
  server_.say(kTxn, {refusal("etcdserver: request timed out"), changed()});
  EXPECT_EQ(error_of([&] { store_->set("k", "v"); }).first, Code::outcome_unknown);
  EXPECT_EQ(server_.asked(kTxn), 3);
  store_->set("k", "v");
  EXPECT_EQ(server_.connections(), 2);
}

TEST_F(EtcdLinks, AServerThatClosesInAReadServesTheNextTime) {
  const std::string good = ok(with_header(R"("count":"3")")).bytes;
  server_.say(kRange, {{good.substr(0, good.size() - 5), Then::close}, {good}});
  EXPECT_EQ(store_->count(""), 3U);
  server_.say("/v3/kv/deleterange",
              {{"HTTP/1.1 200", Then::close}, ok(with_header(R"("deleted":"1")"))});
  EXPECT_EQ(error_of([&] { store_->remove("k"); }).first, Code::outcome_unknown);
  EXPECT_EQ(server_.asked("/v3/kv/deleterange"), 1) << "a change is not repeated";
  EXPECT_TRUE(store_->remove("k"));
}

TEST_F(EtcdLinks, TwoStoresAndTwoThreadsDoNotMeet) {
  test::FakeServer other(test::etcd::take_request, test::etcd::good_etcd_reply);
  const auto second = open(other);
  server_.say(kRange, {{"", {}, ok(with_header(R"("count":"1")")).bytes},
                       ok(with_header(R"("count":"2")"))});
  auto late = std::async(std::launch::async, [&] { return store_->count(""); });
  EXPECT_TRUE(comes_true([&] { return server_.held() == 1; }));
  EXPECT_EQ(store_->count(""), 2U);
  EXPECT_EQ(second->count(""), 0U);
  server_.release();
  ASSERT_TRUE(ends(late));
  EXPECT_EQ(late.get(), 1U);
  EXPECT_EQ(other.connections(), 1);
}

}  // namespace
}  // namespace c10dd
