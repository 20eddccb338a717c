// SPDX-License-Identifier: Apache-2.0
// When a daemon sends heartbeats, and what each of them is worth.
#include "daemon/core/fleet/fleet_member.h"

#include "tests/unit/core/host_world.h"

namespace c10dd::core {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;
using std::chrono::seconds;

class FleetMemberTest : public testing::Test, private FleetMember::Shell {
 protected:
  FleetMemberTest() {
    member.joined(world.clock);
    member.engine_opened();
  }

  void turn_all(std::function<void()> then) override { turns.push_back(std::move(then)); }
  void ask(bool beats, const store::DaemonFacts& facts,
           std::function<void(FleetMember::Heard)> then) override {
    did.push_back(beats ? facts.draining ? "beat draining" : "beat" : "read");
    answer = std::move(then);
  }
  void remove(std::uint64_t process, std::uint64_t beats) override {
    did.push_back("remove " + std::to_string(process) + " " + std::to_string(beats));
  }
  void report_rollback(const std::string& what) override { flags.push_back(what); }
  Duration commit_age() const override { return age; }
  Bytes incarnation() const override { return "one"; }
  void lose_engine(const std::string&) override {
    did.push_back("lose the engine");
    world.directory->lost();
    member.engine_lost("");
  }
  void tell(const FleetNews& news) override {
    told.push_back(news.lease_end);
    lapses = news.lapses;
  }
  void report(const FleetEvent& event) override {
    constexpr const char* kNames[] = {"lease over", "lease renewed", "failed", "silent",
                                      "heard",      "rolled back",   "renewed"};
    did.push_back(kNames[static_cast<std::size_t>(event.kind)]);
  }

  /// A tick, in which all loops turn.
  void tick() {
    member.tick();
    for (const auto& then : std::exchange(turns, {})) then();
  }
  /// The reply to what was asked, which shows another daemon with so many heartbeats.
  void reply(std::uint64_t beats = 1, const Bytes& incarnation = "one") {
    store::FleetReading reading;
    reading.daemons = {{self, 1}, {{2, {"host2"}, "1", HostWorld::kLease, false}, beats}};
    reading.incarnation = incarnation;
    reading.heartbeat_count = ++heartbeat_count;
    answer({reading});
  }
  /// A tick, and the reply to it.
  void tick(const store::FleetReading& reading) {
    tick();
    answer({reading});
  }
  void fail(const char* why = "no reply") { answer({unavailable(why)}); }
  Lines take() { return std::exchange(did, {}); }
  Duration silent() { return world.directory->fleet()->daemons().at(2).silent; }

  std::shared_ptr<store::SharedMemory> memory = std::make_shared<store::SharedMemory>();
  HostWorld world{memory, 1};
  const store::DaemonFacts self{1, {"host1"}, "1", HostWorld::kLease, false};
  FleetMember::Shell& shell = *this;
  FleetMember member{world.host().loop(), *world.directory, shell, self};
  std::vector<std::function<void()>> turns;
  std::function<void(FleetMember::Heard)> answer;
  Duration age{0};
  Lines did;
  Lines flags;
  std::uint64_t heartbeat_count = 0;
  std::vector<SteadyTime> told;
  std::uint64_t lapses = 0;
};

TEST_F(FleetMemberTest, AReplyThatComesAfterTheEndOfTheLeaseIsALapse) {
  tick();
  world.clock += HostWorld::kLease / 2;
  reply();
  EXPECT_EQ(lapses, 0U);
  tick();
  world.clock = told.back() - milliseconds(1);
  reply();
  EXPECT_EQ(lapses, 0U);
  // It was sent while the lease held, and the server may have taken it any time until now.
  tick();
  world.clock = told.back();
  reply();
  EXPECT_EQ(lapses, 1U);
  tick();
  reply();
  EXPECT_EQ(lapses, 1U);
}

TEST_F(FleetMemberTest, BeatsOnlyWhenEveryLoopHasTurned) {
  member.tick();
  EXPECT_EQ(take(), Lines{});
  ASSERT_EQ(turns.size(), 1U);
  member.tick();
  EXPECT_EQ(turns.size(), 1U) << "one at a time";
  turns.front()();
  EXPECT_EQ(take(), Lines{"beat"});
}

TEST_F(FleetMemberTest, OnlyReadsWhileACommitIsStuckOrTheEngineIsClosed) {
  age = HostWorld::kLease / 2 + milliseconds(1);
  tick();
  reply();
  age = HostWorld::kLease / 2;
  tick();
  reply();
  world.directory->lost();
  tick();
  EXPECT_EQ(take(), (Lines{"read", "beat", "read"}));
  EXPECT_EQ(told.size(), 1U) << "a reading renews no lease";
}

TEST_F(FleetMemberTest, RemembersTheOtherDaemonsForALeaseIfTheirRowsVanish) {
  const std::vector<std::string> other = {"host2"};
  store::FleetReading alone;
  alone.daemons = {{self, 1}};
  alone.incarnation = "one";
  tick();
  reply();
  EXPECT_EQ(member.news().others, other);
  world.clock += HostWorld::kLease - milliseconds(1);
  alone.heartbeat_count = ++heartbeat_count;
  tick(alone);
  EXPECT_EQ(member.news().others, other);
  world.clock += milliseconds(1);
  alone.heartbeat_count = ++heartbeat_count;
  tick(alone);
  EXPECT_EQ(member.news().others, std::vector<std::string>{});
}

TEST_F(FleetMemberTest, ALeaseCountsFromWhenTheHeartbeatWasSent) {
  const SteadyTime sent = world.clock;
  tick();
  world.clock += seconds(1);
  reply();
  EXPECT_EQ(told, std::vector<SteadyTime>{sent + milliseconds(1800)});
  EXPECT_EQ(member.not_ready(), "");
  world.clock = sent + milliseconds(1800);
  EXPECT_NE(member.not_ready().find("this daemon's lease has expired"), std::string::npos);
}

TEST_F(FleetMemberTest, AFailureRenewsNothingAndMakesNobodySilent) {
  tick();
  reply();
  take();
  for (int i = 0; i < 9; ++i) {
    world.clock += milliseconds(400);
    tick();
    fail(i % 2 == 0 ? "closed" : "reset");
  }
  EXPECT_EQ(silent(), Duration(0));
  EXPECT_EQ(told.size(), 1U);
  const Lines seen = take();
  EXPECT_EQ(std::ranges::count(seen, "failed"), 1) << "failures in a row are reported once";
  EXPECT_EQ(std::ranges::count(seen, "lease over"), 1);
  tick();
  reply(2);
  EXPECT_EQ(take(), (Lines{"beat", "lease renewed"}));
}

TEST_F(FleetMemberTest, ReportsWhoIsSilentAndForgetsTheDead) {
  for (int i = 0; i < 6; ++i) {
    tick();
    reply(7);
    world.clock += milliseconds(400);
  }
  Lines seen = take();
  EXPECT_EQ(std::ranges::count(seen, "silent"), 1);
  for (int i = 0; i < 9000; ++i) {
    world.clock += milliseconds(400);
    tick();
    reply(7);
  }
  seen = take();
  EXPECT_EQ(std::ranges::count(seen, "silent"), 0);
  EXPECT_NE(std::ranges::find(seen, "remove 2 7"), seen.end()) << "after an hour";
  tick();
  reply(8);
  EXPECT_EQ(take(), (Lines{"beat", "heard"}));
}

TEST_F(FleetMemberTest, RemovesTheRowOfTheDeadDaemonWhoseAddressItHas) {
  store::FleetReading reading;
  reading.incarnation = "one";
  reading.daemons = {{self, 1},
                     {{2, {"host2"}, "1", HostWorld::kLease, false}, 7},
                     {{3, {"host3", "host1"}, "1", HostWorld::kLease, false}, 5}};
  const auto removed = [this] { return std::ranges::count(take(), "remove 3 5"); };
  for (int i = 0; i < 5; ++i) {
    reading.heartbeat_count = ++heartbeat_count;
    tick(reading);
    EXPECT_EQ(removed(), 0) << "it may live";
    world.clock += milliseconds(400);
  }
  reading.heartbeat_count = ++heartbeat_count;
  tick(reading);
  const Lines seen = take();
  EXPECT_EQ(std::ranges::count(seen, "remove 3 5"), 1);
  EXPECT_EQ(std::ranges::count(seen, "remove 2 7"), 0) << "its address is its own";
}

TEST_F(FleetMemberTest, OpensTheEngineAnewIfANewLinkLeadsToAnotherServer) {
  tick();
  answer({unavailable("another server"), false});
  EXPECT_EQ(take(), (Lines{"beat", "failed"})) << "the link was old";
  tick();
  answer({unavailable("another server"), true});
  EXPECT_EQ(take(), (Lines{"beat", "lose the engine", "read"}));
  tick();
  world.directory->lost();
  member.engine_lost("");
  answer({unavailable("another server"), true});
  EXPECT_EQ(std::ranges::count(take(), "lose the engine"), 0)
      << "the question was about the engine before";
}

TEST_F(FleetMemberTest, StopsAndTellsAllDaemonsIfTheServerHasAnotherState) {
  tick();
  reply(1, "two");
  EXPECT_EQ(take(), (Lines{"beat", "rolled back", "lose the engine", "read"}));
  EXPECT_TRUE(told.empty());
  ASSERT_EQ(flags.size(), 1U);
  EXPECT_NE(flags[0].find("(noticed by host1)"), std::string::npos) << flags[0];
  EXPECT_EQ(member.not_ready().find("state_rolled_back: the state has incarnation"), 0U);
  reply(1, "one");
  EXPECT_FALSE(member.may_open()) << "what was lost once stays lost";
}

TEST_F(FleetMemberTest, OpensTheEngineAgainOnlyAfterAReadingThatBeganLater) {
  tick();
  world.directory->lost();
  member.engine_lost("");
  reply();
  EXPECT_FALSE(member.may_open()) << "the reading may be older than the loss";
  tick();
  fail();
  EXPECT_FALSE(member.may_open());
  tick();
  reply();
  EXPECT_TRUE(member.may_open());
}

TEST_F(FleetMemberTest, GoesOnWhenAnOperatorHasAcceptedTheLoss) {
  store::FleetReading reading;
  reading.incarnation = "one";
  reading.heartbeat_count = 9;
  tick(reading);
  reading.heartbeat_count = 8;
  tick(reading);
  ASSERT_EQ(flags.size(), 1U);
  reading.rolled_back = flags[0];
  answer({reading});
  EXPECT_EQ(flags.size(), 1U) << "all were told";
  EXPECT_FALSE(member.may_open());
  reading = {};
  reading.incarnation = reading.accepted = "two";
  tick(reading);
  tick(reading);
  EXPECT_TRUE(member.may_open());
  EXPECT_EQ(member.rolled_back(), "");
}

TEST_F(FleetMemberTest, ASuspicionIsALossUnlessAnOperatorHasAcceptedOneMeanwhile) {
  store::FleetReading reading;
  reading.incarnation = "one";
  tick(reading);
  take();
  world.directory->lost();
  member.engine_lost("job A is at revision 1, but 2 was durable");
  answer({reading});
  ASSERT_EQ(flags.size(), 1U);
  EXPECT_EQ(flags[0], "job A is at revision 1, but 2 was durable (noticed by host1)");
}

TEST_F(FleetMemberTest, APausedDaemonTakesAnAcceptedLossForNoOther) {
  store::FleetReading reading;
  reading.incarnation = "one";
  reading.heartbeat_count = 1000;
  tick(reading);
  take();
  world.directory->lost();
  member.engine_lost("job A is at revision 1, but 2 was durable");
  reading.incarnation = reading.accepted = "two";
  reading.heartbeat_count = 3;
  answer({reading});
  EXPECT_TRUE(flags.empty());
  tick(reading);
  EXPECT_TRUE(member.may_open());
}

TEST_F(FleetMemberTest, TellsThatItHandsItsJobsOver) {
  member.drain();
  tick();
  EXPECT_EQ(take(), Lines{"beat draining"});
}

}  // namespace
}  // namespace c10dd::core
