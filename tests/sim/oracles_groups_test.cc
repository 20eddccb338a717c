// SPDX-License-Identifier: Apache-2.0
// The oracles of groups and of their barriers: each accepts a run that kept its promise and refuses
// one that broke it.
#include <gtest/gtest.h>

#include "daemon/core/group/rows.h"
#include "daemon/core/row_key.h"
#include "tests/sim/story.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = core::GroupMember::State;

constexpr SessionId kA{1, 1};
constexpr SessionId kB{2, 2};
constexpr SessionId kC{3, 3};

core::RowKey row_key(char kind) { return core::RowKey(kind).text("workers"); }

class GroupStory : public Story {
 public:
  GroupStory() {
    records.group_policy = RendezvousPolicy{2, 3, {}, seconds(2), seconds(1), false};
    for (std::uint32_t client : {1U, 2U, 3U}) records.sessions[{client, client}].client = client;
  }

  static Row member(const SessionId& session, State state, std::uint64_t asked_in = 0) {
    core::GroupMember member;
    member.state = state;
    member.asked = true;
    member.asked_in = asked_in;
    return {Row::Kind::put, row_key('m').number(session.high).number(session.low).take(),
            wire::encode(member)};
  }

  Row facts(std::uint64_t round, std::uint64_t generation, GroupPhase phase) const {
    core::GroupFacts facts;
    facts.policy = *records.group_policy;
    facts.round = round;
    facts.generation = generation;
    facts.phase = phase;
    return {Row::Kind::put, row_key('g').take(), wire::encode(facts)};
  }

  /// All of these sessions ask for a place, and get a list.
  void formed(std::uint64_t round, std::uint64_t generation, std::vector<SessionId> sessions,
              std::uint64_t order) {
    std::vector<Row> rows;
    for (const SessionId& session : sessions) {
      rows.push_back(member(session, State::here, round - 1));
    }
    core::MemberList list;
    list.digest = 100 + generation;
    list.sessions = std::move(sessions);
    rows.push_back({Row::Kind::put, row_key('l').take(), wire::encode(list)});
    rows.push_back(facts(round, generation, GroupPhase::formed));
    durable(std::move(rows), order, false);
  }

  Op& joined(const SessionId& session, Joined place, std::uint64_t from, std::uint64_t to) {
    Join join;
    join.group = "workers";
    Op& op = call(join, from, to, told(place));
    op.session = session;
    return op;
  }

  Op& watched(GroupStatus status, std::uint64_t from, std::uint64_t to) {
    return call(WatchGroup{"workers", 0, {}}, from, to, told(std::move(status)));
  }

  std::string generations() const { return oracle(judge_generations(records)); }
  std::string losses() const { return oracle(judge_losses(records)); }
};

Joined place(std::uint64_t round, std::uint64_t generation, Rank rank, std::uint32_t size) {
  return {round, generation, rank, size, 100 + generation, 0, "", round};
}

GroupStatus status(std::uint64_t round, std::uint64_t generation, std::uint32_t size) {
  GroupStatus told;
  told.number = told.round = round;
  told.generation = generation;
  told.size = size;
  told.phase = GroupPhase::formed;
  return told;
}

// ---- generations -------------------------------------------------------------------------------

TEST(GroupOracles, OneNumberIsOneListForEverybody) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  run.joined(kA, place(1, 1, 0, 2), 5, 20);
  run.joined(kB, place(1, 1, 1, 2), 6, 21);
  run.watched(status(1, 1, 2), 22, 23);
  EXPECT_EQ(run.generations(), "fine");
  const auto told = [&](const SessionId& session, const Joined& joined, std::uint64_t at) {
    GroupStory other = run;
    other.joined(session, joined, at, at + 1);
    return other.generations();
  };
  EXPECT_EQ(told(kA, place(1, 1, 0, 2), 30), "fine");
  EXPECT_EQ(told(kC, place(1, 1, 0, 2), 30), "generations");  // two have rank 0
  EXPECT_EQ(told(kA, place(1, 1, 0, 3), 30), "generations");  // another size
  EXPECT_EQ(told(kA, place(2, 2, 0, 2), 30), "generations");  // not durable
  EXPECT_EQ(told(kA, place(1, 1, 0, 2), 8), "generations");   // not yet durable
  run.watched(status(1, 1, 3), 40, 41);
  EXPECT_EQ(run.generations(), "generations");
}

TEST(GroupOracles, AListIsReadAsItIsDurable) {
  const auto judged = [](std::uint64_t pid) {
    GroupStory run;
    run.formed(1, 1, {kA, kB}, 10);
    Bytes list;
    wire::Writer writer(list);
    for (const std::uint64_t each : {std::uint64_t{1}, pid}) {
      MemberInfo info;
      info.rank = static_cast<Rank>(list.empty() ? 0 : 1);
      info.pid = each;
      writer.put(info);
    }
    const auto owner = std::make_shared<const Bytes>(list);
    run.call(ReadMembers{"workers", 1, 0}, 20, 30,
             told(MemberPage{1, 2, 101, 0, 2, {owner, 0, list.size()}}));
    return run.generations();
  };
  EXPECT_EQ(judged(2), "fine");
  EXPECT_EQ(judged(3), "generations");
}

TEST(GroupOracles, GenerationsNeverComeAgainOrGoBack) {
  const auto judged = [](std::uint64_t round, std::uint64_t generation,
                         std::vector<SessionId> sessions) {
    GroupStory run;
    run.formed(1, 1, {kA, kB}, 10);
    run.formed(2, 2, {kA, kB, kC}, 20);
    run.formed(round, generation, std::move(sessions), 30);
    return run.generations();
  };
  EXPECT_EQ(judged(3, 3, {kA, kB}), "fine");
  EXPECT_EQ(judged(3, 2, {kA, kB}), "generations");
  EXPECT_EQ(judged(3, 1, {kA, kB}), "generations");
  EXPECT_EQ(judged(2, 3, {kA, kB}), "generations");
  EXPECT_EQ(judged(3, 3, {kA, kA}), "generations");
  EXPECT_EQ(judged(3, 3, {kA}), "generations");  // min is 2
  EXPECT_EQ(judged(3, 3, {kB, kA}), "ranks");    // both stay, but have changed places
  EXPECT_EQ(judged(3, 3, {kA, kC}), "fine");     // 2 is not below the new size
  EXPECT_EQ(judged(3, 3, {kA, kC, kB}), "ranks");
}

TEST(GroupOracles, NobodyIsToldLessThanBefore) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  run.formed(2, 2, {kA, kB}, 20);
  run.watched(status(2, 2, 2), 25, 30);
  run.watched(status(1, 1, 2), 26, 40);  // the watch began before
  EXPECT_EQ(run.generations(), "fine");
  run.watched(status(1, 1, 2), 31, 40);
  EXPECT_EQ(run.generations(), "generations");
}

TEST(GroupOracles, AQuorumIsMoreThanHalf) {
  const auto judged = [](std::vector<SessionId> idle, bool broken) {
    GroupStory run;
    run.records.group_policy->quorum = true;
    run.formed(1, 1, {kA, kB}, 10);
    for (const SessionId& session : idle) {
      run.durable({GroupStory::member(session, State::here, 0)}, 20, false);
    }
    if (broken) run.durable({run.facts(1, 1, GroupPhase::broken)}, 21, false);
    run.formed(2, 1, {kA, kB}, 30);
    run.formed(3, 2, {kA, kC}, 40);
    return run.generations();
  };
  EXPECT_EQ(judged({}, false), "fine");
  EXPECT_EQ(judged({{4, 4}}, false), "quorum");  // two of four, without all of the last list
  EXPECT_EQ(judged({}, true), "generations");    // the generation had ended
}

TEST(GroupOracles, WhatIsBoundBelongsToItsGeneration) {
  const auto judged = [](std::uint64_t generation, const SessionId& session, GroupPhase phase) {
    GroupStory run;
    run.formed(1, 1, {kA, kB}, 10);
    run.formed(2, 2, {kA, kB}, 20);
    run.durable({run.facts(2, 2, phase)}, 21, false);
    core::Arrival arrival;
    arrival.session = session;
    arrival.world_size = 2;
    arrival.group = "workers";
    const Bytes key =
        core::RowKey('a').number(0).text("step").number(generation).number(0).number(0).take();
    run.durable({{Row::Kind::put, key, wire::encode(arrival)}}, 30, false);
    return run.generations();
  };
  EXPECT_EQ(judged(2, kA, GroupPhase::formed), "fine");
  EXPECT_EQ(judged(1, kA, GroupPhase::formed), "stale");
  EXPECT_EQ(judged(2, kB, GroupPhase::formed), "stale");
  EXPECT_EQ(judged(2, kA, GroupPhase::broken), "stale");
}

// ---- losses ------------------------------------------------------------------------------------

TEST(GroupOracles, ALossHasACauseAndComesInTime) {
  const auto judged = [](std::optional<Duration> silent, std::optional<Duration> away,
                         Duration served, Duration time_left = {}) {
    GroupStory run;
    run.records.session_expiry = seconds(60);
    run.records.losses.push_back(
        {"job", kA, TimePoint(seconds(50)), "", served, silent, away, {}, time_left});
    return run.losses();
  };
  EXPECT_EQ(judged(seconds(2), {}, seconds(40)), "fine");
  EXPECT_EQ(judged(milliseconds(1900), {}, seconds(40)), "losses");  // its time to live is 2 s
  EXPECT_EQ(judged(seconds(2), seconds(1), seconds(40)), "fine");
  EXPECT_EQ(judged(seconds(2), milliseconds(900), seconds(40)), "losses");  // its grace is 1 s
  EXPECT_EQ(judged(seconds(4), {}, seconds(40)), "losses");                 // forgotten
  EXPECT_EQ(judged({}, {}, seconds(10)), "fine");
  EXPECT_EQ(judged({}, {}, seconds(9)), "losses");            // it could not come back yet
  EXPECT_EQ(judged({}, {}, seconds(5), seconds(5)), "fine");  // half had passed before
  EXPECT_EQ(judged({}, {}, seconds(4), seconds(5)), "losses");
  EXPECT_EQ(judged({}, {}, seconds(10), seconds(5)), "losses");  // a restart gives none back
}

TEST(GroupOracles, WhoIsAskedToLeaveMayBeLost) {
  GroupStory run;
  run.records.session_expiry = seconds(60);
  run.records.losses.push_back(
      {"job", kA, TimePoint(seconds(50)), "", seconds(40), milliseconds(10), {}});
  Op& op = run.call(Notify{"workers", Notice::Kind::drain, {0}, "", seconds(3), ""}, 10, 20,
                    told(Counted{1}));
  op.invoked_at = TimePoint(seconds(46));
  EXPECT_EQ(run.losses(), "fine");
  op.invoked_at = TimePoint(seconds(48));
  EXPECT_EQ(run.losses(), "losses");
}

TEST(GroupOracles, WhoIsToldToBeLostIsLostForGood) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  GroupStatus lost = status(2, 1, 2);
  lost.lost = {{1, 1}};
  run.watched(lost, 20, 30);
  EXPECT_EQ(run.losses(), "news");
  run.durable({GroupStory::member(kB, State::lost)}, 25, false);
  EXPECT_EQ(run.losses(), "fine");
  lost.finished = {{0, 0}};
  run.watched(lost, 40, 50);
  EXPECT_EQ(run.losses(), "news");
}

TEST(GroupOracles, WhoIsToldToBeStalledBrokeAPromise) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  Op& report = run.call(Progress{"workers", 1, "", 1, seconds(2)}, 11, 12, told(Done{}));
  report.session = kB;
  GroupStatus stalled = status(2, 1, 2);
  stalled.stalled = {{1, 1}};
  run.watched(stalled, 20, 30).answered_at = TimePoint(seconds(3));
  EXPECT_EQ(run.losses(), "fine");
  run.records.ops.back().answered_at = TimePoint(seconds(1));
  EXPECT_EQ(run.losses(), "news");
}

TEST(GroupOracles, WhenAllIsQuietEverybodyKnowsTheDead) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  run.records.quiet = 100;
  run.watched(status(7, 1, 2), 101, 102);
  EXPECT_EQ(run.losses(), "fine");
  GroupStory dead = run;
  dead.records.dead_by_then.insert(2);
  EXPECT_EQ(dead.losses(), "news");
  run.call(WatchGroup{"workers", 7, seconds(9)}, 90, 0, std::nullopt);
  EXPECT_EQ(run.losses(), "fine");
  run.call(WatchGroup{"workers", 6, seconds(9)}, 91, 0, std::nullopt);  // the watch was not woken
  EXPECT_EQ(run.losses(), "news");
}

// ---- barriers ----------------------------------------------------------------------------------

Reply broken(std::string why) {
  Failure reason = failure(Code::timed_out, std::move(why));
  reason.recorded = true;
  return reason;
}

Barrier barrier(Rank rank, std::uint64_t generation = 1) {
  return {"step", generation, 0, rank, 2, {}, "workers", {}};
}

TEST(GroupOracles, ABarrierHasOneOutcome) {
  const auto judged = [](const Reply& first, const Reply& second) {
    GroupStory run;
    run.call(barrier(0), 10, 30, first);
    run.call(barrier(1), 20, 40, second);
    return oracle(judge_barriers(run.records));
  };
  EXPECT_EQ(judged(told(Done{}), told(Done{})), "fine");
  EXPECT_EQ(judged(broken("rank 1 is missing"), broken("rank 1 is missing")), "fine");
  EXPECT_EQ(judged(broken("rank 1 is missing"), broken("rank 0 is missing")), "barriers");
  EXPECT_EQ(judged(broken("rank 1 is missing"), told(Done{})), "barriers");
}

TEST(GroupOracles, NobodyIsReleasedWithWhoComesAfterTheGeneration) {
  const auto judged = [](std::uint64_t told_at) {
    GroupStory run;
    run.call(barrier(0), 10, 30, told(Done{}));
    run.call(barrier(1), 20, 31, told(Done{}));
    run.joined(kA, place(2, 2, 0, 2), 5, told_at);
    return oracle(judge_barriers(run.records));
  };
  EXPECT_EQ(judged(25), "fine");
  EXPECT_EQ(judged(15), "barriers");
}

TEST(GroupOracles, AStaleGenerationHasASuccessor) {
  GroupStory run;
  run.formed(1, 1, {kA, kB}, 10);
  run.call(barrier(0), 20, 30, Reply(failure(Code::stale_generation, "")));
  EXPECT_EQ(oracle(judge_errors(run.records)), "errors");
  run.formed(2, 2, {kA, kB}, 25);
  EXPECT_EQ(oracle(judge_errors(run.records)), "fine");
}

}  // namespace
}  // namespace c10dd::sim
