// SPDX-License-Identifier: Apache-2.0
// Rows: key 'a' + id + rank holds an Arrival, and key 'o' + id holds a BarrierOutcome. The id is
// the kind, name, generation and sequence of a barrier. When the outcome is written, the arrival
// rows are erased. Only a released exchange keeps its arrival rows, because they hold the data.
#include "daemon/core/barriers/barriers.h"

#include <algorithm>

#include "daemon/core/barriers/disagreement.h"
#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

RowKey barrier_row(char kind, const BarrierKey& key) {
  return RowKey(kind)
      .number(static_cast<std::uint64_t>(key.kind))
      .text(key.name)
      .number(key.generation)
      .number(key.sequence);
}

BarrierKey read_barrier(RowKeyReader& in) {
  BarrierKey key;
  key.kind = in.number() == 0 ? BarrierKey::Kind::barrier : BarrierKey::Kind::exchange;
  key.name = in.text();
  key.generation = in.number();
  key.sequence = in.number();
  return key;
}

// Up to this many arrival rows are erased one by one. More rows are erased by their prefix.
constexpr std::size_t kErasedOneByOne = 1'024;

/// Returns the memory of an arrival: of its entries in the tables, and of what it brings.
std::size_t memory_of(const Arrival& arrival) {
  constexpr std::size_t kArrival = 512;
  constexpr std::size_t kPart = 48;
  return kArrival + arrival.bytes() + arrival.parts.size() * kPart +
         arrival.participants.size() * sizeof(Rank);
}

/// Returns the memory of an outcome.
std::size_t memory_of(const BarrierState& outcome) {
  constexpr std::size_t kOutcome = 512;
  return kOutcome + outcome.bytes() + outcome.participants.size() * sizeof(Rank);
}

/// Returns whether the restored rows of a barrier are consistent. A complete barrier must have no
/// arrivals, except a released exchange, which must have the arrivals of all ranks.
bool fits_together(const BarrierKey& key, const BarrierState& barrier) {
  if (!barrier.complete) return barrier.arrivals.size() <= barrier.world_size;
  if (barrier.broken) return barrier.arrivals.empty();
  if (key.kind == BarrierKey::Kind::barrier) return barrier.arrivals.empty();
  return barrier.arrivals.size() == barrier.world_size &&
         !difference(barrier, barrier.arrivals.begin()->second);
}

}  // namespace

std::size_t Arrival::bytes() const {
  std::size_t bytes = 0;
  for (const Bytes& part : parts) bytes += part.size() + sizeof(std::uint32_t);
  return bytes;
}

std::string describe(const BarrierKey& key) {
  return format("{} \"{}\" (generation {}, sequence {})",
                key.kind == BarrierKey::Kind::barrier ? "barrier" : "exchange",
                printable(key.name, limits::kNameBytes), key.generation, key.sequence);
}

Bytes token_of(const BarrierKey& key) { return barrier_row('o', key).take(); }

std::vector<Rank> BarrierState::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; !complete && rank < world_size; ++rank) {
    if (!arrivals.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

const SessionId* BarrierState::holder(Rank rank) const {
  if (complete) {
    const bool held = rank < cohort->sessions.size() && cohort->sessions[rank] != SessionId{};
    return held ? &cohort->sessions[rank] : nullptr;
  }
  const auto arrival = arrivals.find(rank);
  return arrival == arrivals.end() ? nullptr : &arrival->second.session;
}

std::vector<std::pair<Rank, SessionId>> BarrierState::arrived() const {
  std::vector<std::pair<Rank, SessionId>> all;
  for (const auto& [rank, arrival] : arrivals) all.emplace_back(rank, arrival.session);
  for (Rank rank = 0; complete && rank < cohort->sessions.size(); ++rank) {
    if (cohort->sessions[rank] != SessionId{}) all.emplace_back(rank, cohort->sessions[rank]);
  }
  return all;
}

std::size_t BarrierState::bytes() const {
  return (cohort ? cohort->sessions.size() * sizeof(SessionId) : 0) + (result ? result->size() : 0);
}

const BarrierState* Barriers::find(const BarrierKey& key) const {
  const auto it = barriers_.find(key);
  return it == barriers_.end() ? nullptr : &it->second;
}

Result<void> Barriers::check_same(const BarrierKey& key, Rank rank, const Arrival& arrival,
                                  const Sessions& sessions) const {
  const BarrierState* barrier = find(key);
  const auto what = barrier == nullptr ? std::nullopt : difference(*barrier, arrival);
  return what ? disagreement(key, *barrier, rank, arrival, *what, sessions) : Result<void>();
}

Result<const BarrierState*> Barriers::arrive(const BarrierKey& key, Rank rank, Arrival arrival,
                                             const Sessions& sessions, const Allowance& allowance,
                                             Revision revision, TimePoint now, Rows& rows) {
  const BarrierState* known = find(key);
  if (known != nullptr) {
    if (known->broken) return known;
    if (Result<void> same = check_same(key, rank, arrival, sessions); !same) return same.error();
    const SessionId* who = known->holder(rank);
    if (who != nullptr && *who != arrival.session) {
      return failure(Code::rank_taken, "{}: rank {} has already arrived from another session",
                     describe(key), rank);
    }
    if (who != nullptr) return known;
  } else if (pending() >= limits::kBarriersPerJob) {
    return failure(Code::quota_exceeded,
                   "too many unfinished barriers and exchanges in the job: {}, limit {}", pending(),
                   limits::kBarriersPerJob);
  }
  const std::size_t bytes = arrival.bytes();
  if (arrived_bytes_ + bytes > limits::kArrivedBytes) {
    return failure(Code::quota_exceeded,
                   "too many bytes in unfinished exchanges of the job: {}, limit {}",
                   arrived_bytes_ + bytes, limits::kArrivedBytes);
  }
  const std::size_t memory = memory_of(arrival);
  if (auto full = allowance.refuses(memory, "this arrival")) return *full;
  if (const Session* by = sessions.find(arrival.session)) {
    arrival.charge = Charge(by->account(), memory);
  }
  BarrierState& barrier = begin(key, arrival, now);
  rows.push_back(
      {Row::Kind::put, barrier_row('a', key).number(rank).take(), wire::encode(arrival)});
  arrival.participants = {};  // BarrierState::participants holds them
  participation_.arrived(arrival.session, key);
  arrived_bytes_ += bytes;
  barrier.revision = revision;
  barrier.arrivals.emplace(rank, std::move(arrival));
  const bool early = planted(Planted::barrier_early) && key.kind == BarrierKey::Kind::barrier;
  if (barrier.arrivals.size() + (early ? 1 : 0) < barrier.world_size) return &barrier;
  // Checks the connections of the participants only for a barrier without a group. The barrier of a
  // group needs no check, because the loss of a member breaks it.
  for (const auto& [at, one] : barrier.arrivals) {
    if (!barrier.group.empty() || planted(Planted::dead_arrival_counts)) break;
    const Session* session = sessions.find(one.session);
    if (session == nullptr || !session->connected) barrier.absent.insert(one.session);
  }
  if (barrier.absent.empty()) {
    release(key, barrier, revision, rows);
  } else {
    waiting_.insert(key);
  }
  return &barrier;
}

/// Returns the barrier of this key. Creates the barrier if this is the first arrival.
BarrierState& Barriers::begin(const BarrierKey& key, const Arrival& arrival, TimePoint now) {
  const auto [it, added] = barriers_.try_emplace(key);
  BarrierState& barrier = it->second;
  if (!added) return barrier;
  unfinished_.insert(key);
  barrier.world_size = arrival.world_size;
  barrier.shape = arrival.shape;
  barrier.root = arrival.root;
  barrier.group = arrival.group;
  barrier.participants = arrival.participants;
  barrier.first_arrival = now;
  return barrier;
}

std::vector<BarrierKey> Barriers::returned(const SessionId& session, Revision revision,
                                           Rows& rows) {
  note_presence(session);
  std::vector<BarrierKey> complete;
  for (const BarrierKey& key : waiting_) {
    std::set<SessionId>& absent = barriers_.at(key).absent;
    if (absent.erase(session) > 0 && absent.empty()) complete.push_back(key);
  }
  for (const BarrierKey& key : complete) {
    waiting_.erase(key);
    release(key, barriers_.at(key), revision, rows);
  }
  return complete;
}

void Barriers::note_presence(const SessionId& session) {
  if (participation_.find(session) != nullptr) ++presence_changes_;
}

void Barriers::disconnected(const SessionId& session) {
  note_presence(session);
  if (waiting_.empty()) return;
  const Participation::Participant* participant = participation_.find(session);
  if (participant == nullptr) return;
  for (const BarrierKey& key : participant->waits) {
    if (waiting_.contains(key)) barriers_.at(key).absent.insert(session);
  }
}

/// Erases the arrival rows of the ranks below `size`. Erases a few rows one by one, because Redis
/// searches all rows of the job to erase a prefix.
void Barriers::erase_ranks(const BarrierKey& key, std::uint32_t size, Rows& rows) {
  if (size > kErasedOneByOne) {
    rows.push_back({Row::Kind::erase_prefix, barrier_row('a', key).take(), {}});
    return;
  }
  for (Rank rank = 0; rank < size; ++rank) {
    rows.push_back({Row::Kind::erase, barrier_row('a', key).number(rank).take(), {}});
  }
}

/// Erases the rows of the ranks that have arrived.
void Barriers::erase_arrivals(const BarrierKey& key, const BarrierState& barrier, Rows& rows) {
  if (barrier.arrivals.size() > kErasedOneByOne) return erase_ranks(key, barrier.world_size, rows);
  for (const auto& [rank, arrival] : barrier.arrivals) {
    rows.push_back({Row::Kind::erase, barrier_row('a', key).number(rank).take(), {}});
  }
}

/// Completes a barrier at which all ranks have arrived and no session is absent.
void Barriers::release(const BarrierKey& key, BarrierState& barrier, Revision revision,
                       Rows& rows) {
  if (key.kind == BarrierKey::Kind::barrier) erase_arrivals(key, barrier, rows);
  if (key.kind == BarrierKey::Kind::exchange) assemble(barrier);
  barrier.revision = revision;
  finish(key, barrier);
  rows.push_back({Row::Kind::put, token_of(key),
                  wire::encode(BarrierOutcome{barrier.cohort->sessions, barrier.shape, barrier.root,
                                              revision})});
  forget_old(limits::kOutcomesKept, revision, rows);
}

/// Marks a barrier as complete, and turns its arrivals into a cohort (list of sessions).
void Barriers::finish(const BarrierKey& key, BarrierState& barrier) {
  barrier.complete = true;
  std::vector<SessionId> sessions(barrier.broken ? barrier.world_size : 0);
  for (const auto& [rank, arrival] : barrier.arrivals) {
    if (barrier.broken) sessions[rank] = arrival.session;
    if (!barrier.broken) sessions.push_back(arrival.session);
    arrived_bytes_ -= arrival.bytes();
  }
  barrier.cohort =
      participation_.finished(key, std::move(sessions), barrier.broken.has_value(), like(key));
  barrier.charge = Charge(barrier.arrivals.begin()->second.charge.account(), memory_of(barrier));
  barrier.arrivals.clear();
  unfinished_.erase(key);
  completed_.push_back(key);
  completed_bytes_ += barrier.bytes();
}

/// Returns the cohort of the previous barrier of the series or, if there is none, of the newest
/// outcome. That cohort most likely has the same sessions as this barrier, and then both barriers
/// share it. Returns nullptr if there is no outcome.
CohortRef Barriers::like(const BarrierKey& key) const {
  const auto at = barriers_.find(key);
  if (at != barriers_.begin()) {
    const auto before = std::prev(at);
    if (before->second.cohort && before->first.same_series(key)) return before->second.cohort;
  }
  return completed_.empty() ? nullptr : barriers_.at(completed_.back()).cohort;
}

void Barriers::fail(const BarrierKey& key, Failure reason, Revision revision, Rows& rows) {
  BarrierState& barrier = barriers_.at(key);
  C10DD_ASSERT(!barrier.complete);
  reason.recorded = true;
  barrier.revision = revision;
  barrier.broken = std::move(reason);
  barrier.absent.clear();
  waiting_.erase(key);
  erase_arrivals(key, barrier, rows);
  finish(key, barrier);
  const BarrierOutcome outcome{barrier.cohort->sessions, barrier.shape, barrier.root, revision,
                               *barrier.broken};
  if (!planted(Planted::break_not_stored)) {
    rows.push_back({Row::Kind::put, token_of(key), wire::encode(outcome)});
  }
  forget_old(limits::kOutcomesKept, revision, rows);
}

std::vector<BarrierKey> Barriers::of_group(const std::string& group) const {
  std::vector<BarrierKey> found;
  std::ranges::copy_if(unfinished_, std::back_inserter(found),
                       [&](const BarrierKey& key) { return barriers_.at(key).group == group; });
  return found;
}

std::vector<BarrierKey> Barriers::unfinished_like(const BarrierKey& key) const {
  std::vector<BarrierKey> found;
  for (auto it = unfinished_.lower_bound(key.first_of_series());
       it != unfinished_.end() && it->same_series(key); ++it) {
    found.push_back(*it);
  }
  return found;
}

std::uint64_t Barriers::newest_sequence(const BarrierKey& key) const {
  BarrierKey last = key;
  last.sequence = ~std::uint64_t{0};
  const auto after = barriers_.upper_bound(last);
  if (after == barriers_.begin()) return 0;
  const auto newest = std::prev(after);
  return newest->first.same_series(key) ? newest->first.sequence : 0;
}

const BarrierKey* Barriers::elsewhere(const SessionId& session, const BarrierKey& here) const {
  const Participation::Participant* participant = participation_.find(session);
  if (participant == nullptr) return nullptr;
  for (const BarrierKey& key : participant->waits) {
    if (key != here) return &key;
  }
  return nullptr;
}

void Barriers::leave(const SessionId& session, Revision revision, Rows& rows) {
  note_presence(session);
  const auto participant = participation_.leave(session);
  if (!participant) return;
  for (const BarrierKey& key : participant->waits) {
    BarrierState& barrier = barriers_.at(key);
    barrier.revision = revision;
    std::erase_if(barrier.arrivals, [&](const auto& entry) {
      if (entry.second.session != session) return false;
      rows.push_back({Row::Kind::erase, barrier_row('a', key).number(entry.first).take(), {}});
      if (!planted(Planted::arrival_bytes_kept)) arrived_bytes_ -= entry.second.bytes();
      return true;
    });
    waiting_.erase(key);  // a rank is missing again
    barrier.absent.clear();
    if (barrier.arrivals.empty()) forget(key, rows);
  }
  for (const auto& [cohort, ranks] : participant->cohorts) {
    if (cohort->departed < cohort->sessions.size()) continue;
    const std::set<BarrierKey> outcomes = cohort->outcomes;
    for (const BarrierKey& key : outcomes) drop(key, rows);
  }
}

void Barriers::drop(const BarrierKey& key, Rows& rows) {
  BarrierState& barrier = barriers_.at(key);
  if (barrier.complete) {
    std::erase(completed_, key);
    if (!planted(Planted::outcome_bytes_kept)) completed_bytes_ -= barrier.bytes();
    return forget(key, rows);
  }
  erase_arrivals(key, barrier, rows);
  for (const auto& [rank, arrival] : barrier.arrivals) {
    participation_.withdrew(arrival.session, key);
    arrived_bytes_ -= arrival.bytes();
  }
  forget(key, rows);
}

/// Removes a barrier. If the barrier is complete, the caller must first remove it from completed_.
void Barriers::forget(const BarrierKey& key, Rows& rows) {
  const auto it = barriers_.find(key);
  if (it->second.complete) {
    participation_.forgotten(key, it->second.cohort);
    rows.push_back({Row::Kind::erase, token_of(key), {}});
    if (key.kind == BarrierKey::Kind::exchange && !it->second.broken) {
      erase_ranks(key, it->second.world_size, rows);
    }
  }
  unfinished_.erase(key);
  waiting_.erase(key);
  barriers_.erase(it);
}

void Barriers::forget_broken(Rows& rows) {
  std::vector<BarrierKey> broken;
  std::ranges::copy_if(completed_, std::back_inserter(broken), [this](const BarrierKey& key) {
    return barriers_.at(key).broken.has_value();
  });
  for (const BarrierKey& key : broken) drop(key, rows);
}

/// Drops the oldest outcomes while there are more than `most`, or than their bytes may be. Keeps
/// outcomes of revision `since` or later, because their waiters have not been answered yet. Returns
/// whether there was something to drop.
bool Barriers::forget_old(std::size_t most, Revision since, Rows& rows) {
  const std::size_t before = completed_.size();
  while (completed_.size() > most || completed_bytes_ > outcome_bytes_) {
    const BarrierKey oldest = completed_.front();
    if (barriers_.at(oldest).revision >= since) break;
    drop(oldest, rows);
  }
  return completed_.size() < before;
}

Result<void> Barriers::restore(const Row& row) {
  RowKeyReader in(row.key);
  const BarrierKey key = read_barrier(in);
  const bool is_outcome = row.key.front() == 'o';
  const std::uint64_t rank = is_outcome ? 0 : in.number();
  if (!in.complete() || !row.key.starts_with(barrier_row(row.key.front(), key).take())) {
    return failure(Code::malformed, "a barrier row has a damaged key");
  }
  return is_outcome ? restore_outcome(key, row) : restore_arrival(key, rank, row);
}

Result<void> Barriers::restore_outcome(const BarrierKey& key, const Row& row) {
  Result<BarrierOutcome> outcome = wire::decode<BarrierOutcome>(row.value);
  if (!outcome || outcome->sessions.size() > limits::kWorldSize ||
      outcome->failure.code > kCodes[std::size(kCodes) - 1].code ||
      outcome->root >= outcome->sessions.size()) {
    return failure(Code::malformed, "damaged outcome row");
  }
  BarrierState& barrier = barriers_[key];
  barrier.complete = true;
  barrier.world_size = static_cast<std::uint32_t>(outcome->sessions.size());
  barrier.shape = outcome->shape;
  barrier.root = outcome->root;
  barrier.revision = outcome->revision;
  if (outcome->failure.code != Code::ok) barrier.broken = std::move(outcome->failure);
  barrier.cohort = std::make_shared<Cohort>();  // until resume()
  barrier.cohort->sessions = std::move(outcome->sessions);
  return {};
}

Result<void> Barriers::restore_arrival(const BarrierKey& key, std::uint64_t rank, const Row& row) {
  BarrierState& barrier = barriers_[key];
  Result<Arrival> arrival = wire::decode<Arrival>(row.value);
  bool good = arrival && arrival->world_size <= limits::kWorldSize && rank < arrival->world_size &&
              arrival->root < arrival->world_size;
  if (good && key.kind == BarrierKey::Kind::exchange) {
    good = check_parts(key, static_cast<Rank>(rank), *arrival).has_value();
  }
  if (good && !barrier.arrivals.empty()) {
    good = !difference(barrier, *arrival);
  }
  if (!good) return failure(Code::malformed, "damaged arrival row");
  barrier.world_size = arrival->world_size;
  barrier.shape = arrival->shape;
  barrier.root = arrival->root;
  barrier.group = arrival->group;
  barrier.participants = std::move(arrival->participants);
  arrival->participants = {};
  barrier.arrivals.emplace(static_cast<Rank>(rank), std::move(*arrival));
  return {};
}

Result<void> Barriers::resume(TimePoint now, const AccountRef& account) {
  for (auto& [key, barrier] : barriers_) {
    barrier.first_arrival = now;
    if (!fits_together(key, barrier)) {
      return failure(Code::malformed, describe(key) + ": its stored rows contradict each other");
    }
    if (barrier.complete) continue;
    unfinished_.insert(key);
    const bool all = barrier.arrivals.size() == barrier.world_size;
    for (auto& [rank, arrival] : barrier.arrivals) {
      participation_.arrived(arrival.session, key);
      arrival.charge = Charge(account, memory_of(arrival));
      arrived_bytes_ += arrival.bytes();
      if (all) barrier.absent.insert(arrival.session);
    }
    if (all) waiting_.insert(key);
  }
  // Goes through the barriers in key order, so that the cohort of the previous barrier of the
  // series is already set when like() needs it.
  for (auto& [key, barrier] : barriers_) {
    if (!barrier.complete) continue;
    if (key.kind == BarrierKey::Kind::exchange && !barrier.broken) assemble(barrier);
    barrier.arrivals.clear();
    std::vector<SessionId> sessions = std::move(barrier.cohort->sessions);
    barrier.cohort.reset();
    barrier.cohort =
        participation_.finished(key, std::move(sessions), barrier.broken.has_value(), like(key));
    barrier.charge = Charge(account, memory_of(barrier));
    completed_.push_back(key);
    completed_bytes_ += barrier.bytes();
  }
  const auto completed_at = [&](const BarrierKey& key) { return barriers_.at(key).revision; };
  std::ranges::stable_sort(completed_, {}, completed_at);
  return {};
}

}  // namespace c10dd::core
