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
      server_ = std::make_unique<RedisServer>(GetParam() == "rediss");
    }
    fleet_ = memory_ ? open_fleet_on(memory_) : fleet_of_server();
    for (std::uint64_t process : {1, 2}) {
      engines_[process] = memory_ ? open_on(memory_, process) : engine_of_server(process);
      beat(process);
    }
    owned(1, {}, 0);
  }

  std::unique_ptr<Fleet> fleet_of_server() const {
    return open_fleet(server_->url(), std::chrono::seconds(2), server_->ca_file()).value();
  }
  std::unique_ptr<Engine> engine_of_server(std::uint64_t process) const {
    return open_engine(server_->url(), {.process = process, .redis_ca = server_->ca_file()})
        .value();
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
  engines_[3] = memory_ ? open_on(memory_, 3) : engine_of_server(3);
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

/// Rows as (key, value), an erased one without a value.
std::vector<std::pair<Bytes, Bytes>> listed(const c10dd::Rows& rows) {
  std::vector<std::pair<Bytes, Bytes>> all;
  for (const RowView& row : rows) all.emplace_back(row.key, row.value);
  return all;
}

TEST_P(SharedEngine, TellsTheChangesOfTheDirectory) {
  using Listed = std::vector<std::pair<Bytes, Bytes>>;
  const Bytes odd("a\0 7\n\xff", 6);
  ASSERT_EQ(commit(1, batch(0, 0, 0, "a", "1")), Outcome::durable);
  ASSERT_EQ(commit(2, batch(0, 0, 1, odd, odd)), Outcome::durable);
  ASSERT_EQ(commit(1, batch(0, 0, 0, "a", "2")), Outcome::fenced);
  const JobBatch third{0, 0, 2, 5, {{Row::Kind::erase, "a", {}}, {Row::Kind::put, "b", "3"}}, {}};
  ASSERT_EQ(commit(1, third), Outcome::durable);
  for (const std::uint64_t process : {1, 2}) {
    const auto all = engine(process).changes(0, 0);
    ASSERT_TRUE(all && *all);
    EXPECT_EQ((*all)->revision, 5U);
    EXPECT_EQ((*all)->row_count, 2U);
    EXPECT_EQ(listed((*all)->rows), (Listed{{"a", "1"}, {odd, odd}, {"a", ""}, {"b", "3"}}));
    EXPECT_EQ((*all)->rows[2].kind, Row::Kind::erase);
    const auto newest = engine(process).changes(0, 2);
    ASSERT_TRUE(newest && *newest);
    EXPECT_EQ(listed((*newest)->rows), (Listed{{"a", ""}, {"b", "3"}}));
    const auto none = engine(process).changes(0, 5);
    ASSERT_TRUE(none && *none);
    EXPECT_TRUE((*none)->rows.empty());
    EXPECT_FALSE(*engine(process).changes(0, 3)) << "between two changes";
    EXPECT_FALSE(*engine(process).changes(0, 6)) << "above the newest";
    EXPECT_FALSE(*engine(process).changes(kSharedJob, 0)) << "of another job";
  }
}

TEST_P(SharedEngine, KeepsTheNewestChangesOnly) {
  constexpr Revision kAll = kChangesKept + 3;
  std::vector<JobBatch> batches;
  for (Revision from = 0; from < kAll; ++from) {
    batches.push_back(batch(0, 0, from, "k" + std::to_string(from), "v"));
  }
  const std::vector<Outcome> outcomes = engine(1).commit(batches);
  EXPECT_EQ(std::ranges::count(outcomes, Outcome::durable), std::ssize(outcomes));
  EXPECT_FALSE(*engine(2).changes(0, 2));
  const auto newest = engine(2).changes(0, 3);
  ASSERT_TRUE(newest && *newest);
  EXPECT_EQ((*newest)->rows.size(), kChangesKept);
  EXPECT_EQ((*newest)->rows[0].key, "k3");
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
  const std::uint64_t before = fleet_->read()->heartbeat_count;
  beat(1);
  beat(2);
  EXPECT_EQ(fleet_->read()->heartbeat_count, before + 2) << "of all daemons";
  EXPECT_EQ(fleet_->read()->rolled_back, "");
  ASSERT_TRUE(fleet_->report_rollback("job A is short"));
  ASSERT_TRUE(fleet_->report_rollback("something else"));
  EXPECT_EQ(fleet_->read()->rolled_back, "job A is short") << "what was told first";
  EXPECT_EQ(fleet_->read()->accepted, "");
  ASSERT_TRUE(fleet_->accept_rollback("two"));
  EXPECT_EQ(fleet_->read()->rolled_back, "");
  EXPECT_EQ(fleet_->read()->accepted, "two");
  EXPECT_EQ(fleet_->read()->heartbeat_count, before + 2);
}

INSTANTIATE_TEST_SUITE_P(All, SharedEngine, testing::Values("memory", "redis"), engine_name);
#if C10DD_WITH_TLS
INSTANTIATE_TEST_SUITE_P(Encrypted, SharedEngine, testing::Values("rediss"), engine_name);

TEST(EncryptedRedis, IsNotBelievedUnlessItsCaIsKnownAndItNamesTheHost) {
  if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
  const RedisServer server(true);
  const RedisServer other(true);
  const RedisServer plain;
  const auto why = [](const std::string& url, const std::string& ca) {
    const auto engine = open_engine(url, {.redis_ca = ca});
    return engine ? "" : engine.error().detail;
  };
  EXPECT_EQ(why(server.url(), server.ca_file()), "");
  const std::string distrusted =
      "the Redis server's certificate is not signed by a CA that this client trusts; give its CA "
      "with --redis-ca";
  EXPECT_NE(why(server.url(), other.ca_file()).find(distrusted), std::string::npos);
  EXPECT_NE(why(server.url(), "").find(distrusted), std::string::npos) << "the system's CAs";
  const std::string port = std::to_string(server.port());
  EXPECT_NE(why("rediss://localhost:" + port, server.ca_file()).find("is not for localhost"),
            std::string::npos);
  EXPECT_NE(why("rediss://127.0.0.1:" + std::to_string(plain.port()), server.ca_file())
                .find("during the TLS handshake; check that Redis runs there and that this is its "
                      "tls-port"),
            std::string::npos);
  EXPECT_NE(why("redis://127.0.0.1:" + port, ""), "") << "plain to TLS";
  EXPECT_NE(why(server.url(), "/no/file").find("check --redis-ca"), std::string::npos);
  EXPECT_NE(why("rediss://127.0.0.1:1", "/no/file").find("check --redis-ca"), std::string::npos)
      << "also while there is no server";
  EXPECT_EQ(open_fleet(server.url(), std::chrono::seconds(2), other.ca_file()).error().code,
            Code::permission_denied);
}
#endif

class RedisFleet : public testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    server_ = std::make_unique<RedisServer>();
  }
  std::unique_ptr<RedisServer> server_;
};

TEST_F(RedisFleet, RefusesMoreDaemonsThanTheLimit) {
  const auto fleet = open_fleet(server_->url()).value();
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
  const auto fleet = open_fleet(server_->url()).value();
  EXPECT_EQ(fleet->read().error().code, Code::malformed);
}

TEST_F(RedisFleet, ShutsOutDaemonsThatKnowNoFleet) {
  server_->command({"SET", "c10dd:format", "3"});
  ASSERT_TRUE(open_engine(server_->url()));
  EXPECT_EQ(server_->command({"GET", "c10dd:format"}).text, "3.1");
}

TEST_F(RedisFleet, AChangeThatIsNotKeptIsAGap) {
  const auto engine = open_engine(server_->url()).value();
  ASSERT_TRUE(engine->claim(0));
  Revision rev = 0;
  const auto change = [&](const Bytes& value) {
    const JobBatch one{0, 0, rev, rev + 1, {{Row::Kind::put, "k", value}}, {}};
    EXPECT_EQ(engine->commit({&one, 1}), std::vector<Outcome>{Outcome::durable});
    return rev++;
  };
  const auto kept = [&](Revision from) { return engine->changes(0, from)->has_value(); };
  // What the commit of an older daemon does.
  const auto older_daemon = [&] {
    server_->command({"HSET", "c10dd:{0}:meta", "rev", std::to_string(++rev)});
  };
  const Revision first = change("1");
  EXPECT_TRUE(kept(first));
  older_daemon();
  EXPECT_FALSE(kept(first));
  const Revision second = change("2");
  EXPECT_TRUE(kept(second));
  EXPECT_FALSE(kept(first)) << "the gap stays";
  const Revision large = change(Bytes(kChangeBytesKept, 'x'));
  EXPECT_FALSE(kept(large)) << "larger than all that is kept";
  EXPECT_TRUE(kept(rev));
  const Revision third = change("3");
  EXPECT_TRUE(kept(third));
  server_->command({"DEL", "c10dd:{0}:changes"});  // evicted
  EXPECT_FALSE(kept(third));
  server_->command({"SET", "c10dd:{0}:changes", "foreign"});
  change("4");
  EXPECT_TRUE(kept(rev)) << "what cannot be kept is no failure of the commit";
  EXPECT_TRUE(kept(rev - 1)) << "the foreign key was replaced";
  for (const char* field : {"first", "count", "bytes", "last"}) {
    server_->command({"HSET", "c10dd:{0}:changes", field, "nonsense"});
    const Revision next = change("5");
    EXPECT_TRUE(kept(next)) << field;
  }
  server_->command({"HSET", "c10dd:{0}:changes", std::to_string(rev - 1), "nonsense"});
  EXPECT_FALSE(kept(rev - 1));
  const Bytes endless = std::to_string(rev - 1) + " ";
  server_->command({"HSET", "c10dd:{0}:changes", std::to_string(rev - 1), endless});
  EXPECT_FALSE(kept(rev - 1)) << "a change that leads to itself";
}

TEST_F(RedisFleet, AChangeThatIsDamagedIsAGap) {
  const auto engine = open_engine(server_->url()).value();
  ASSERT_TRUE(engine->claim(0));
  const JobBatch one{0, 0, 0, 1, {{Row::Kind::put, "k", "v"}}, {}};
  ASSERT_EQ(engine->commit({&one, 1}), std::vector<Outcome>{Outcome::durable});
  server_->command({"HSET", "c10dd:{0}:changes", "0", "1 nonsense"});
  const auto changes = engine->changes(0, 0);
  ASSERT_TRUE(changes) << changes.error().detail;
  EXPECT_FALSE(*changes);
}

TEST_F(RedisFleet, WaitsForAReplyAsLongAsItIsTold) {
  const auto fleet = open_fleet(server_->url(), std::chrono::milliseconds(100)).value();
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
  const auto engine = open_engine(server_->url()).value();
  EXPECT_EQ(*watch->look(), (ServerState{std::string(engine->server()), "fsync", ""}));
  server_->command({"CONFIG", "SET", "appendfsync", "everysec"});
  const ServerState weak = *watch->look();
  EXPECT_EQ(weak.durability, "os");
  EXPECT_NE(weak.weakness.find("the setting appendfsync is everysec, but must be always"),
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
