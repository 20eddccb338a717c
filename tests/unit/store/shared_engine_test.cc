// SPDX-License-Identifier: Apache-2.0
// The contract of engines that daemons share, and of their fleet: in memory and on a real Redis.
#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "store/fleet.h"
#include "store/memory_engine.h"
#include "store/server_watch.h"
#include "tests/unit/store/engine_home.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd::store {
namespace {

constexpr JobNumber kSharedJob = 7;

/// Opens engines and links to the fleet for several daemons on one state.
class SharedEngine : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "memory") {
      memory_ = std::make_shared<SharedMemory>();
    } else {
      if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
      server_ = std::make_unique<RedisServer>();
    }
    fleet_ = memory_ ? open_fleet_on(memory_) : std::move(open_fleet(server_->url()).value());
    for (std::uint64_t process : {1, 2}) {
      engines_[process] =
          memory_ ? open_on(memory_, process)
                  : std::move(open_engine(server_->url(), {.process = process}).value());
      beat(process);
    }
    owned(1, {}, 0);
  }

  Engine& engine(std::uint64_t process) { return *engines_[process]; }

  void beat(std::uint64_t process) {
    const Result<FleetReading> reading = fleet_->beat(
        {process, {"host:" + std::to_string(process)}, "1", std::chrono::seconds(2), false});
    ASSERT_TRUE(reading) << reading.error().detail;
  }

  ClaimReply claim(std::uint64_t process, const ClaimTerms& terms = {},
                   JobNumber job = kSharedJob) {
    Result<ClaimReply> reply = engine(process).claim(job, terms);
    EXPECT_TRUE(reply) << reply.error().detail;
    return reply ? *reply : ClaimReply(Gone{});
  }
  Epoch owned(std::uint64_t process, const ClaimTerms& terms = {}, JobNumber job = kSharedJob) {
    const ClaimReply reply = claim(process, terms, job);
    EXPECT_TRUE(std::holds_alternative<Claim>(reply)) << "process " << process;
    return std::holds_alternative<Claim>(reply) ? std::get<Claim>(reply).epoch : 0;
  }
  Holder held(std::uint64_t process, const ClaimTerms& terms = {}) {
    const ClaimReply reply = claim(process, terms);
    EXPECT_TRUE(std::holds_alternative<Holder>(reply)) << "process " << process;
    return std::holds_alternative<Holder>(reply) ? std::get<Holder>(reply) : Holder{};
  }
  Outcome commit(std::uint64_t process, const JobBatch& batch) {
    return engine(process).commit({&batch, 1}).at(0);
  }
  JobBatch batch(JobNumber job, Epoch epoch, Revision from, const Bytes& key, const Bytes& value) {
    return {job, epoch, from, from + 1, {{Row::Kind::put, key, value}}, {}};
  }

  std::shared_ptr<SharedMemory> memory_;
  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<Fleet> fleet_;
  std::map<std::uint64_t, std::unique_ptr<Engine>> engines_;
};

TEST_P(SharedEngine, RefusesAJobOfAnotherDaemon) {
  const Epoch epoch = owned(1);
  EXPECT_EQ(held(2), (Holder{{epoch, 1}, 1}));
  beat(1);
  EXPECT_EQ(held(2), (Holder{{epoch, 1}, 2}));
  EXPECT_EQ(commit(1, batch(kSharedJob, epoch, 0, "a", "1")), Outcome::durable)
      << "a refusal changes nothing";
  EXPECT_GT(owned(1), epoch) << "its own job";
}

TEST_P(SharedEngine, GivesAJobOverItsOwnerOnlyIfNeitherHasMoved) {
  const Epoch epoch = owned(1);
  const Holder seen = held(2);
  beat(1);
  EXPECT_EQ(held(2, {.over = seen}).beats, 2U) << "it has sent a heartbeat";
  const Holder again = held(2);
  const Epoch newer = owned(1);
  EXPECT_EQ(held(2, {.over = again}).owner, (Owner{newer, 1})) << "it has claimed the job again";
  const Epoch taken = owned(2, {.over = held(2)});
  EXPECT_GT(taken, newer);
  EXPECT_EQ(commit(1, batch(kSharedJob, epoch, 0, "a", "1")), Outcome::fenced);
  EXPECT_EQ(commit(1, batch(kSharedJob, newer, 0, "a", "1")), Outcome::fenced);
  EXPECT_EQ(commit(2, batch(kSharedJob, taken, 0, "a", "2")), Outcome::durable);
  EXPECT_EQ(held(1).owner, (Owner{taken, 2}));
}

TEST_P(SharedEngine, GivesAJobWhoseOwnerHasLeftOrReleasedIt) {
  const Epoch epoch = owned(1);
  ASSERT_TRUE(fleet_->remove(1, 4711));
  EXPECT_EQ(held(2).owner.process, 1U) << "a row with other heartbeats stays";
  ASSERT_TRUE(fleet_->remove(1, 1));
  owned(2);
  EXPECT_EQ(engine(1).release({kSharedJob, epoch}).error().code, Code::not_owner);
  beat(1);
  const Epoch newer = owned(1, {.over = held(1)});
  EXPECT_TRUE(engine(1).release({kSharedJob, newer}));
  owned(2);
}

TEST_P(SharedEngine, HandsAJobToOneDaemon) {
  engines_[3] = memory_ ? open_on(memory_, 3)
                        : std::move(open_engine(server_->url(), {.process = 3}).value());
  beat(3);
  const Epoch epoch = owned(1);
  ASSERT_EQ(commit(1, batch(kSharedJob, epoch, 0, "a", "1")), Outcome::durable);
  ASSERT_TRUE(engine(1).hand_over({kSharedJob, epoch}, 2));
  EXPECT_EQ(commit(1, batch(kSharedJob, epoch, 1, "b", "1")), Outcome::fenced);
  const Ownership former{kSharedJob, epoch};
  EXPECT_EQ(engine(1).confirm({&former, 1}), std::vector<Outcome>{Outcome::fenced});
  EXPECT_EQ(engine(1).hand_over({kSharedJob, epoch}, 3).error().code, Code::not_owner);
  EXPECT_EQ(held(3).owner.process, 2U) << "also before daemon 2 has claimed it";
  EXPECT_EQ(held(1).owner.process, 2U);
  const ClaimReply claimed = claim(2);
  ASSERT_TRUE(std::holds_alternative<Claim>(claimed));
  EXPECT_GT(std::get<Claim>(claimed).epoch, epoch);
  EXPECT_EQ(std::get<Claim>(claimed).revision, 1U);
}

TEST_P(SharedEngine, AJobHandedToADaemonThatDiesGoesToTheNext) {
  ASSERT_TRUE(engine(1).hand_over({kSharedJob, owned(1)}, 2));
  EXPECT_GT(owned(1, {.over = held(1)}), 0U);
}

TEST_P(SharedEngine, TellsTheOwners) {
  const Epoch seven = owned(1);
  const Epoch eight = owned(2, {}, 8);
  ASSERT_TRUE(engine(1).release({9, owned(1, {}, 9)}));
  const std::vector<JobNumber> jobs{8, 9, kSharedJob, 4711};
  const auto owners = fleet_->owners(jobs);
  ASSERT_TRUE(owners) << owners.error().detail;
  EXPECT_EQ(*owners, (std::vector<std::optional<Owner>>{Owner{eight, 2}, std::nullopt,
                                                        Owner{seven, 1}, std::nullopt}));
  const std::vector<JobNumber> many(3'000, 8);
  EXPECT_EQ(fleet_->owners(many)->size(), 3'000U);
  EXPECT_TRUE(fleet_->owners({})->empty());
}

TEST_P(SharedEngine, ClaimsOnlyWhatTheDirectoryHas) {
  ASSERT_EQ(commit(1, batch(0, 0, 0, "i", "one")), Outcome::durable);
  ASSERT_EQ(commit(1, batch(0, 0, 1, "jA", "7")), Outcome::durable);
  const ClaimTerms right{.state = {"i", "one"}, .entry = {"jA", "7"}};
  EXPECT_TRUE(std::holds_alternative<Gone>(claim(1, {.state = right.state, .entry = {"jA", "8"}})));
  EXPECT_TRUE(std::holds_alternative<Gone>(claim(1, {.state = right.state, .entry = {"jB", "7"}})));
  EXPECT_EQ(engine(1).claim(kSharedJob, {.state = {"i", "two"}}).error().code,
            Code::state_rolled_back);
  const Result<std::vector<JobNumber>> jobs = engine(1).jobs();
  EXPECT_EQ(std::ranges::count(*jobs, kSharedJob), 0) << "a refused claim lists no job";
  owned(1, right);
}

TEST_P(SharedEngine, HasADirectoryWithoutAnOwner) {
  const Epoch first = owned(1, {}, 0);
  EXPECT_EQ(owned(2, {}, 0), first);
  EXPECT_EQ(commit(1, batch(0, 0, 0, "a", "1")), Outcome::durable);
  EXPECT_EQ(commit(2, batch(0, 0, 0, "a", "2")), Outcome::fenced)
      << "the same step of another daemon";
  EXPECT_EQ(commit(1, batch(0, 0, 0, "a", "1")), Outcome::fenced) << "not even a repeat";
  EXPECT_EQ(commit(2, batch(0, 0, 2, "a", "2")), Outcome::fenced) << "it begins above the revision";
  EXPECT_EQ(commit(2, batch(0, 0, 1, "b", "2")), Outcome::durable);
  EXPECT_EQ(rows_of(engine(1), 0), (std::map<Bytes, Bytes>{{"a", "1"}, {"b", "2"}}));
}

TEST_P(SharedEngine, GuardsAChangeOfTheDirectory) {
  const Epoch epoch = owned(1);
  JobBatch change = batch(0, 0, 0, "a", "1");
  change.guards = {{kSharedJob, epoch}};
  const Epoch taken = owned(2, {.over = held(2)});
  EXPECT_EQ(commit(1, change), Outcome::fenced);
  change.guards = {{kSharedJob, taken}};
  EXPECT_EQ(commit(2, change), Outcome::durable);
}

TEST_P(SharedEngine, ForgetsOnlyMarkedJobs) {
  const Epoch epoch = owned(1);
  ASSERT_EQ(commit(1, batch(kSharedJob, epoch, 0, "a", "1")), Outcome::durable);
  ASSERT_TRUE(engine(1).forget(kSharedJob, {"m7", "7"}));
  EXPECT_EQ(rows_of(engine(1), kSharedJob).size(), 1U);
  ASSERT_EQ(commit(1, batch(0, 0, 0, "m7", "7")), Outcome::durable);
  ASSERT_TRUE(engine(1).forget(kSharedJob, {"m7", "7"}));
  EXPECT_TRUE(rows_of(engine(1), kSharedJob).empty());
  const Result<std::vector<JobNumber>> jobs = engine(1).jobs();
  EXPECT_EQ(std::ranges::count(*jobs, kSharedJob), 0);
  EXPECT_EQ(commit(1, batch(kSharedJob, epoch, 1, "b", "1")), Outcome::absent);
}

TEST_P(SharedEngine, CommitsAndConfirmsTogether) {
  const Epoch epoch = owned(1);
  const Epoch other = owned(1, {}, 8);
  const JobBatch change = batch(kSharedJob, epoch, 0, "a", "1");
  const std::vector<Ownership> owners{{8, other}, {8, other + 1}, {kSharedJob, epoch}};
  const Engine::Outcomes outcomes = engine(1).commit_and_confirm({&change, 1}, owners);
  EXPECT_EQ(outcomes.commits, std::vector<Outcome>{Outcome::durable});
  EXPECT_EQ(outcomes.confirms,
            (std::vector<Outcome>{Outcome::durable, Outcome::fenced, Outcome::durable}));
}

TEST_P(SharedEngine, ShowsTheFleetToEachDaemon) {
  beat(1);
  const Result<FleetReading> reading = fleet_->read();
  ASSERT_TRUE(reading) << reading.error().detail;
  ASSERT_EQ(reading->daemons.size(), 2U);
  EXPECT_EQ(reading->daemons[0].beats, 2U);
  EXPECT_EQ(reading->daemons[1].beats, 1U);
  EXPECT_EQ(reading->daemons[0].facts,
            (DaemonFacts{1, {"host:1"}, "1", std::chrono::seconds(2), false}));
  EXPECT_EQ(reading->directory, 0U);
  EXPECT_EQ(reading->incarnation, "");
  ASSERT_EQ(commit(1, batch(0, 0, 0, "i", "one")), Outcome::durable);
  EXPECT_EQ(fleet_->read()->directory, 1U);
  EXPECT_EQ(fleet_->read()->incarnation, "one");
  EXPECT_EQ(fleet_->server(), engine(1).server());
  EXPECT_NE(fleet_->server(), "");
}

TEST_P(SharedEngine, TellsEachDaemonWhatWasLostUntilItIsAccepted) {
  const std::uint64_t before = fleet_->read()->pulse;
  beat(1);
  beat(2);
  EXPECT_EQ(fleet_->read()->pulse, before + 2) << "of all daemons";
  EXPECT_EQ(fleet_->read()->rolled_back, "");
  ASSERT_TRUE(fleet_->report_rollback("job A is short"));
  ASSERT_TRUE(fleet_->report_rollback("something else"));
  EXPECT_EQ(fleet_->read()->rolled_back, "job A is short") << "what was told first";
  EXPECT_EQ(fleet_->read()->accepted, "");
  ASSERT_TRUE(fleet_->accept_rollback("two"));
  EXPECT_EQ(fleet_->read()->rolled_back, "");
  EXPECT_EQ(fleet_->read()->accepted, "two");
  EXPECT_EQ(fleet_->read()->pulse, before + 2);
}

INSTANTIATE_TEST_SUITE_P(All, SharedEngine, testing::Values("memory", "redis"), engine_name);

class RedisFleet : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    server_ = std::make_unique<RedisServer>();
  }
  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisFleet, RefusesMoreDaemonsThanTheLimit) {
  const auto fleet = std::move(open_fleet(server_->url()).value());
  for (std::uint64_t process = 1; process <= limits::kDaemons; ++process) {
    ASSERT_TRUE(fleet->beat({process, {}, "1", std::chrono::seconds(2), false}));
  }
  const Result<FleetReading> full = fleet->beat({4711, {}, "1", std::chrono::seconds(2), false});
  EXPECT_EQ(full.error().code, Code::quota_exceeded);
  EXPECT_NE(full.error().detail.find("the fleet has 64 daemons"), std::string::npos)
      << full.error().detail;
  EXPECT_TRUE(fleet->beat({1, {}, "1", std::chrono::seconds(2), false}))
      << "those that are in stay";
}

TEST_F(RedisFleet, NoticesADamagedRow) {
  server_->command({"HSET", "c10dd:fleet", "0000000000000001", "nonsense"});
  const auto fleet = std::move(open_fleet(server_->url()).value());
  EXPECT_EQ(fleet->read().error().code, Code::malformed);
}

TEST_F(RedisFleet, ClosesTheDoorToDaemonsThatKnowNoFleet) {
  server_->command({"SET", "c10dd:format", "3"});
  ASSERT_TRUE(open_engine(server_->url()));
  EXPECT_EQ(server_->command({"GET", "c10dd:format"}).text, "3.1");
}

TEST_F(RedisFleet, WaitsForAReplyAsLongAsItIsTold) {
  const auto fleet = std::move(open_fleet(server_->url(), std::chrono::milliseconds(100)).value());
  server_->command({"CLIENT", "PAUSE", "1000"});
  const auto began = std::chrono::steady_clock::now();
  const Result<FleetReading> reading = fleet->read();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(900));
  ASSERT_FALSE(reading);
  EXPECT_NE(reading.error().detail.find("no reply within 0.1 s"), std::string::npos)
      << reading.error().detail;
}

TEST_F(RedisFleet, TheServerIsLookedAtAgain) {
  const auto watch = watch_server(server_->url());
  const auto engine = std::move(open_engine(server_->url()).value());
  EXPECT_EQ(*watch->look(), (ServerState{std::string(engine->server()), "fsync", ""}));
  server_->command({"CONFIG", "SET", "appendfsync", "everysec"});
  const ServerState weak = *watch->look();
  EXPECT_EQ(weak.durability, "os");
  EXPECT_NE(weak.weakness.find("its setting appendfsync is everysec, but must be always"),
            std::string::npos)
      << weak.weakness;
  server_->kill_and_restart();
  EXPECT_FALSE(watch->look()) << "the connection is lost";
  const Result<ServerState> again = watch->look();
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_NE(again->server, engine->server());
  EXPECT_EQ(again->weakness, "");
  EXPECT_EQ(watch_server("memory:"), nullptr);
}

TEST(OpenFleet, NeedsASharedEngine) {
  EXPECT_EQ(open_fleet("memory:").error().code, Code::unsupported);
  EXPECT_EQ(open_fleet("redis://127.0.0.1:1").error().code, Code::unavailable);
}

}  // namespace
}  // namespace c10dd::store
