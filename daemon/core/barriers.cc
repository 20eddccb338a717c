// SPDX-License-Identifier: Apache-2.0
// Row keys: 'a' + id + rank holds an Arrival, 'o' + id an BarrierOutcome, where id is the kind, the
// group, the generation and the sequence. A barrier's arrivals go when its outcome comes; an
// exchange keeps them, since they hold the data.
#include "daemon/core/barriers.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

RowKey meeting_row(char kind, const MeetingKey& key) {
  return RowKey(kind)
      .number(static_cast<std::uint64_t>(key.kind))
      .text(key.group)
      .number(key.generation)
      .number(key.sequence);
}

MeetingKey read_meeting(RowKeyReader& in) {
  MeetingKey key;
  key.kind = in.number() == 0 ? MeetingKey::Kind::barrier : MeetingKey::Kind::exchange;
  key.group = in.text();
  key.generation = in.number();
  key.sequence = in.number();
  return key;
}

constexpr std::size_t kErasedOneByOne = 1'024;

std::size_t bytes_of(const Arrival& arrival) {
  std::size_t bytes = 0;
  for (const Bytes& part : arrival.parts) bytes += part.size() + sizeof(std::uint32_t);
  return bytes;
}

Result<void> check_against(const MeetingKey& key, const Meeting& meeting, Rank rank,
                           const Arrival& arrival) {
  if (arrival.world_size != meeting.world_size) {
    return failure(Code::size_mismatch,
                   describe(key) + ": rank " + std::to_string(rank) + " says world size " +
                       std::to_string(arrival.world_size) + ", the first arrival said " +
                       std::to_string(meeting.world_size));
  }
  if (arrival.shape != meeting.shape || arrival.root != meeting.root) {
    return failure(Code::size_mismatch, describe(key) + ": rank " + std::to_string(rank) +
                                            " disagrees with the first arrival on shape or root");
  }
  if (!meeting.complete &&
      (arrival.world != meeting.world || arrival.participants != meeting.participants)) {
    return failure(Code::size_mismatch, describe(key) + ": rank " + std::to_string(rank) +
                                            " names other participants than the first arrival");
  }
  return {};
}

/// Of a meeting as its rows tell it: an exchange keeps its arrivals when it is complete.
bool fits_together(const MeetingKey& key, const Meeting& meeting) {
  if (!meeting.complete) return meeting.arrivals.size() <= meeting.world_size;
  if (meeting.broken) return meeting.arrivals.empty();
  if (key.kind == MeetingKey::Kind::barrier) return meeting.arrivals.empty();
  return meeting.arrivals.size() == meeting.world_size &&
         check_against(key, meeting, 0, meeting.arrivals.begin()->second).has_value();
}

}  // namespace

std::string describe(const MeetingKey& key) {
  return std::string(key.kind == MeetingKey::Kind::barrier ? "barrier" : "exchange") + " \"" +
         printable(key.group, limits::kNameBytes) + "\" (generation " +
         std::to_string(key.generation) + ", sequence " + std::to_string(key.sequence) + ")";
}

Bytes token_of(const MeetingKey& key) { return meeting_row('o', key).take(); }

std::vector<Rank> Meeting::missing() const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; !complete && rank < world_size; ++rank) {
    if (!arrivals.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

const SessionId* Meeting::holder(Rank rank) const {
  if (complete) {
    const bool held = rank < cohort->sessions.size() && cohort->sessions[rank] != SessionId{};
    return held ? &cohort->sessions[rank] : nullptr;
  }
  const auto arrival = arrivals.find(rank);
  return arrival == arrivals.end() ? nullptr : &arrival->second.session;
}

std::vector<std::pair<Rank, SessionId>> Meeting::arrived() const {
  std::vector<std::pair<Rank, SessionId>> all;
  for (const auto& [rank, arrival] : arrivals) all.emplace_back(rank, arrival.session);
  for (Rank rank = 0; complete && rank < cohort->sessions.size(); ++rank) {
    if (cohort->sessions[rank] != SessionId{}) all.emplace_back(rank, cohort->sessions[rank]);
  }
  return all;
}

std::size_t Meeting::bytes() const {
  return (cohort ? cohort->sessions.size() * sizeof(SessionId) : 0) + (result ? result->size() : 0);
}

const Meeting* Meetings::find(const MeetingKey& key) const {
  const auto it = meetings_.find(key);
  return it == meetings_.end() ? nullptr : &it->second;
}

Result<void> Meetings::check_same(const MeetingKey& key, Rank rank, const Arrival& arrival) const {
  const Meeting* meeting = find(key);
  return meeting == nullptr ? Result<void>() : check_against(key, *meeting, rank, arrival);
}

Result<const Meeting*> Meetings::arrive(const MeetingKey& key, Rank rank, Arrival arrival,
                                        const Sessions& sessions, Revision revision, TimePoint now,
                                        std::vector<Row>& rows) {
  const Meeting* known = find(key);
  if (known != nullptr) {
    if (known->broken) return known;
    if (Result<void> same = check_against(key, *known, rank, arrival); !same) return same.error();
    const SessionId* who = known->holder(rank);
    if (who != nullptr && *who != arrival.session) {
      return failure(Code::rank_taken, describe(key) + ": rank " + std::to_string(rank) +
                                           " has already arrived from another session");
    }
    if (who != nullptr) return known;
  } else if (pending() >= limits::kMeetingsPerJob) {
    return failure(Code::quota_exceeded, "too many unfinished barriers and exchanges in the job: " +
                                             std::to_string(pending()) + ", limit " +
                                             std::to_string(limits::kMeetingsPerJob));
  }
  const std::size_t bytes = bytes_of(arrival);
  if (arrived_bytes_ + bytes > limits::kArrivedBytes) {
    return failure(Code::quota_exceeded, "too many bytes in unfinished exchanges of the job: " +
                                             std::to_string(arrived_bytes_ + bytes) + ", limit " +
                                             std::to_string(limits::kArrivedBytes));
  }
  Meeting& meeting = begin(key, arrival, now);
  rows.push_back(
      {Row::Kind::put, meeting_row('a', key).number(rank).take(), wire::encode(arrival)});
  arrival.participants = {};  // the meeting has them
  participation_.arrived(arrival.session, key);
  arrived_bytes_ += bytes;
  meeting.revision = revision;
  meeting.arrivals.emplace(rank, std::move(arrival));
  const bool early = planted(Planted::barrier_early) && key.kind == MeetingKey::Kind::barrier;
  if (meeting.arrivals.size() + (early ? 1 : 0) < meeting.world_size) return &meeting;
  for (const auto& [at, one] : meeting.arrivals) {
    if (!meeting.world.empty() || planted(Planted::dead_arrival_counts)) break;
    const Session* session = sessions.find(one.session);
    if (session == nullptr || !session->connected) meeting.absent.insert(one.session);
  }
  if (meeting.absent.empty()) {
    release(key, meeting, revision, rows);
  } else {
    waiting_.insert(key);
  }
  return &meeting;
}

/// The meeting of an arrival; a new one if it is the first.
Meeting& Meetings::begin(const MeetingKey& key, const Arrival& arrival, TimePoint now) {
  const auto [it, added] = meetings_.try_emplace(key);
  Meeting& meeting = it->second;
  if (!added) return meeting;
  unfinished_.insert(key);
  meeting.world_size = arrival.world_size;
  meeting.shape = arrival.shape;
  meeting.root = arrival.root;
  meeting.world = arrival.world;
  meeting.participants = arrival.participants;
  meeting.first_arrival = now;
  return meeting;
}

std::vector<MeetingKey> Meetings::returned(const SessionId& session, Revision revision,
                                           std::vector<Row>& rows) {
  note_presence(session);
  std::vector<MeetingKey> complete;
  for (const MeetingKey& key : waiting_) {
    std::set<SessionId>& absent = meetings_.at(key).absent;
    if (absent.erase(session) > 0 && absent.empty()) complete.push_back(key);
  }
  for (const MeetingKey& key : complete) {
    waiting_.erase(key);
    release(key, meetings_.at(key), revision, rows);
  }
  return complete;
}

void Meetings::note_presence(const SessionId& session) {
  if (participation_.find(session) != nullptr) ++presence_changes_;
}

void Meetings::went(const SessionId& session) {
  note_presence(session);
  if (waiting_.empty()) return;
  const Participation::Participant* participant = participation_.find(session);
  if (participant == nullptr) return;
  for (const MeetingKey& key : participant->waits) {
    if (waiting_.contains(key)) meetings_.at(key).absent.insert(session);
  }
}

/// The rows of a meeting whose ranks have all come, or of those who have. A few go one by one: for
/// a prefix Redis looks through all rows of the job.
void Meetings::erase_ranks(const MeetingKey& key, std::uint32_t size, std::vector<Row>& rows) {
  if (size > kErasedOneByOne) {
    rows.push_back({Row::Kind::erase_prefix, meeting_row('a', key).take(), {}});
    return;
  }
  for (Rank rank = 0; rank < size; ++rank) {
    rows.push_back({Row::Kind::erase, meeting_row('a', key).number(rank).take(), {}});
  }
}
void Meetings::erase_arrivals(const MeetingKey& key, const Meeting& meeting,
                              std::vector<Row>& rows) {
  if (meeting.arrivals.size() > kErasedOneByOne) return erase_ranks(key, meeting.world_size, rows);
  for (const auto& [rank, arrival] : meeting.arrivals) {
    rows.push_back({Row::Kind::erase, meeting_row('a', key).number(rank).take(), {}});
  }
}

/// All have come and nobody is absent: the outcome.
void Meetings::release(const MeetingKey& key, Meeting& meeting, Revision revision,
                       std::vector<Row>& rows) {
  if (key.kind == MeetingKey::Kind::barrier) erase_arrivals(key, meeting, rows);
  if (key.kind == MeetingKey::Kind::exchange) assemble(meeting);
  meeting.revision = revision;
  finish(key, meeting);
  rows.push_back({Row::Kind::put, token_of(key),
                  wire::encode(BarrierOutcome{meeting.cohort->sessions, meeting.shape, meeting.root,
                                              revision})});
  forget_old(revision, rows);
}

/// Turns arrivals into the cohort of the outcome.
void Meetings::finish(const MeetingKey& key, Meeting& meeting) {
  meeting.complete = true;
  std::vector<SessionId> sessions(meeting.broken ? meeting.world_size : 0);
  for (const auto& [rank, arrival] : meeting.arrivals) {
    if (meeting.broken) sessions[rank] = arrival.session;
    if (!meeting.broken) sessions.push_back(arrival.session);
    arrived_bytes_ -= bytes_of(arrival);
  }
  meeting.cohort =
      participation_.finished(key, std::move(sessions), meeting.broken.has_value(), like(key));
  meeting.arrivals.clear();
  unfinished_.erase(key);
  completed_.push_back(key);
  completed_bytes_ += meeting.bytes();
}

/// A cohort that may be of the same sessions: of the meeting before in its series, else the newest.
CohortRef Meetings::like(const MeetingKey& key) const {
  const auto at = meetings_.find(key);
  if (at != meetings_.begin()) {
    const auto before = std::prev(at);
    if (before->second.cohort && before->first.same_series(key)) return before->second.cohort;
  }
  return completed_.empty() ? nullptr : meetings_.at(completed_.back()).cohort;
}

void Meetings::fail(const MeetingKey& key, Failure reason, Revision revision,
                    std::vector<Row>& rows) {
  Meeting& meeting = meetings_.at(key);
  C10DD_ASSERT(!meeting.complete);
  reason.recorded = true;
  meeting.revision = revision;
  meeting.broken = std::move(reason);
  meeting.absent.clear();
  waiting_.erase(key);
  erase_arrivals(key, meeting, rows);
  finish(key, meeting);
  const BarrierOutcome outcome{meeting.cohort->sessions, meeting.shape, meeting.root, revision,
                               *meeting.broken};
  if (!planted(Planted::break_not_stored)) {
    rows.push_back({Row::Kind::put, token_of(key), wire::encode(outcome)});
  }
  forget_old(revision, rows);
}

std::vector<MeetingKey> Meetings::of_world(const std::string& world) const {
  std::vector<MeetingKey> found;
  std::ranges::copy_if(unfinished_, std::back_inserter(found),
                       [&](const MeetingKey& key) { return meetings_.at(key).world == world; });
  return found;
}

std::vector<MeetingKey> Meetings::unfinished_like(const MeetingKey& key) const {
  std::vector<MeetingKey> found;
  for (auto it = unfinished_.lower_bound(key.first_of_series());
       it != unfinished_.end() && it->same_series(key); ++it) {
    found.push_back(*it);
  }
  return found;
}

std::uint64_t Meetings::newest_sequence(const MeetingKey& key) const {
  MeetingKey last = key;
  last.sequence = ~std::uint64_t{0};
  const auto after = meetings_.upper_bound(last);
  if (after == meetings_.begin()) return 0;
  const auto newest = std::prev(after);
  return newest->first.same_series(key) ? newest->first.sequence : 0;
}

const MeetingKey* Meetings::elsewhere(const SessionId& session, const MeetingKey& here) const {
  const Participation::Participant* participant = participation_.find(session);
  if (participant == nullptr) return nullptr;
  for (const MeetingKey& key : participant->waits) {
    if (key != here) return &key;
  }
  return nullptr;
}

void Meetings::leave(const SessionId& session, Revision revision, std::vector<Row>& rows) {
  note_presence(session);
  const auto participant = participation_.leave(session);
  if (!participant) return;
  for (const MeetingKey& key : participant->waits) {
    Meeting& meeting = meetings_.at(key);
    meeting.revision = revision;
    // A name of its own for the key: clang 14 captures no structured binding.
    std::erase_if(meeting.arrivals, [&](const auto& entry) {
      if (entry.second.session != session) return false;
      rows.push_back({Row::Kind::erase, meeting_row('a', key).number(entry.first).take(), {}});
      if (!planted(Planted::arrival_bytes_kept)) arrived_bytes_ -= bytes_of(entry.second);
      return true;
    });
    waiting_.erase(key);  // a rank is missing again
    meeting.absent.clear();
    if (meeting.arrivals.empty()) forget(key, rows);
  }
  for (const auto& [cohort, ranks] : participant->cohorts) {
    if (cohort->departed < cohort->sessions.size()) continue;
    const std::set<MeetingKey> outcomes = cohort->outcomes;
    for (const MeetingKey& key : outcomes) drop(key, rows);
  }
}

void Meetings::drop(const MeetingKey& key, std::vector<Row>& rows) {
  Meeting& meeting = meetings_.at(key);
  if (meeting.complete) {
    std::erase(completed_, key);
    if (!planted(Planted::outcome_bytes_kept)) completed_bytes_ -= meeting.bytes();
    return forget(key, rows);
  }
  erase_arrivals(key, meeting, rows);
  for (const auto& [rank, arrival] : meeting.arrivals) {
    participation_.withdrew(arrival.session, key);
    arrived_bytes_ -= bytes_of(arrival);
  }
  forget(key, rows);
}

/// Removes a meeting that is no longer counted in completed_.
void Meetings::forget(const MeetingKey& key, std::vector<Row>& rows) {
  const auto it = meetings_.find(key);
  if (it->second.complete) {
    participation_.forgotten(key, it->second.cohort);
    rows.push_back({Row::Kind::erase, token_of(key), {}});
    if (key.kind == MeetingKey::Kind::exchange && !it->second.broken) {
      erase_ranks(key, it->second.world_size, rows);
    }
  }
  unfinished_.erase(key);
  waiting_.erase(key);
  meetings_.erase(it);
}

void Meetings::forget_broken(std::vector<Row>& rows) {
  std::vector<MeetingKey> broken;
  std::ranges::copy_if(completed_, std::back_inserter(broken), [this](const MeetingKey& key) {
    return meetings_.at(key).broken.has_value();
  });
  for (const MeetingKey& key : broken) drop(key, rows);
}

/// Not what is an outcome since this revision: those who wait for it have not been answered yet.
void Meetings::forget_old(Revision since, std::vector<Row>& rows) {
  while (completed_.size() > limits::kOutcomesKept ||
         completed_bytes_ > limits::kOutcomeBytesKept) {
    const MeetingKey oldest = completed_.front();
    if (meetings_.at(oldest).revision >= since) return;
    drop(oldest, rows);
  }
}

Result<void> Meetings::restore(const Row& row) {
  RowKeyReader in(row.key);
  const MeetingKey key = read_meeting(in);
  const bool is_outcome = row.key.front() == 'o';
  const std::uint64_t rank = is_outcome ? 0 : in.number();
  if (!in.complete() || !row.key.starts_with(meeting_row(row.key.front(), key).take())) {
    return failure(Code::malformed, "damaged key of a meeting's row");
  }
  return is_outcome ? restore_outcome(key, row) : restore_arrival(key, rank, row);
}

Result<void> Meetings::restore_outcome(const MeetingKey& key, const Row& row) {
  Result<BarrierOutcome> outcome = wire::decode<BarrierOutcome>(row.value);
  if (!outcome || outcome->sessions.size() > limits::kWorldSize ||
      outcome->failure.code > kCodes[std::size(kCodes) - 1].code ||
      outcome->root >= outcome->sessions.size()) {
    return failure(Code::malformed, "damaged outcome row");
  }
  Meeting& meeting = meetings_[key];
  meeting.complete = true;
  meeting.world_size = static_cast<std::uint32_t>(outcome->sessions.size());
  meeting.shape = outcome->shape;
  meeting.root = outcome->root;
  meeting.revision = outcome->revision;
  if (outcome->failure.code != Code::ok) meeting.broken = std::move(outcome->failure);
  meeting.cohort = std::make_shared<Cohort>();  // until resume()
  meeting.cohort->sessions = std::move(outcome->sessions);
  return {};
}

Result<void> Meetings::restore_arrival(const MeetingKey& key, std::uint64_t rank, const Row& row) {
  Meeting& meeting = meetings_[key];
  Result<Arrival> arrival = wire::decode<Arrival>(row.value);
  bool good = arrival && arrival->world_size <= limits::kWorldSize && rank < arrival->world_size &&
              arrival->root < arrival->world_size;
  if (good && key.kind == MeetingKey::Kind::exchange) {
    good = check_parts(key, static_cast<Rank>(rank), *arrival).has_value();
  }
  if (good && !meeting.arrivals.empty()) {
    good = check_against(key, meeting, static_cast<Rank>(rank), *arrival).has_value();
  }
  if (!good) return failure(Code::malformed, "damaged arrival row");
  meeting.world_size = arrival->world_size;
  meeting.shape = arrival->shape;
  meeting.root = arrival->root;
  meeting.world = arrival->world;
  meeting.participants = std::move(arrival->participants);
  arrival->participants = {};
  meeting.arrivals.emplace(static_cast<Rank>(rank), std::move(*arrival));
  return {};
}

Result<void> Meetings::resume(TimePoint now) {
  for (auto& [key, meeting] : meetings_) {
    meeting.first_arrival = now;
    if (!fits_together(key, meeting)) {
      return failure(Code::malformed, describe(key) + ": arrivals and outcome do not fit together");
    }
    if (meeting.complete) continue;
    unfinished_.insert(key);
    const bool all = meeting.arrivals.size() == meeting.world_size;
    for (const auto& [rank, arrival] : meeting.arrivals) {
      participation_.arrived(arrival.session, key);
      arrived_bytes_ += bytes_of(arrival);
      if (all) meeting.absent.insert(arrival.session);
    }
    if (all) waiting_.insert(key);
  }
  for (auto& [key, meeting] : meetings_) {
    if (!meeting.complete) continue;
    if (key.kind == MeetingKey::Kind::exchange && !meeting.broken) assemble(meeting);
    meeting.arrivals.clear();
    std::vector<SessionId> sessions = std::move(meeting.cohort->sessions);
    meeting.cohort.reset();
    meeting.cohort =
        participation_.finished(key, std::move(sessions), meeting.broken.has_value(), like(key));
    completed_.push_back(key);
    completed_bytes_ += meeting.bytes();
  }
  const auto completed_at = [&](const MeetingKey& key) { return meetings_.at(key).revision; };
  std::ranges::stable_sort(completed_, {}, completed_at);
  return {};
}

}  // namespace c10dd::core
