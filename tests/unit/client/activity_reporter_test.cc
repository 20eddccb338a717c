// SPDX-License-Identifier: Apache-2.0
// The reports of a client's process groups over a real connection, while threads open and close
// groups, and a forked child that has a reporter of its parent.
#include "client/internal/activity_reporter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/internal/caller.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeReply;

constexpr Duration kReporterPatience = 60s;

/// A daemon that keeps which groups are open, and replies to each report with a diagnosis.
class ListeningDaemon {
 public:
  const FakeDaemon& server() const { return server_; }
  void say(ActivityDiagnosis found) {
    const std::lock_guard lock(mutex_);
    said_ = std::move(found);
  }
  void be_silent() { silent_ = true; }
  std::set<std::uint64_t> open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  std::uint64_t issued() const { return issued_; }
  int timeouts() const { return timeouts_; }
  int blocked() const { return blocked_; }

 private:
  std::optional<FakeReply> answer(const Sent& asked) {
    const auto* report = std::get_if<Activity>(&asked.request);
    if (report == nullptr) return std::nullopt;
    const std::lock_guard lock(mutex_);
    for (const OpenedGroup& group : report->opened) open_.insert(group.process_group);
    for (const GroupActivity& group : report->groups) {
      EXPECT_TRUE(open_.contains(group.process_group));
      issued_ = std::max<std::uint64_t>(issued_, group.collectives.issued);
    }
    for (const std::uint64_t id : report->closed) open_.erase(id);
    timeouts_ += report->timed_out;
    blocked_ += report->blocked;
    if (silent_) return FakeReply{};
    return FakeReply{reply_to(asked, ReplyBody(said_))};
  }

  mutable std::mutex mutex_;
  std::set<std::uint64_t> open_;
  ActivityDiagnosis said_;
  std::atomic<std::uint64_t> issued_ = 0;
  std::atomic<int> timeouts_ = 0;
  std::atomic<int> blocked_ = 0;
  std::atomic<bool> silent_ = false;
  FakeDaemon server_{[this](const Sent& asked) { return answer(asked); }};
};

/// A group that has issued some collectives, all of which have ended.
WatchedGroup group_of(std::uint64_t id, std::uint64_t issued = 1) {
  WatchedGroup group;
  group.opened.process_group = id;
  group.read = [issued] {
    ReadGroup read;
    read.activity.collectives.issued = issued;
    return read;
  };
  return group;
}

class ActivityReporterTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(connection_.wait_open(kReporterPatience)); }

  void open(WatchedGroup group) {
    reporter_->open(std::move(group), [] { return true; });
  }
  bool knows(std::set<std::uint64_t> ids) {
    return comes_true([&] { return daemon_.open() == ids; });
  }

  ListeningDaemon daemon_;
  std::shared_ptr<ActivityReporter> reporter_ = std::make_shared<ActivityReporter>();
  Connection connection_{at(daemon_.server()), {reporter_->periodic()}};
};

TEST_F(ActivityReporterTest, TheDaemonLearnsWhichGroupsAreOpen) {
  EXPECT_FALSE(reporter_->periodic().wanted()) << "an idle client does not wake up";
  open(group_of(7, 5));
  EXPECT_TRUE(reporter_->periodic().wanted());
  EXPECT_TRUE(knows({7}));
  EXPECT_EQ(daemon_.issued(), 5u);
  open(group_of(8));
  EXPECT_TRUE(knows({7, 8}));
  reporter_->close(7);
  EXPECT_TRUE(knows({8}));
  reporter_->close(8);
  EXPECT_TRUE(knows({}));
  EXPECT_TRUE(comes_true([&] { return !reporter_->periodic().wanted(); }));
}

TEST_F(ActivityReporterTest, TheDaemonLearnsThatAllThreadsWait) {
  WatchedGroup waits = group_of(7);
  waits.read = [] {
    ReadGroup read;
    read.activity.collectives = {.issued = 1, .not_begun = 0, .unfinished = 1};
    read.activity.oldest.push_back(
        {.age = std::chrono::seconds(9), .name = "barrier", .arguments = ""});
    return read;
  };
  open(std::move(waits));
  EXPECT_TRUE(comes_true([&] { return daemon_.blocked() > 0; }));
}

TEST_F(ActivityReporterTest, AClientHasOne) {
  const auto client = Client::connect("c10dd://" + daemon_.server().address() + "/job");
  activity_of(*client)->open(group_of(7), {});
  EXPECT_TRUE(knows({7}));
  client->close();
  activity_of(*client)->close(7);
}

TEST_F(ActivityReporterTest, ThreadsOpenAndCloseGroupsWhileTheyAreRead) {
  std::vector<std::thread> threads;
  for (std::uint64_t first : {0, 1000, 2000, 3000}) {
    threads.emplace_back([this, first] {
      for (std::uint64_t id = first; id < first + 50; ++id) {
        auto issued = std::make_unique<std::atomic<std::uint64_t>>(0);
        WatchedGroup group = group_of(id);
        group.read = [counter = issued.get()] {
          ReadGroup read;
          read.activity.collectives.issued = counter->load();
          return read;
        };
        open(std::move(group));
        for (int i = 0; i < 100; ++i) {
          ++*issued;
          if (i % 50 == 0) reporter_->explain(connection_, id, kReporterPatience);
        }
        reporter_->close(id);  // afterwards `issued` is not read
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(knows({}));
}

TEST_F(ActivityReporterTest, HopelessIsCalledAndCloseWaitsForIt) {
  std::promise<std::string> called;
  std::promise<void> goes_on;
  std::atomic<bool> ended = false;
  WatchedGroup group = group_of(7);
  group.hopeless = [&](const ActivityDiagnosis& found) {
    called.set_value(found.sentence);
    goes_on.get_future().get();
    ended = true;
  };
  daemon_.say({2, "it is stuck", {}, {7, 8}, {7, 8}});
  open(std::move(group));
  open(group_of(8));
  EXPECT_EQ(called.get_future().get(), "it is stuck");
  open(group_of(9));    // does not block
  reporter_->close(9);  // nor does this: it is another group
  EXPECT_TRUE(reporter_->explain(connection_, 8, kReporterPatience)) << "known, without a reply";
  auto closed = std::async(std::launch::async, [&] {
    reporter_->close(7);
    return ended.load();
  });
  goes_on.set_value();
  EXPECT_TRUE(closed.get());
}

TEST_F(ActivityReporterTest, HopelessMayCloseItsGroupAndOthers) {
  std::atomic<int> calls = 0;
  for (const std::uint64_t id : {7, 8}) {
    WatchedGroup group = group_of(id);
    group.hopeless = [&](const ActivityDiagnosis&) {
      ++calls;
      reporter_->close(7);
      reporter_->close(8);
    };
    open(std::move(group));
  }
  EXPECT_TRUE(knows({7, 8}));
  daemon_.say({2, "it is stuck", {}, {7, 8}, {7, 8}});
  open(group_of(9));  // a report is due
  EXPECT_TRUE(knows({9}));
  EXPECT_EQ(calls, 1);
}

TEST_F(ActivityReporterTest, ATimeoutIsExplained) {
  EXPECT_FALSE(reporter_->explain(connection_, 7, kReporterPatience)) << "not open";
  open(group_of(7));
  EXPECT_FALSE(reporter_->explain(connection_, 7, kReporterPatience)) << "nobody waits";
  const int asked = daemon_.timeouts();
  EXPECT_EQ(asked, 1);
  daemon_.say({1, "rank 3 has not come", {{3, 3}}, {7}, {}});
  for (int i = 0; i < 2; ++i) {
    const auto found = reporter_->explain(connection_, 7, kReporterPatience);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->sentence, "rank 3 has not come");
  }
  EXPECT_LE(daemon_.timeouts(), asked + 1) << "the second time it is known";
  daemon_.say({2, "it is stuck", {}, {7}, {7}});
  const int before = daemon_.timeouts();
  const auto anew = reporter_->explain(connection_, 7, kReporterPatience, true);
  ASSERT_TRUE(anew);
  EXPECT_EQ(anew->sentence, "it is stuck") << "the other ranks may have aborted it since";
  EXPECT_EQ(daemon_.timeouts(), before + 1);
  EXPECT_TRUE(reporter_->explain(connection_, 7, kReporterPatience, true));
  EXPECT_EQ(daemon_.timeouts(), before + 1) << "no more is to be known";
}

TEST_F(ActivityReporterTest, ATimeoutWaitsNoLongerThanItsPatience) {
  open(group_of(7));
  EXPECT_TRUE(knows({7}));
  daemon_.be_silent();
  const Caller patient{.limit = kReporterPatience};
  const CallerScope scope(patient);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(reporter_->explain(connection_, 7, 20ms));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kReporterPatience / 2);
  connection_.close({}, 0ms);
  EXPECT_FALSE(reporter_->explain(connection_, 7, kReporterPatience)) << "no session";
}

TEST_F(ActivityReporterTest, AForkedChildIsNotBlockedByAThreadOfItsParent) {
  std::latch reads(2);
  std::promise<void> goes_on;
  WatchedGroup group = group_of(7);
  group.read = [&, first = true, end = goes_on.get_future().share()]() mutable {
    if (std::exchange(first, false)) reads.count_down();
    end.wait();  // with the mutex of the reporter
    return ReadGroup{};
  };
  open(std::move(group));
  reads.arrive_and_wait();
  EXPECT_TRUE(test::holds_in_child([&] {
    open(group_of(8));
    reporter_->close(7);
    return !reporter_->explain(connection_, 7, kReporterPatience);
  }));
  goes_on.set_value();
  reporter_->close(7);
}

}  // namespace
}  // namespace c10dd::client
