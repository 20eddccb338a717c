// SPDX-License-Identifier: Apache-2.0
// The runs of launches, over a directory that refuses, and connections whose ends come late.
#include "daemon/net/launch_runs.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace c10dd::daemon {
namespace {

using Query = tcpstore::Query;

constexpr std::string_view kRank0 = "/default_pg/0//cpu//0/0";

/// The runs of one job, over a directory that keeps the books: every run that was opened is ended
/// once, and no run is opened while it is live.
class LaunchRunsTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(runs_->audit().value_or(""), "");
    for (auto& [connection, ends] : sockets_) {
      for (const int end : ends) {
        if (end >= 0) ::close(end);
      }
    }
  }

  static tcpstore::MessageHead join() { return {Query::add, "init/"}; }
  static tcpstore::MessageHead rank_key() { return {Query::set, kRank0, 16}; }

  /// Binds a connection, whose socket the kernel knows. Returns its run, or the failure.
  Result<std::string> bind(std::uint64_t connection, std::uint64_t pid,
                           const tcpstore::MessageHead& first) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    sockets_[connection] = ends;
    Result<std::string> bound = failure(Code::internal, "no reply");
    runs_->bind({connection, "10.0.0.1", pid, ends[0]}, first,
                [&](Result<std::string> run) { bound = std::move(run); });
    turn();
    return bound;
  }
  /// Binds a connection whose session is then open.
  std::string open(std::uint64_t connection, std::uint64_t pid,
                   const tcpstore::MessageHead& first = join()) {
    const Result<std::string> run = bind(connection, pid, first);
    EXPECT_TRUE(run) << run.error().detail;
    runs_->opened(connection, [this, connection](const Failure& why) {
      closed_[connection] = why.detail;
      runs_->ended(connection);
    });
    turn();
    return run ? *run : "";
  }
  /// Ends a connection from its client's side. The loop that serves it says so only with tell().
  void hang_up(std::uint64_t connection) { ::close(std::exchange(sockets_.at(connection)[1], -1)); }
  void tell(std::uint64_t connection) {
    runs_->ended(connection);
    turn();
  }
  Result<void> ask(std::uint64_t connection, const tcpstore::MessageHead& message) {
    Result<void> reply = failure(Code::internal, "no reply");
    runs_->ask(connection, message, false, [&](Result<void> result) { reply = std::move(result); });
    turn();
    return reply;
  }
  void turn() {
    loop_.restart();
    loop_.poll();
  }
  std::size_t bound() const {
    std::size_t sum = 0;
    for (const auto& run : runs_->reports()) sum += run.connections;
    return sum;
  }

  boost::asio::io_context loop_;
  std::set<std::string> live_;
  std::set<std::string> kept_;  ///< ended, and their keys are still there
  std::vector<std::string> resumed_;
  std::map<std::uint64_t, std::string> closed_;  ///< connections that were closed, and why
  int refusals_ = 0;                             ///< of the next runs to be opened
  std::map<std::uint64_t, std::array<int, 2>> sockets_;
  std::shared_ptr<LaunchRuns> runs_ = std::make_shared<LaunchRuns>(
      loop_, "digits",
      LaunchRuns::Directory{[this](const std::string& run, const std::string&) -> Result<void> {
                              if (refusals_ > 0) {
                                --refusals_;
                                return failure(Code::quota_exceeded, "too many runs");
                              }
                              live_.insert(run);
                              return {};
                            },
                            [this](const std::string& run) {
                              if (live_.erase(run) > 0) kept_.insert(run);
                            },
                            [this](const std::string& run, const std::string&) {
                              EXPECT_TRUE(kept_.contains(run)) << run;
                              resumed_.push_back(run);
                            },
                            [this](const std::string& run) { return kept_.contains(run); },
                            [] { return TimePoint(); }});
};

TEST_F(LaunchRunsTest, ALaunchHasOneRunWhichEndsWithItsLastConnection) {
  const std::string run = open(1, 11);
  EXPECT_EQ(open(2, 12), run);
  EXPECT_TRUE(ask(1, rank_key()));
  EXPECT_EQ(live_, std::set<std::string>{run});
  hang_up(1);
  tell(1);
  EXPECT_EQ(live_.size(), 1u);
  hang_up(2);
  tell(2);
  EXPECT_TRUE(live_.empty());
  EXPECT_EQ(bound(), 0u);
  EXPECT_NE(open(3, 13), run) << "the next launch";
}

TEST_F(LaunchRunsTest, AnEndThatOnlyTheKernelKnowsCountsBeforeTheNextJoin) {
  const std::string first = open(1, 11);
  EXPECT_TRUE(ask(1, rank_key()));
  hang_up(1);
  EXPECT_NE(open(2, 12), first) << "nobody has told of the end";
  EXPECT_EQ(live_.size(), 1u);
  tell(1);
  EXPECT_EQ(bound(), 1u) << "an end that is told twice counts once";
}

TEST_F(LaunchRunsTest, ALaunchThatIsRefusedLeavesNothingAndTheNextOneStarts) {
  for (int round = 0; round < 33; ++round) {
    refusals_ = 2;
    for (const std::uint64_t rank : {1u, 2u}) {
      const auto refused = bind(10 * round + rank, rank, join());
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::quota_exceeded);
    }
    EXPECT_TRUE(live_.empty());
    EXPECT_EQ(bound(), 0u);
    const std::string run = open(10 * round + 3, 3);
    EXPECT_TRUE(live_.contains(run));
    EXPECT_TRUE(ask(10 * round + 3, rank_key()));
    hang_up(10 * round + 3);
    tell(10 * round + 3);
    EXPECT_TRUE(live_.empty()) << round;
  }
}

TEST_F(LaunchRunsTest, AStoreThatRestsGoesOnWhileItsKeysAreThere) {
  const tcpstore::MessageHead get{Query::get, "k"};
  const std::string run = open(1, 11, get);
  hang_up(1);
  tell(1);
  EXPECT_EQ(open(2, 12, get), run);
  EXPECT_EQ(resumed_, std::vector<std::string>{run});
  hang_up(2);
  tell(2);
  kept_.clear();  // the keys were erased
  EXPECT_NE(open(3, 13, get), run);
  EXPECT_EQ(resumed_.size(), 1u);
}

TEST_F(LaunchRunsTest, ARankThatIsTakenIsRefusedAndAYoungRunCloses) {
  const std::string run = open(1, 11);
  EXPECT_EQ(open(2, 12), run);
  EXPECT_TRUE(ask(1, rank_key()));
  const Result<void> refused = ask(2, rank_key());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::rank_taken);
  EXPECT_EQ(closed_.size(), 2u) << "all connections of a run that is younger than a minute";
  turn();
  EXPECT_TRUE(live_.empty());
  EXPECT_EQ(bound(), 0u);
}

TEST_F(LaunchRunsTest, AConnectionThatMustCloseBeforeItsSessionIsOpenClosesThen) {
  const std::string run = open(1, 11);
  ASSERT_TRUE(bind(2, 12, join()));  // its session opens on another loop, later
  EXPECT_TRUE(runs_->end(run));
  turn();
  EXPECT_EQ(closed_.count(1), 1u);
  EXPECT_EQ(closed_.count(2), 0u);
  runs_->opened(2, [this](const Failure& why) { closed_[2] = why.detail; });
  turn();
  EXPECT_NE(closed_[2].find("was ended by a request"), std::string::npos) << closed_[2];
  tell(2);
  EXPECT_EQ(bound(), 0u);
  EXPECT_EQ(runs_->end(run).error().code, Code::not_found);
}

TEST_F(LaunchRunsTest, TwoJobsAndTwoListenersOfOneJob) {
  int made = 0;
  Launches launches([&](const std::string& job) {
    ++made;
    return std::make_shared<LaunchRuns>(loop_, job, LaunchRuns::Directory{});
  });
  const auto digits = launches.of("digits");
  EXPECT_EQ(launches.of("digits"), digits) << "the second listener";
  auto letters = launches.of("letters");
  EXPECT_NE(letters, digits);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(launches.find("letters"), letters);
  letters.reset();
  EXPECT_EQ(launches.find("letters"), nullptr) << "neither a listener nor a connection";
  EXPECT_NE(launches.of("letters"), nullptr);
  EXPECT_EQ(made, 3);
}

}  // namespace
}  // namespace c10dd::daemon
