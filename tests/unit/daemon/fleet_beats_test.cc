// SPDX-License-Identifier: Apache-2.0
// Heartbeats, readings and looks of a daemon that has joined: over a server that is late, closes
// the link, is another one, or has other settings, and over loops that do not turn.
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/daemon/fleet_world.h"
#include "tests/unit/daemon/native_peer.h"

namespace c10dd::daemon {
namespace {

using test::FakeReply;

class FleetBeatsTest : public FleetWorld {
 protected:
  /// With heartbeats every 60 ms.
  void beat_often() {
    options_.lease = std::chrono::milliseconds(300);
    make();
  }
  /// Turns until so many more heartbeats or readings have come.
  bool more_beats(std::size_t count) {
    return daemon_.turn_until([&, end = beats().size() + count] { return beats().size() >= end; });
  }
  bool more_readings(std::size_t count) {
    return daemon_.turn_until([&, end = readings() + count] { return readings() >= end; });
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(FleetBeatsTest, StartsWithAHeartbeatOnANewLink) {
  ASSERT_EQ(failure_of(fleet_->join()), "");
  EXPECT_EQ(redis_.server().connections(), 2) << "the link, and that of the watch";
  fleet_->start(daemon_.shards());
  EXPECT_EQ(beats().size(), 2u) << "before a loop turns";
  EXPECT_EQ(redis_.server().connections(), 3);
  EXPECT_EQ(readings(), 2u) << "those of join()";
}

TEST_F(FleetBeatsTest, GoesOnAndKeepsTheMark) {
  beat_often();
  join_and_start();
  EXPECT_TRUE(more_beats(3));
  EXPECT_EQ(readings(), 2u) << "those of join()";
  reading_.heartbeat_count = 9;
  show();
  EXPECT_TRUE(daemon_.turn_until([&] { return mark().heartbeat_count == 9; }));
}

TEST_F(FleetBeatsTest, BothShardsHearOfTheOtherDaemons) {
  daemon_.options.engine = "memory:";
  add(7, "b:1");
  show();
  join_and_start();
  NativePeer first(daemon_);
  NativePeer second(daemon_);
  first.connect(NativePeer::frame(NativePeer::hello_of(1, "a")));
  second.connect(NativePeer::frame(NativePeer::hello_of(2, "b")));
  const Welcome one = first.next().as<Welcome>();
  const Welcome two = second.next().as<Welcome>();
  ASSERT_NE(&daemon_.shards().of(one.job), &daemon_.shards().of(two.job));
  daemon_.host.report_lost(1, "a disk");
  for (NativePeer* peer : {&first, &second}) {
    const NativeReply reply = peer->next();
    ASSERT_EQ(reply.code(), Code::unavailable);
    EXPECT_EQ(reply.reply.error().addresses, std::vector<std::string>{"b:1"});
  }
}

TEST_F(FleetBeatsTest, AHeartbeatSaysThatEveryLoopTurns) {
  beat_often();
  join_and_start();
  ASSERT_TRUE(more_beats(1));
  // Only the first loop turns, for some intervals.
  bool over = false;
  asio::steady_timer timer(daemon_.loop, options_.lease);
  timer.async_wait([&](const ErrorCode&) { over = true; });
  daemon_.loop.restart();
  daemon_.loop.poll();
  const std::size_t before = beats().size();
  while (!over) {
    daemon_.loop.restart();
    daemon_.loop.run_one_for(std::chrono::seconds(60));
  }
  EXPECT_LE(beats().size(), before + 1) << "one was under way";
  EXPECT_TRUE(more_beats(2));
}

TEST_F(FleetBeatsTest, NoneWhileACommitIsStuck) {
  beat_often();
  join_and_start();
  age_ = std::chrono::hours(1);
  EXPECT_TRUE(more_readings(1));
  const std::size_t before = beats().size();
  EXPECT_TRUE(more_readings(2));
  EXPECT_EQ(beats().size(), before);
  age_ = Duration{0};
  EXPECT_TRUE(more_beats(1));
}

TEST_F(FleetBeatsTest, FailuresEndTheLeaseAndAHeartbeatRenewsIt) {
  beat_often();
  join_and_start();
  redis_.say("beat", {last("")});
  EXPECT_TRUE(daemon_.turn_until([&] { return !fleet_->not_ready().empty(); }));
  EXPECT_TRUE(has(fleet_->not_ready(), "this daemon's lease has expired"));
  EXPECT_TRUE(has(fleet_->link_failure(), "closed the connection")) << fleet_->link_failure();
  redis_.say("beat", {{fleet_text(reading_).substr(0, 9), FakeReply::Then::close}});
  EXPECT_TRUE(more_beats(2));
  show();
  EXPECT_TRUE(daemon_.turn_until([&] { return fleet_->not_ready().empty(); }));
  EXPECT_EQ(fleet_->link_failure(), "");
  EXPECT_TRUE(lost_.empty());
}

TEST_F(FleetBeatsTest, AnEngineOnAnotherServerIsLeftBehind) {
  beat_often();
  join_and_start();
  server_ = "another";
  EXPECT_TRUE(daemon_.turn_until([&] { return !lost_.empty(); }));
  EXPECT_TRUE(has(lost_[0], "another server is now the master")) << lost_[0];
  const std::size_t before = beats().size();
  EXPECT_TRUE(daemon_.turn_until([&] { return lost_.size() >= 3; }));
  EXPECT_EQ(beats().size(), before) << "no heartbeat says that the other server's jobs are served";
  server_ = kServer;
  EXPECT_TRUE(more_beats(1));
}

TEST_F(FleetBeatsTest, TheFirstHeartbeatGoesToTheServerOfTheEngineToo) {
  ASSERT_EQ(failure_of(fleet_->join()), "");
  server_ = "another";
  fleet_->start(daemon_.shards());
  EXPECT_EQ(beats().size(), 1u) << "that of join()";
}

TEST_F(FleetBeatsTest, AfterALossItReadsOnANewLinkBeforeTheEngineMayOpen) {
  join_and_start();
  EXPECT_TRUE(fleet_->may_open());
  const int links = redis_.server().connections();
  for (int round = 1; round < 4; ++round) {
    fleet_->engine_lost("");
    EXPECT_FALSE(fleet_->may_open());
    EXPECT_TRUE(daemon_.turn_until([&] { return fleet_->may_open(); }));
    EXPECT_EQ(redis_.server().connections(), links + round);
    EXPECT_EQ(readings(), 2u + static_cast<std::size_t>(round));
  }
  EXPECT_EQ(fleet_->rolled_back(), "");
}

TEST_F(FleetBeatsTest, AReadingFromBeforeTheLossDoesNotLetTheEngineOpen) {
  beat_often();
  join_and_start();
  redis_.say("beat", {late(fleet_text(reading_)), last("")});
  ASSERT_TRUE(daemon_.turn_until([&] { return redis_.server().held() == 1; }));
  fleet_->engine_lost("");
  redis_.server().release();
  const int before = redis_.server().asked("beat");
  EXPECT_TRUE(daemon_.turn_until(
      [&] { return redis_.server().asked("beat") > before && !fleet_->link_failure().empty(); }));
  EXPECT_FALSE(fleet_->may_open());
  show();
  EXPECT_TRUE(daemon_.turn_until([&] { return fleet_->may_open(); }));
}

TEST_F(FleetBeatsTest, ALossOfTheStateIsToldToAllAndKeepsTheEngineClosed) {
  join_and_start();
  fleet_->engine_lost("job 7 is behind");
  EXPECT_TRUE(daemon_.turn_until([&] { return redis_.commands("HSETNX").size() == 1; }));
  const auto told = redis_.commands("HSETNX")[0];
  EXPECT_EQ(told.at(1), store::redis_heartbeat_count_key("c10dd"));
  EXPECT_EQ(told.at(2), "rolled_back");
  EXPECT_EQ(told.at(3), std::string("job 7 is behind (noticed by ") + kOwn + ")");
  EXPECT_EQ(fleet_->rolled_back(), "job 7 is behind");
  EXPECT_TRUE(has(fleet_->not_ready(), "state_rolled_back: job 7 is behind"));
  EXPECT_FALSE(fleet_->may_open());
  EXPECT_EQ(lost_, std::vector<std::string>{"job 7 is behind"});
}

TEST_F(FleetBeatsTest, RemovesTheRowsOfDeadDaemons) {
  beat_often();
  add(7, kOwn, 9);
  add(8, "b:1", 3);
  show();
  join_and_start();
  EXPECT_TRUE(daemon_.turn_until([&] { return removed().size() >= 3; })) << "the row stays";
  for (const std::string& one : removed()) EXPECT_EQ(one, store::redis_process(7) + " 9");
}

TEST_F(FleetBeatsTest, LeavesWithTheHeartbeatsOfItsOwnRow) {
  add(8, "b:1", 3);
  add(store::this_process(), kOwn, 4);
  add(store::this_process() + 1, "c:1", 5);
  show();
  join_and_start();
  fleet_->leave();
  EXPECT_EQ(removed(),
            std::vector<std::string>{store::redis_process(store::this_process()) + " 4"});
}

TEST_F(FleetBeatsTest, LeavingWithoutALinkOrARowRemovesNothing) {
  fleet_->leave();
  make();
  ASSERT_EQ(failure_of(fleet_->join()), "");
  fleet_->leave();  // somebody has removed its row
  make();
  ASSERT_EQ(failure_of(fleet_->join()), "");
  redis_.say("beat", {last("")});
  fleet_->leave();
  EXPECT_TRUE(removed().empty());
}

TEST_F(FleetBeatsTest, ADrainIsToldWithTheNextHeartbeat) {
  beat_often();
  join_and_start();
  EXPECT_FALSE(beats().back().draining);
  fleet_->drain();
  EXPECT_TRUE(daemon_.turn_until([&] { return beats().back().draining; }));
}

// ---- looks at the server -----------------------------------------------------------------------

class FleetLooksTest : public FleetBeatsTest {
 protected:
  /// The looks after that of join() show these settings, one look each; then the server closes.
  void look_at(const std::vector<std::string>& appendfsync) {
    std::deque<FakeReply> all = server_settings("always");
    for (const std::string& setting : appendfsync) {
      const auto look = server_settings(setting);
      all.insert(all.end(), look.begin(), look.end());
    }
    all.push_back(last(""));
    make(std::chrono::milliseconds(10), all);
  }
};

TEST_F(FleetLooksTest, SettingsThatBecomeWeakAreShownUntilTheyAreStrongAgain) {
  look_at({"always", "everysec", "always"});
  join_and_start();
  EXPECT_EQ(fleet_->not_ready(), "");
  ASSERT_TRUE(daemon_.turn_until([&] { return durabilities_.size() == 1; }));
  EXPECT_TRUE(has(fleet_->not_ready(),
                  "the setting appendfsync is everysec, but must be always: "
                  "jobs are served, but acknowledged changes may be lost"))
      << fleet_->not_ready();
  ASSERT_TRUE(daemon_.turn_until([&] { return durabilities_.size() == 2; }));
  EXPECT_EQ(fleet_->not_ready(), "");
  EXPECT_EQ(durabilities_, (std::vector<std::string>{"os", "fsync"}));
}

TEST_F(FleetLooksTest, ALookThatFailsChangesNothingAndTheNextOneIsMade) {
  look_at({});
  join_and_start();
  const int links = redis_.server().connections();
  EXPECT_TRUE(daemon_.turn_until([&] { return redis_.server().connections() >= links + 3; }));
  EXPECT_EQ(fleet_->not_ready(), "");
  redis_.say("CONFIG", server_settings("no"));
  EXPECT_TRUE(daemon_.turn_until([&] { return !durabilities_.empty(); }));
  EXPECT_NE(fleet_->not_ready(), "");
  EXPECT_TRUE(lost_.empty());
}

TEST_F(FleetLooksTest, AnotherServerIsNoticedUnlessTheEngineIsClosed) {
  options_.redis_accept_weak_durability = true;
  make(std::chrono::milliseconds(10));
  join_and_start();
  server_.clear();  // it is closed
  const auto looks = [&] { return redis_.server().asked("CONFIG"); };
  EXPECT_TRUE(daemon_.turn_until([&, end = looks() + 21] { return looks() >= end; }));
  EXPECT_TRUE(lost_.empty());
  server_ = "the former master";
  EXPECT_TRUE(daemon_.turn_until([&] { return !lost_.empty(); }));
  EXPECT_TRUE(has(lost_[0], "the engine was opened on another server"));
}

}  // namespace
}  // namespace c10dd::daemon
