// SPDX-License-Identifier: Apache-2.0
// Two shards: whom a turn wakes, the timer of the next turn, what is counted, and what becomes of
// requests and commits when the engine is lost.
#include "daemon/shard/shard.h"

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/daemon/faulty_engine.h"
#include "tests/unit/daemon/native_peer.h"

namespace c10dd::daemon {
namespace {

/// Holds the first commit after close() back until open().
class CommitGateOfTest {
 public:
  void close() { closed_ = true; }
  void open() {
    closed_ = false;
    opened_.set_value();
  }
  void pass() {
    if (!closed_) return;
    held = true;
    future_.wait();
  }
  std::atomic<bool> held = false;

 private:
  std::atomic<bool> closed_ = false;
  std::promise<void> opened_;
  std::shared_future<void> future_ = opened_.get_future().share();
};

class ShardTest : public testing::Test {
 protected:
  void SetUp() override {
    faults_->before_commit = [this] { gate_.pass(); };
    daemon_.options.engine = "memory:";
  }

  /// Opens a session of a job whose shard is the first or the second one.
  std::unique_ptr<NativePeer> peer_on(std::size_t shard, std::uint64_t session) {
    for (char name = 'a'; name <= 'z'; ++name) {
      auto peer = std::make_unique<NativePeer>(daemon_);
      peer->connect(NativePeer::frame(NativePeer::hello_of(session, std::string(1, name))));
      const JobNumber job = peer->next().as<Welcome>().job;
      if (&daemon_.shards().of(job) != &daemon_.shards().of(shard)) continue;
      jobs_[session] = std::string(1, name);
      numbers_[session] = job;
      return peer;
    }
    ADD_FAILURE() << "no job is served by shard " << shard;
    return std::make_unique<NativePeer>(daemon_);
  }
  bool opened_again() {
    return daemon_.turn_until([&] { return daemon_.host.not_ready().empty(); });
  }
  double number_of(const std::string& series) const {
    const std::string text = daemon_.metrics.render();
    const std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? 0 : std::stod(text.substr(at + series.size() + 2));
  }
  /// Moves the job of a session to the daemon with this process number.
  std::shared_ptr<std::optional<Result<void>>> move(std::uint64_t session, std::uint64_t process) {
    auto moved = std::make_shared<std::optional<Result<void>>>();
    const JobNumber number = numbers_.at(session);
    daemon_.shards().of(number).host().move(
        number, {process, {"b:" + std::to_string(process)}, [moved](Result<void> done) {
                   *moved = std::move(done);
                 }});
    return moved;
  }
  static Wait wait_for(const Bytes& key, Duration timeout) { return Wait{{key}, timeout}; }

  CommitGateOfTest gate_;
  std::shared_ptr<EngineFaults> faults_ = std::make_shared<EngineFaults>();
  std::map<std::uint64_t, std::string> jobs_;   ///< by session
  std::map<std::uint64_t, JobNumber> numbers_;  ///< likewise
  SmallDaemon daemon_{2, {}, std::make_unique<FaultyEngine>(faults_)};
};

TEST_F(ShardTest, WakesThoseFirstThatHadNothing) {
  Shard& shard = daemon_.shard();
  std::string woken;
  const auto rest = [&](char name, bool had_some) {
    shard.rest([&woken, name] { woken += name; }, had_some);
  };
  rest('A', true);
  rest('b', false);
  rest('C', true);
  rest('d', false);
  daemon_.shards().of(2).end_turn();
  EXPECT_EQ(woken, "") << "that was a turn of the other shard";
  const std::uint64_t turn = shard.turn();
  shard.end_turn();
  EXPECT_EQ(woken, "bdAC");
  EXPECT_EQ(shard.turn(), turn + 1);
  shard.end_turn();
  EXPECT_EQ(woken, "bdAC") << "each rest ends once";
  const auto rest_again = [&] {
    rest('Y', true);
    rest('x', false);
  };
  shard.rest(rest_again, true);
  shard.end_turn();
  EXPECT_EQ(woken, "bdAC") << "it waits for the next turn";
  shard.end_turn();
  EXPECT_EQ(woken, "bdACxY");
}

TEST_F(ShardTest, TheTimerIsThatOfTheNextDeadlineAndIsSetAgain) {
  const auto peer = peer_on(2, 1);
  Shard& shard = daemon_.shards().of(2);
  std::uint64_t sequence = 2;
  const auto send = [&](Duration timeout) {
    peer->send(wait_for("never", timeout), 0, sequence++);
    daemon_.turn_a_while();
  };
  // Only the loop of the shard runs now. Timers end in order: that of the shard before this one.
  const auto reply_comes_in_time = [&] {
    const auto due = shard.host().next_wake();
    if (!due) return peer->has_reply();
    const auto late = std::make_shared<bool>(false);  // a cancelled timer is told later
    asio::steady_timer after(shard.loop(), *due + std::chrono::milliseconds(1));
    after.async_wait([late](const ErrorCode& cancelled) { *late = !cancelled; });
    while (!peer->has_reply() && !*late) {
      shard.loop().restart();
      if (shard.loop().run_one_for(std::chrono::seconds(20)) == 0) return false;
      if (!*late) shard.end_turn();
    }
    return !*late;
  };
  send(std::chrono::minutes(10));
  for (std::uint64_t round = 0; round < 3; ++round) {
    send(std::chrono::milliseconds(30));
    ASSERT_TRUE(reply_comes_in_time()) << round;
    const NativeReply reply = peer->next();
    EXPECT_EQ(reply.code(), Code::timed_out);
    EXPECT_EQ(reply.header.sequence, 3 + round);
  }
}

TEST_F(ShardTest, RequestsThatWaitOnBothShardsEndWithTheEngine) {
  const std::unique_ptr<NativePeer> peers[] = {peer_on(1, 1), peer_on(2, 2)};
  for (const auto& peer : peers) peer->send(wait_for("k", std::chrono::minutes(1)), 0, 2);
  daemon_.turn_a_while();
  EXPECT_FALSE(peers[0]->has_reply() || peers[1]->has_reply());
  daemon_.host.report_lost(1, "a disk");
  for (const auto& peer : peers) {
    const NativeReply reply = peer->next();
    EXPECT_EQ(reply.code(), Code::unavailable);
    EXPECT_NE(reply.detail().find("a disk"), std::string::npos) << reply.detail();
  }
  ASSERT_TRUE(opened_again());
  const std::unique_ptr<NativePeer> again[] = {peer_on(1, 1), peer_on(2, 2)};
  for (const auto& peer : again) {
    EXPECT_EQ(peer->ask(Set{"k", "v"}, 0, 2).code(), Code::ok);
    EXPECT_EQ(peer->ask(wait_for("k", std::chrono::minutes(1)), 0, 3).code(), Code::ok);
  }
}

TEST_F(ShardTest, ACommitThatEndsAfterItsEngineWasLostIsNoReply) {
  const std::unique_ptr<NativePeer> peers[] = {peer_on(1, 1), peer_on(2, 2)};
  gate_.close();
  for (const auto& peer : peers) peer->send(Set{"k", "old"}, 0, 2);
  ASSERT_TRUE(daemon_.turn_until([&] { return gate_.held.load(); }));
  daemon_.host.report_lost(1, "a disk");
  for (const auto& peer : peers) EXPECT_EQ(peer->next().code(), Code::unavailable);
  gate_.open();
  ASSERT_TRUE(opened_again());
  for (const auto& peer : peers) EXPECT_FALSE(peer->has_reply());
  const std::unique_ptr<NativePeer> again[] = {peer_on(1, 1), peer_on(2, 2)};
  for (const auto& peer : again) {
    EXPECT_EQ(peer->ask(Get{"k"}, 0, 2).code(), Code::not_found);
    EXPECT_EQ(peer->ask(Set{"k", "new"}, 0, 3).code(), Code::ok);
  }
}

TEST_F(ShardTest, HandsTheJobsOfBothOver) {
  std::mutex mutex;
  std::map<JobNumber, std::uint64_t> owners;
  faults_->hand_over = [&](const store::Ownership& owner, std::uint64_t process) -> Result<void> {
    const std::lock_guard lock(mutex);
    owners[owner.job] = process;
    return {};
  };
  const std::unique_ptr<NativePeer> peers[] = {peer_on(1, 1), peer_on(2, 2)};
  const auto first = move(1, 7);
  const auto second = move(2, 8);
  EXPECT_TRUE(daemon_.turn_until([&] { return *first && *second; }));
  EXPECT_TRUE(**first && **second);
  EXPECT_EQ(owners, (std::map<JobNumber, std::uint64_t>{{numbers_.at(1), 7}, {numbers_.at(2), 8}}));
  for (const int n : {0, 1}) {
    const NativeReply reply = peers[n]->next();
    ASSERT_EQ(reply.code(), Code::not_owner);
    EXPECT_EQ(reply.reply.error().addresses, std::vector<std::string>{n == 0 ? "b:7" : "b:8"});
  }
  EXPECT_EQ(daemon_.host.not_ready(), "");
}

TEST_F(ShardTest, AHandOverThatFailsEndsTheJobOrTheEngine) {
  std::atomic<bool> fenced = true;
  faults_->hand_over = [&](const store::Ownership&, std::uint64_t) -> Result<void> {
    return fenced ? failure(Code::not_owner, "fenced") : failure(Code::unavailable, "no reply");
  };
  const std::unique_ptr<NativePeer> peers[] = {peer_on(1, 1), peer_on(2, 2)};
  const auto first = move(1, 7);
  EXPECT_TRUE(daemon_.turn_until([&] { return first->has_value(); }));
  EXPECT_EQ((**first).error().code, Code::not_owner);
  EXPECT_EQ(peers[0]->next().code(), Code::not_owner);
  EXPECT_EQ(peers[1]->ask(Set{"k", "v"}, 0, 2).code(), Code::ok) << "the other one goes on";
  fenced = false;
  const auto second = move(2, 7);
  EXPECT_EQ(peers[1]->next().code(), Code::unavailable) << "nobody knows who owns the job";
  EXPECT_TRUE(daemon_.turn_until([&] { return !daemon_.host.not_ready().empty(); }));
  EXPECT_NE(daemon_.host.not_ready().find("no reply"), std::string::npos);
  ASSERT_TRUE(second->has_value());
  EXPECT_FALSE(**second);
  ASSERT_TRUE(opened_again());
}

TEST_F(ShardTest, CountsRequestsCommitsAndFailuresOfBothShards) {
  const std::unique_ptr<NativePeer> peers[] = {peer_on(1, 1), peer_on(2, 2)};
  const double before = number_of("c10dd_engine_commit_duration_seconds_count{engine=\"memory\"}");
  for (const auto& peer : peers) {
    EXPECT_EQ(peer->ask(Set{"k", "v"}, 0, 2).code(), Code::ok);
    EXPECT_EQ(peer->ask(Get{"nothing"}, 0, 3).code(), Code::not_found);
  }
  for (const std::size_t shard : {1, 2}) daemon_.shards().of(shard).reports();
  EXPECT_EQ(daemon_.count(metric::kRequests, "op=\"set\",protocol=\"native\""), 2);
  EXPECT_EQ(daemon_.count(metric::kRequestFailures, "code=\"not_found\",op=\"get\""), 2);
  EXPECT_EQ(daemon_.count(metric::kRequestFailures, "code=\"not_found\",op=\"set\""), 0);
  EXPECT_GE(number_of("c10dd_engine_commit_duration_seconds_count{engine=\"memory\"}"), before + 2);
  EXPECT_GE(number_of("c10dd_engine_commit_rows_sum{engine=\"memory\"}"), 2);
  const std::string unknown = "engine=\"memory\",outcome=\"unknown\"";
  EXPECT_EQ(daemon_.count(metric::kCommitFailures, unknown), 0);
  faults_->unknown = true;
  peers[1]->send(Set{"k", "w"}, 0, 4);
  EXPECT_EQ(peers[1]->next().code(), Code::unavailable);
  EXPECT_GE(daemon_.count(metric::kCommitFailures, unknown), 1);
  EXPECT_EQ(daemon_.count(metric::kDeposed, ""), 0);
}

TEST_F(ShardTest, AJobHasSeriesUntilItIsRemoved) {
  const auto peer = peer_on(2, 1);
  const auto other = peer_on(1, 2);
  const auto series = [&](std::uint64_t session) {
    return daemon_.metrics.render().find("train_job=\"" + jobs_[session] + '"') !=
           std::string::npos;
  };
  EXPECT_TRUE(series(1) && series(2));
  EXPECT_EQ(peer->ask(Goodbye{}, 0, 2).code(), Code::ok);
  peer->wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return peer->wire->closed(); }));
  std::optional<Result<void>> done;
  daemon_.host.remove(jobs_[1], [&](Result<void> result) { done = result; });
  ASSERT_TRUE(daemon_.turn_until([&] { return done.has_value(); }));
  EXPECT_TRUE(*done) << done->error().detail;
  EXPECT_TRUE(daemon_.turn_until([&] { return !series(1); }));
  EXPECT_TRUE(series(2));
}

}  // namespace
}  // namespace c10dd::daemon
