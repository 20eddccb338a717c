// SPDX-License-Identifier: Apache-2.0
// The store of a daemon and its watches, over a daemon that a test scripts: what each call sends
// and makes of the reply, a watch whose reply is lost or late, and one that is cancelled.
#include "client/stores/daemon_store.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <mutex>

#include "client/errors.h"
#include "client/internal/connection.h"
#include "protocol/ops.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/client/thrown_error.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::error_of;
using test::FakeReply;

/// A daemon that gives the listed replies, and remembers what it was asked. It does not reply when
/// none is listed.
class ListedDaemon {
 public:
  void reply(std::vector<Reply> replies) {
    const std::lock_guard lock(mutex_);
    replies_ = {replies.begin(), replies.end()};
  }
  /// The connection ends instead of the next reply.
  void cut() {
    const std::lock_guard lock(mutex_);
    cut_ = true;
  }
  template <class Op>
  std::vector<Op> asked() {
    const std::lock_guard lock(mutex_);
    std::vector<Op> all;
    for (const Request& request : requests_) {
      if (const auto* op = std::get_if<Op>(&request)) all.push_back(*op);
    }
    return all;
  }
  template <class Op>
  std::size_t count() {
    return asked<Op>().size();
  }
  const FakeDaemon& server() const { return server_; }

 private:
  std::optional<FakeReply> answer(const Sent& asked) {
    // The rest is the session's own.
    const bool of_store = std::holds_alternative<Transact>(asked.request) ||
                          std::holds_alternative<List>(asked.request) ||
                          std::holds_alternative<CompareSet>(asked.request) ||
                          std::holds_alternative<Watch>(asked.request);
    if (!of_store) return {};
    const std::lock_guard lock(mutex_);
    requests_.push_back(asked.request);
    if (std::exchange(cut_, false)) return FakeReply{"", FakeReply::Then::close};
    if (replies_.empty()) return FakeReply{};
    const Reply reply = replies_.front();
    replies_.pop_front();
    return FakeReply{reply_to(asked, reply)};
  }

  std::mutex mutex_;
  std::deque<Reply> replies_;
  std::vector<Request> requests_;
  bool cut_ = false;
  FakeDaemon server_{[this](const Sent& asked) { return answer(asked); }};
};

class DaemonStoreTest : public testing::Test {
 protected:
  DaemonStoreTest()
      : connection_(std::make_shared<Connection>(at(daemon_.server()))),
        store_(make_daemon_store(connection_, 60s)) {
    EXPECT_TRUE(connection_->wait_open(60s));
  }

  static Changes changes(Revision next, std::uint32_t skip, const std::string& key = "") {
    Changes changes{{}, next, skip};
    if (!key.empty()) changes.changes.push_back({next - 1, key == "gone", Blob(key), Blob("v")});
    return changes;
  }

  ListedDaemon daemon_;
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<JobStore> store_;
};

TEST_F(DaemonStoreTest, ATransactionIsSentAndReadPartByPart) {
  daemon_.reply({ReplyBody(Transacted{true, 7, 8, {9, 10}})});
  SetOptions options;
  options.ttl = 5s;
  options.ephemeral = true;
  const TransactionResult done = store_->transact(Transaction()
                                                      .if_exists("a")
                                                      .if_absent("b")
                                                      .if_value("c", "1")
                                                      .if_revision("d", 2)
                                                      .set("e", "3", options)
                                                      .remove("f")
                                                      .add("g", -4)
                                                      .append("h", "5")
                                                      .push("i", "6"));
  EXPECT_TRUE(done.applied);
  EXPECT_EQ(done.failed, 7U);
  EXPECT_EQ(done.revision, 8U);
  EXPECT_EQ(done.sums, (std::vector<std::int64_t>{9, 10}));
  const Transact sent = daemon_.asked<Transact>().at(0);
  using Is = Condition::Kind;
  const Is conditions[] = {Is::exists, Is::absent, Is::value_is, Is::revision_is};
  ASSERT_EQ(sent.conditions.size(), 4U);
  for (std::size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(sent.conditions[n].kind, conditions[n]);
    EXPECT_EQ(sent.conditions[n].key, std::string(1, static_cast<char>('a' + n)));
  }
  EXPECT_EQ(sent.conditions[2].value, "1");
  EXPECT_EQ(sent.conditions[3].revision, 2U);
  using Do = Action::Kind;
  const Do actions[] = {Do::set, Do::remove, Do::add, Do::append, Do::push};
  ASSERT_EQ(sent.actions.size(), 5U);
  for (std::size_t n = 0; n < 5; ++n) {
    EXPECT_EQ(sent.actions[n].kind, actions[n]);
    EXPECT_EQ(sent.actions[n].key, std::string(1, static_cast<char>('e' + n)));
  }
  EXPECT_EQ(sent.actions[0].value + sent.actions[3].value + sent.actions[4].value, "356");
  EXPECT_TRUE(sent.actions[0].ttl == 5s && sent.actions[0].ephemeral);
  EXPECT_FALSE(sent.actions[4].ephemeral);
  EXPECT_EQ(sent.actions[2].delta, -4);
}

TEST_F(DaemonStoreTest, AListOfSeveralPagesHasTheRevisionOfTheFirst) {
  daemon_.reply({ReplyBody(KeyPage{{"a", "b"}, true, 5}), ReplyBody(KeyPage{{"c"}, true, 6}),
                 ReplyBody(KeyPage{{"d"}, false, 7})});
  const KeyList list = store_->list_keys("p");
  EXPECT_EQ(list.keys, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(list.revision, 5U);
  std::string asked;
  for (const List& one : daemon_.asked<List>()) asked += one.prefix + one.start_after + " ";
  EXPECT_EQ(asked, "p pb pc ");
  daemon_.reply({ReplyBody(KeyPage{{}, true, 5})});
  EXPECT_TRUE(store_->list("p").empty()) << "a daemon that lies ends no loop late";
}

TEST_F(DaemonStoreTest, ACompareSetTellsWhatIsThereAfterwards) {
  daemon_.reply({ReplyBody(Compared{true, true, ""}), ReplyBody(Compared{false, false, "x"}),
                 ReplyBody(Compared{false, true, "other"})});
  EXPECT_EQ(store_->compare_set("k", "old", "new"), "new");
  EXPECT_EQ(store_->compare_set("k", "old", "new"), "old");
  EXPECT_EQ(store_->compare_set("k", "old", "new"), "other");
  const CompareSet sent = daemon_.asked<CompareSet>().at(0);
  EXPECT_TRUE(sent.key == "k" && sent.expected == "old" && sent.desired == "new");
}

TEST_F(DaemonStoreTest, AWatchGoesOnWhereItsLastBatchHasEnded) {
  daemon_.reply({ReplyBody(changes(5, 0)), ReplyBody(changes(9, 2, "gone")),
                 ReplyBody(changes(9, 3, "pk")), ReplyBody(changes(9, 3))});
  KeyWatch watch = store_->watch_prefix("p");
  EXPECT_EQ(watch.from(), 5U) << "it asks for the present";
  WatchBatch batch = watch.next(10s);
  ASSERT_EQ(batch.changes.size(), 1U);
  EXPECT_TRUE(batch.changes[0].removed);
  EXPECT_EQ(batch.changes[0].key + batch.changes[0].value, "gonev");
  EXPECT_EQ(batch.changes[0].revision, 8U);
  EXPECT_EQ(batch.next, 9U);
  EXPECT_EQ(watch.from(), 9U);
  EXPECT_FALSE(watch.next(11s).changes.at(0).removed);
  EXPECT_TRUE(watch.next(12s).changes.empty());
  std::string asked;
  for (const Watch& one : daemon_.asked<Watch>()) {
    EXPECT_TRUE(one.prefix && one.key == "p");
    asked += std::to_string(one.from) + "/" + std::to_string(one.skip) + "/" +
             std::to_string(one.timeout / 1s) + " ";
  }
  EXPECT_EQ(asked, "0/0/0 5/0/10 9/2/11 9/3/12 ");
}

TEST_F(DaemonStoreTest, TwoWatchesHaveTheirOwnPositions) {
  KeyWatch one = store_->watch("a", 3);
  KeyWatch two = store_->watch("b", 7);
  EXPECT_EQ(daemon_.count<Watch>(), 0U) << "a watch from a revision asks nothing yet";
  daemon_.reply({ReplyBody(changes(4, 1, "a")), ReplyBody(changes(8, 0, "b"))});
  EXPECT_EQ(one.next(60s).changes.at(0).key, "a");
  EXPECT_EQ(two.next(60s).changes.at(0).key, "b");
  EXPECT_EQ(std::to_string(one.from()) + " " + std::to_string(two.from()), "4 8");
  const Watch sent = daemon_.asked<Watch>().at(1);
  EXPECT_TRUE(sent.key == "b" && sent.from == 7 && sent.skip == 0 && !sent.prefix);
}

TEST_F(DaemonStoreTest, AFailureKeepsThePositionOfAWatch) {
  KeyWatch watch = store_->watch("k", 3);
  daemon_.reply({failure(Code::compacted, "too old"), ReplyBody(changes(4, 0, "k"))});
  EXPECT_EQ(error_of([&] { watch.next(60s); }).first, Code::compacted);
  EXPECT_EQ(watch.from(), 3U);
  daemon_.cut();
  EXPECT_EQ(watch.next(60s).changes.size(), 1U) << "asked again after the connection was lost";
  for (const Watch& one : daemon_.asked<Watch>()) EXPECT_EQ(one.from, 3U);
  EXPECT_EQ(daemon_.count<Watch>(), 3U);
  EXPECT_EQ(watch.from(), 4U);
}

TEST_F(DaemonStoreTest, ACancelledWatchEndsAndLeavesTheOtherAlone) {
  KeyWatch one = store_->watch("a", 3);
  KeyWatch two = store_->watch("b", 7);
  auto waits = std::async(std::launch::async, [&] { return error_of([&] { one.next(90s); }); });
  EXPECT_TRUE(comes_true([&] { return daemon_.count<Watch>() == 1; }));
  one.cancel();
  const auto [code, why] = waits.get();
  EXPECT_EQ(code, Code::aborted);
  EXPECT_TRUE(test::has(why, "the watch was cancelled"));
  EXPECT_EQ(error_of([&] { one.next(90s); }).first, Code::aborted) << "for ever";
  EXPECT_EQ(one.from(), 3U);
  daemon_.reply({ReplyBody(changes(8, 0, "b"))});
  EXPECT_EQ(two.next(60s).changes.at(0).key, "b");
}

}  // namespace
}  // namespace c10dd::client
