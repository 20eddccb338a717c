// SPDX-License-Identifier: Apache-2.0
// All members give their barriers the same names, sequences and participants, as the SDK does.
#include "tests/sim/group_calls.h"

#include <algorithm>

#include "tests/sim/workload.h"

namespace c10dd::sim {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Returns every other rank, beginning with 0 or 1.
std::vector<Rank> every_other(Rank first, std::uint32_t size) {
  std::vector<Rank> ranks;
  for (Rank rank = first; rank < size; rank += 2) ranks.push_back(rank);
  return ranks;
}

std::size_t place_in(const std::vector<Rank>& ranks, Rank rank) {
  return static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
}

}  // namespace

GroupCalls::GroupCalls(const Swarm& swarm, std::uint64_t seed)
    : swarm_(swarm), random_(seed), spare_(swarm.spares && random_.chance(35)) {}

std::optional<Request> GroupCalls::next() {
  if (asking_) return std::nullopt;
  if (!place_ || (over_ && random_.chance(80))) return join();
  const bool newcomers = status_.waiting > 0 && status_.generation == generation_;
  if (newcomers && random_.chance(15)) return join();
  const std::uint64_t kind = random_.below(100);
  if (swarm_.group_policy->quorum && kind < 30) return join();
  if (kind < 45) return barrier(barriers);
  if (kind < 60) return barrier(exchanges);
  if (kind < 72) return barrier(some);
  if (kind < 79) return progress();
  if (kind < 84) return ReadMembers{std::string(kGroup), random_.chance(50) ? generation_ : 0, 0};
  if (kind < 87) return notify();
  if (kind < 91) return acknowledge();
  if (kind < 94) return leave();
  if (kind < 96) return join();
  return stale_barrier();
}

WatchGroup GroupCalls::watch() {
  const bool patient = random_.chance(85);
  return WatchGroup{std::string(kGroup), status_.number,
                    patient ? Duration(hours(1)) : random_.between(Duration(0), seconds(5))};
}

Request GroupCalls::join() {
  asking_ = true;
  place_.reset();
  Join join;
  join.group = kGroup;
  join.round = round_;
  join.policy = *swarm_.group_policy;
  join.spare = spare_;
  join.step = ++steps_;
  join.failed = random_.chance(10);
  join.timeout = random_.between(milliseconds(300), seconds(15));
  return join;
}

std::optional<Request> GroupCalls::barrier(Kind kind) {
  Turn& turn = turns_[kind];
  if (turn.asked) return std::nullopt;
  Rank rank = place_->rank;
  std::uint32_t size = place_->size;
  std::vector<Rank> participants;
  std::string name = kind == barriers ? "step" : "swap";
  if (kind == some) {
    name = rank % 2 == 0 ? "even" : "odd";
    participants = every_other(rank % 2, size);
    rank = static_cast<Rank>(place_in(participants, rank));
    size = static_cast<std::uint32_t>(participants.size());
  }
  turn.asked = true;
  const Duration patience = random_.between(milliseconds(200), seconds(12));
  if (kind != exchanges) {
    return Barrier{name, generation_, turn.sequence,       rank,
                   size, patience,    std::string(kGroup), participants};
  }
  const std::vector<Bytes> parts{exchange_part(0, generation_, turn.sequence, rank, 0)};
  return Exchange{name,     generation_, turn.sequence,       rank, size, Shape::all, 0, parts,
                  patience, 0,           std::string(kGroup), {}};
}

/// Makes a request under the number of a generation that has ended, with a sequence that no other
/// request uses.
std::optional<Request> GroupCalls::stale_barrier() {
  if (generation_ < 2) return std::nullopt;
  return Barrier{"step",
                 generation_ - 1,
                 1'000'000 + random_.below(1'000'000),
                 0,
                 place_->size,
                 random_.between(milliseconds(100), seconds(3)),
                 std::string(kGroup),
                 {}};
}

Request GroupCalls::progress() {
  const Duration limit =
      random_.chance(50) ? random_.between(milliseconds(100), seconds(3)) : Duration(0);
  return Progress{std::string(kGroup), generation_, "forward", steps_, limit};
}

Request GroupCalls::notify() {
  const Duration deadline =
      random_.chance(60) ? random_.between(milliseconds(200), seconds(4)) : Duration(0);
  const auto rank = static_cast<Rank>(random_.below(place_->size));
  return Notify{std::string(kGroup), Notice::Kind::drain, {rank}, "", deadline, "maintenance"};
}

std::optional<Request> GroupCalls::acknowledge() {
  for (const Notice& notice : status_.notices) {
    if (status_.generation == generation_ && names(notice.ranks, place_->rank)) {
      return Acknowledge{std::string(kGroup), notice.number};
    }
  }
  return std::nullopt;
}

Request GroupCalls::leave() {
  const auto kind = static_cast<Leave::Kind>(random_.below(3));
  place_.reset();
  return Leave{std::string(kGroup), random_.chance(50) ? generation_ : 0, kind, "enough"};
}

// ---- replies -----------------------------------------------------------------------------------

void GroupCalls::done(const Op& op) {
  if (std::holds_alternative<Join>(op.request)) return joined(op);
  if (std::holds_alternative<WatchGroup>(op.request)) return watched(op);
  if (const auto* barrier = std::get_if<Barrier>(&op.request)) return met(op, *barrier);
  if (const auto* exchange = std::get_if<Exchange>(&op.request)) return met(op, *exchange);
}

void GroupCalls::joined(const Op& op) {
  asking_ = false;
  if (!op.good()) return;
  place_ = std::get<Joined>(**op.reply);
  round_ = place_->round;
  over_ = false;
  if (generation_ != place_->generation) turns_ = {};
  generation_ = place_->generation;
}

void GroupCalls::watched(const Op& op) {
  if (!op.good()) return;
  status_ = std::get<GroupStatus>(**op.reply);
  over_ = over_ || status_.generation > generation_ ||
          (status_.generation == generation_ && status_.phase != GroupPhase::formed);
}

template <class BarrierState>
void GroupCalls::met(const Op& op, const BarrierState& request) {
  if (request.group != kGroup || request.generation != generation_) return;
  Turn& turn = turns_[request.name == "step"   ? barriers
                      : request.name == "swap" ? exchanges
                                               : some];
  const bool recorded = op.reply && !*op.reply && op.reply->error().recorded;
  turn.asked = false;
  if (op.good() || recorded) ++turn.sequence;
  over_ = over_ || op.code() == Code::stale_generation || (recorded && op.code() == Code::aborted);
}

}  // namespace c10dd::sim
