// SPDX-License-Identifier: Apache-2.0
// Where a daemon looks for the runs of a job, and to whom they may be moved.
#include "daemon/core/fleet/run_owners.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using NamedRun = Directory::NamedRun;

/// This daemon is 1; 2 beats, 3 has been silent for the time that a test says, 4 shuts down.
class RunOwnersTest : public testing::Test {
 protected:
  RunOwnersTest() { read(); }

  void read() {
    ++beats_;
    view_.read({row(1, beats_), row(2, beats_), row(3, 1), row(4, beats_, true)}, now_);
  }
  static store::DaemonRow row(std::uint64_t process, std::uint64_t beats, bool draining = false) {
    return {{process, {"host" + std::to_string(process) + ":1"}, "1", seconds(2), draining}, beats};
  }
  void pass(int intervals) {
    for (int i = 0; i < intervals; ++i) {
      now_ += view_.interval();
      read();
    }
  }
  RunOwners of(const std::vector<std::optional<store::Owner>>& owners) const {
    std::vector<NamedRun> runs;
    for (std::size_t n = 0; n < owners.size(); ++n) runs.push_back({"a", "r", n + 1});
    return run_owners(runs, owners, view_);
  }
  std::string refusal(const std::string& address) const {
    const Result<store::DaemonFacts> target = target_of_move(address, view_);
    EXPECT_FALSE(target) << address;
    return target ? "" : std::string(name_of(target.error().code)) + ": " + target.error().detail;
  }

  FleetView view_{1, seconds(2)};
  SteadyTime now_{seconds(100)};
  std::uint64_t beats_ = 0;
};

TEST_F(RunOwnersTest, SortsRunsByWhoMayServeThem) {
  const RunOwners found = of({std::nullopt, store::Owner{1, 1}, store::Owner{1, 2},
                              store::Owner{5, 77}, store::Owner{2, 2}});
  ASSERT_EQ(found.claimable.size(), 3U);
  EXPECT_EQ(found.claimable[0].number, 1U) << "nobody owns it";
  EXPECT_EQ(found.claimable[1].number, 2U) << "this daemon owns it";
  EXPECT_EQ(found.claimable[2].number, 4U) << "its owner has left the fleet";
  ASSERT_EQ(found.elsewhere.size(), 1U);
  EXPECT_EQ(found.elsewhere[0].process, 2U);
  EXPECT_EQ(found.elsewhere[0].runs.size(), 2U);
  EXPECT_FALSE(found.undecided);
}

TEST_F(RunOwnersTest, WaitsForASilentOwnerAndThenTakesOver) {
  EXPECT_EQ(of({store::Owner{1, 3}}).elsewhere.size(), 1U);
  pass(2);
  const RunOwners silent = of({store::Owner{1, 3}});
  ASSERT_TRUE(silent.undecided);
  EXPECT_EQ(silent.undecided->code, Code::unavailable);
  EXPECT_GT(silent.undecided->retry_after, Duration(0));
  EXPECT_EQ(silent.undecided->detail,
            "job \"a\" belongs to the daemon at host3:1, which has been silent for 0.8 s of its "
            "lease of 2 s; try again soon");
  pass(3);
  EXPECT_EQ(of({store::Owner{1, 3}}).claimable.size(), 1U);
}

TEST_F(RunOwnersTest, WaitsForADaemonThatShutsDown) {
  const RunOwners found = of({store::Owner{1, 4}});
  ASSERT_TRUE(found.undecided);
  EXPECT_NE(found.undecided->detail.find("host4:1, which is shutting down"), std::string::npos);
}

TEST_F(RunOwnersTest, NamesTheOwnerOfARun) {
  const RunOwner other = owner_of({"a", "", 1}, store::Owner{5, 2}, view_);
  EXPECT_EQ(other.addresses, std::vector<std::string>{"host2:1"});
  EXPECT_FALSE(other.here);
  EXPECT_TRUE(owner_of({"a", "", 1}, store::Owner{5, 1}, view_).here);
  EXPECT_TRUE(owner_of({"a", "", 1}, store::Owner{5, 77}, view_).addresses.empty());
  EXPECT_FALSE(owner_of({"a", "", 1}, std::nullopt, view_).owner);
}

TEST_F(RunOwnersTest, AJobIsMovedOnlyToADaemonThatCanServeIt) {
  EXPECT_EQ(target_of_move("host2:1", view_)->process, 2U);
  EXPECT_EQ(target_of_move("host1:1", view_)->process, 1U) << "this daemon";
  EXPECT_EQ(refusal("host9:1"),
            "invalid_argument: move: no daemon of the fleet has the address host9:1; use one of: "
            "host1:1, host2:1, host3:1");
  EXPECT_EQ(refusal("host4:1"),
            "unavailable: move: the daemon at host4:1 is shutting down; use one of: host1:1, "
            "host2:1, host3:1");
  pass(2);
  EXPECT_EQ(refusal("host3:1"),
            "unavailable: move: the daemon at host3:1 has been silent for 0.8 s, its lease is 2 s; "
            "use one of: host1:1, host2:1");
}

TEST_F(RunOwnersTest, ADeadDaemonDoesNotHideTheOneThatHasItsAddressNow) {
  pass(5);
  store::DaemonRow next = row(5, 1);
  next.facts.addresses = {"host3:1"};
  view_.read({row(1, 9), row(3, 1), next}, now_);
  EXPECT_EQ(target_of_move("host3:1", view_)->process, 5U);
}

}  // namespace
}  // namespace c10dd::core
