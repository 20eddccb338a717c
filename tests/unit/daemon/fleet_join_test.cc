// SPDX-License-Identifier: Apache-2.0
// A daemon joins a fleet: over a server that is weak, was rolled back, refuses or closes the link
// at each step, and daemons that live, are dead, or have another lease.
#include <string>
#include <vector>

#include "protocol/limits.h"
#include "tests/unit/daemon/fleet_world.h"

namespace c10dd::daemon {
namespace {

using test::FakeReply;
using test::resp_text;

class FleetJoinTest : public FleetWorld {
 protected:
  void write_mark(std::uint64_t heartbeat_count) const {
    core::StateMark mark;
    mark.heartbeat_count = heartbeat_count;
    MarkFile file(options_.mark);
    EXPECT_TRUE(file.read());
    EXPECT_TRUE(file.write_first(mark));
  }
  std::string join() { return failure_of(fleet_->join()); }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(FleetJoinTest, TheFirstHeartbeatTellsWhoItIs) {
  EXPECT_EQ(join(), "");
  ASSERT_EQ(beats().size(), 1u);
  const store::DaemonFacts facts = beats()[0];
  EXPECT_EQ(facts.process, store::this_process());
  EXPECT_EQ(facts.addresses, std::vector<std::string>{kOwn});
  EXPECT_EQ(facts.lease, options_.lease);
  EXPECT_FALSE(facts.draining);
  EXPECT_TRUE(facts.relay_key.is_set());
  EXPECT_TRUE(daemon_.host.directory().fleet().has_value());
  EXPECT_GT(fleet_->news().lease_end, daemon_.loop.boot_now());
  EXPECT_EQ(mark().heartbeat_count, 5u);
  EXPECT_EQ(fleet_->accepted_loss(), "");
  EXPECT_TRUE(removed().empty());
  make();
  EXPECT_EQ(join(), "");
  EXPECT_FALSE(beats().at(1).relay_key == facts.relay_key) << "a key is drawn for each start";
}

TEST_F(FleetJoinTest, AnotherLeaseIsRefused) {
  reading_.daemons = {daemon_row(7, {"b:1"}, std::chrono::minutes(1), 1)};
  options_.lease = std::chrono::milliseconds(10);
  make();
  std::deque<FakeReply> lives;
  for (std::uint64_t beats = 1; beats < 9; ++beats) {
    reading_.daemons[0].beats = beats;
    lives.push_back({fleet_text(reading_)});
  }
  redis_.say("beat", lives);
  const std::string why = join();
  EXPECT_TRUE(has(why, "--lease is 0.01 s, but the daemon at b:1 has a lease of 60 s")) << why;
  EXPECT_EQ(code_, Code::invalid_argument);
  EXPECT_EQ(beats().size(), 0u);
  EXPECT_EQ(readings(), 4u) << "a row of a dead daemon would not have changed";
}

TEST_F(FleetJoinTest, WaitsForTheLeaseOfADeadDaemonOfItsAddressAndRemovesItsRow) {
  options_.lease = std::chrono::milliseconds(50);
  make();
  add(7, kOwn, 9);
  add(8, "b:1", 3);
  show();
  EXPECT_EQ(join(), "");
  EXPECT_EQ(removed(), std::vector<std::string>{store::redis_process(7) + " 9"});
  EXPECT_GT(readings(), 5u);
  EXPECT_EQ(beats().size(), 1u);
  redis_.say("leave", {{"+lie\r\n"}});
  make();
  EXPECT_NE(join(), "");
  EXPECT_EQ(code_, Code::unavailable);
  EXPECT_EQ(beats().size(), 1u);
}

TEST_F(FleetJoinTest, ADaemonOfItsAddressThatLivesIsNamed) {
  options_.lease = std::chrono::milliseconds(10);
  make();
  add(7, kOwn);
  std::deque<FakeReply> lives;
  for (std::uint64_t beats = 1; beats < 9; ++beats) {
    reading_.daemons[0].beats = beats;
    lives.push_back({fleet_text(reading_)});
  }
  redis_.say("beat", lives);
  EXPECT_TRUE(has(join(), std::string("already has the address ") + kOwn));
  EXPECT_EQ(code_, Code::invalid_argument);
  EXPECT_TRUE(beats().empty() && removed().empty());
}

TEST_F(FleetJoinTest, AWeakServerIsRefusedUnlessTheOptionsAcceptIt) {
  redis_.say("CONFIG", server_settings("everysec"));
  EXPECT_TRUE(has(join(), "the setting appendfsync is everysec, but must be always: acknowledged"));
  EXPECT_EQ(code_, Code::invalid_argument);
  EXPECT_EQ(redis_.server().asked("beat"), 0);
  redis_.say("CONFIG", server_settings("everysec"));
  options_.redis_accept_weak_durability = true;
  EXPECT_EQ(join(), "");
  EXPECT_EQ(fleet_->not_ready(), "");
  options_.redis_accept_weak_durability = false;
  make();
  redis_.say("probe", {{test::resp_array({resp_text("HSET"), resp_text("NOPERM")})}});
  EXPECT_TRUE(has(join(), "may not run HSET"));
  EXPECT_EQ(code_, Code::permission_denied);
}

TEST_F(FleetJoinTest, ALinkThatEndsAtAnyStepIsAFailureAndTheNextStartJoins) {
  const FakeReply good{fleet_text(reading_)};
  const std::size_t count = 3;  // two readings and a heartbeat
  for (std::size_t before = 0; before < count; ++before) {
    std::deque<FakeReply> replies(before, good);
    replies.push_back(last(good.bytes.substr(0, good.bytes.size() * before / count)));
    redis_.say("beat", replies);
    make();
    EXPECT_NE(join(), "") << before;
    EXPECT_EQ(code_, Code::unavailable);
    EXPECT_EQ(fleet_->news().addresses.size(), 0u);
  }
  redis_.say("beat", {good, good, {"*1\r\n$4\r\nfull\r\n"}});
  make();
  EXPECT_NE(join(), "");
  EXPECT_EQ(code_, Code::quota_exceeded);
  show();
  make();
  EXPECT_EQ(join(), "");
}

TEST_F(FleetJoinTest, AStateThatWasRolledBackIsRefusedUntilTheLossIsAccepted) {
  write_mark(10);
  EXPECT_TRUE(has(join(), "heartbeat count 5, but the count was 10 before"));
  EXPECT_EQ(code_, Code::state_rolled_back);
  EXPECT_TRUE(beats().empty());
  EXPECT_EQ(mark().heartbeat_count, 10u) << "the next start must see it, too";
  options_.accept_rollback = true;
  make();
  EXPECT_EQ(join(), "");
  EXPECT_TRUE(has(fleet_->accepted_loss(), "heartbeat count 5, but the count was 10 before"));
  EXPECT_EQ(mark().heartbeat_count, 10u) << "not before the new incarnation is durable";
  redis_.say("accept", {{"+lie\r\n"}});
  EXPECT_NE(failure_of(fleet_->accept_loss("new")), "");
  EXPECT_NE(fleet_->rolled_back(), "");
}

TEST_F(FleetJoinTest, AnAcceptedLossIsToldToAll) {
  write_mark(10);
  options_.accept_rollback = true;
  make();
  EXPECT_EQ(join(), "");
  EXPECT_NE(fleet_->rolled_back(), "");
  EXPECT_EQ(failure_of(fleet_->accept_loss("new")), "");
  EXPECT_EQ(fleet_->rolled_back(), "");
  ASSERT_EQ(redis_.commands("accept").size(), 1u);
  EXPECT_EQ(redis_.commands("accept")[0].at(4), "new");
  reading_.incarnation = reading_.accepted = "new";
  show();
  fleet_->start(daemon_.shards());
  EXPECT_TRUE(daemon_.turn_until([&] { return mark().incarnation == "new"; }));
  EXPECT_EQ(mark().heartbeat_count, 5u);
}

TEST_F(FleetJoinTest, AMarkFileThatIsNoneOrCannotBeUsed) {
  write_mark(3);
  EXPECT_EQ(join(), "");
  EXPECT_EQ(mark().heartbeat_count, 5u);
  options_.mark = home_.path() + "/damaged";
  std::ofstream(options_.mark) << std::string(16'384, 'x');
  make();
  EXPECT_NE(join(), "");
  EXPECT_EQ(code_, Code::malformed);
  options_.accept_rollback = true;
  make();
  EXPECT_EQ(join(), "");
  EXPECT_EQ(mark().heartbeat_count, 5u);
  options_.mark = home_.path() + "/no-directory/mark";
  make();
  EXPECT_TRUE(has(join(), "give a file that this daemon can write"));
  EXPECT_EQ(code_, Code::invalid_argument);
}

}  // namespace
}  // namespace c10dd::daemon
