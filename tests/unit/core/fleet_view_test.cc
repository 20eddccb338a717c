// SPDX-License-Identifier: Apache-2.0
// How silence is counted, and what follows from it.
#include "daemon/core/directory/fleet_view.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kSelf = 1;
constexpr std::uint64_t kOther = 2;

class FleetViewTest : public testing::Test {
 protected:
  store::DaemonRow row(std::uint64_t process, std::uint64_t beats, bool draining = false) {
    return {{process, {"host" + std::to_string(process) + ":1"}, "1", seconds(2), draining}, beats};
  }
  /// Reads after `passed`, when the other daemon has sent so many heartbeats.
  void read(Duration passed, std::uint64_t beats) {
    now_ += passed;
    view_.read({row(kSelf, 1), row(kOther, beats)}, now_);
  }
  ClaimDecision decide_claim(std::uint64_t beats) {
    return view_.decide_claim({{1, kOther}, beats});
  }
  Duration silent() { return view_.daemons().at(kOther).silent; }

  FleetView view_{kSelf, seconds(2)};
  SteadyTime now_{seconds(100)};
};

TEST_F(FleetViewTest, CountsTheTimeBetweenReadingsWithoutAHeartbeat) {
  read({}, 1);
  EXPECT_EQ(silent(), Duration(0));
  read(milliseconds(300), 1);
  EXPECT_EQ(silent(), milliseconds(300));
  read(milliseconds(400), 1);
  EXPECT_EQ(silent(), milliseconds(700));
  read(milliseconds(400), 2);
  EXPECT_EQ(silent(), Duration(0)) << "a heartbeat";
}

TEST_F(FleetViewTest, CountsAtMostOneIntervalForAReading) {
  read({}, 1);
  read(seconds(1000), 1);
  EXPECT_EQ(silent(), milliseconds(400)) << "this process was paused, or the server hung";
}

TEST_F(FleetViewTest, TakesOverAfterALeaseOfSilence) {
  read({}, 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::redirect);
  EXPECT_EQ(decide_claim(7).addresses, std::vector<std::string>{"host2:1"});
  read(milliseconds(400), 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::redirect) << "one heartbeat may be late";
  read(milliseconds(400), 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::wait);
  EXPECT_EQ(decide_claim(7).again, milliseconds(500));
  read(milliseconds(400), 7);
  read(milliseconds(400), 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::wait);
  EXPECT_EQ(decide_claim(7).again, milliseconds(400)) << "what is left of the lease";
  read(milliseconds(399), 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::wait);
  EXPECT_EQ(decide_claim(7).again, milliseconds(200)) << "not too often";
  read(milliseconds(1), 7);
  EXPECT_EQ(decide_claim(7).kind, ClaimDecision::Kind::take_over);
  EXPECT_EQ(decide_claim(8).kind, ClaimDecision::Kind::wait) << "it has sent a heartbeat since";
}

TEST_F(FleetViewTest, WaitsForADaemonThatHandsItsJobsOver) {
  view_.read({row(kOther, 1, true)}, now_);
  EXPECT_EQ(decide_claim(1).kind, ClaimDecision::Kind::wait);
  EXPECT_EQ(decide_claim(1).again, milliseconds(100));
}

TEST_F(FleetViewTest, WaitsToHearOfADaemonThatHasJustJoined) {
  view_.read({row(kSelf, 1)}, now_);
  EXPECT_EQ(decide_claim(1).kind, ClaimDecision::Kind::wait);
  EXPECT_EQ(decide_claim(1).owner, "");
}

TEST_F(FleetViewTest, EndsItsOwnLeaseEarly) {
  EXPECT_EQ(view_.lease_end(now_), now_ + milliseconds(1800));
  EXPECT_EQ(view_.interval(), milliseconds(400));
}

TEST_F(FleetViewTest, ListsTheAddressesOfThoseThatAreHeard) {
  read({}, 1);
  EXPECT_EQ(view_.addresses(), (std::vector<std::string>{"host1:1", "host2:1"}));
  EXPECT_EQ(view_.others(), std::vector<std::string>{"host2:1"});
  std::uint64_t own = 1;
  for (int i = 0; i < 5; ++i) {
    now_ += milliseconds(400);
    view_.read({row(kSelf, ++own), row(kOther, 1)}, now_);
  }
  EXPECT_EQ(view_.addresses(), std::vector<std::string>{}) << "this one is alone";
  EXPECT_EQ(view_.others(), std::vector<std::string>{});
}

TEST_F(FleetViewTest, RefusesAnotherLeaseOrAnAddressThatIsTaken) {
  read({}, 1);
  store::DaemonFacts self{3, {"host3:1"}, "1", seconds(2), false};
  EXPECT_FALSE(conflict_of(self, view_));
  self.lease = seconds(3);
  EXPECT_EQ(conflict_of(self, view_)->reason,
            "--lease is 3 s, but the daemon at host1:1 has a lease of 2 s; use the same lease for "
            "all daemons of an engine");
  self.lease = seconds(2);
  self.addresses = {"host3:1", "host2:1"};
  EXPECT_EQ(conflict_of(self, view_)->with, kOther);
  for (int i = 0; i < 5; ++i) read(milliseconds(400), 1);
  EXPECT_FALSE(conflict_of(self, view_)) << "the one that has the address is dead";
}

TEST_F(FleetViewTest, AFullFleetHasRoomOnceADaemonIsDead) {
  const store::DaemonFacts self{1000, {"new:1"}, "1", seconds(2), false};
  std::vector<store::DaemonRow> rows;
  for (std::uint64_t n = 1; n <= limits::kDaemons; ++n) rows.push_back(row(n, 1));
  view_.read(rows, now_);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(conflict_of(self, view_));
    EXPECT_NE(conflict_of(self, view_)->reason.find("64 daemons, limit 64"), std::string::npos);
    for (store::DaemonRow& other : rows) other.beats += other.facts.process == 7 ? 0 : 1;
    view_.read(rows, now_ += milliseconds(400));
    EXPECT_EQ(conflict_of(self, view_).has_value() ? conflict_of(self, view_)->with : 7, 7U);
  }
  EXPECT_FALSE(conflict_of(self, view_));
  for (const auto& [process, other] : view_.daemons()) {
    EXPECT_EQ(view_.is_over(other, self), process == 7) << process;
  }
  view_.read({row(7, 1)}, now_);
  EXPECT_FALSE(view_.is_over(view_.daemons().at(7), self)) << "there is room";
}

TEST_F(FleetViewTest, WaitsForTheLongerLeaseOfAnother) {
  store::DaemonRow slow = row(kOther, 1);
  slow.facts.lease = seconds(60);
  view_.read({slow}, now_);
  for (int i = 0; i < 149; ++i) view_.read({slow}, now_ += milliseconds(400));
  EXPECT_EQ(decide_claim(1).kind, ClaimDecision::Kind::wait);
  view_.read({slow}, now_ += milliseconds(400));
  EXPECT_EQ(decide_claim(1).kind, ClaimDecision::Kind::take_over);
}

}  // namespace
}  // namespace c10dd::core
