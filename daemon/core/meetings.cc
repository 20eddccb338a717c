// SPDX-License-Identifier: Apache-2.0
// Row keys: 'a' + id + rank holds an Arrival, 'o' + id an Outcome, where id is the kind, the
// group, the generation and the sequence. A barrier's arrivals go when its outcome comes; an
// exchange keeps them, since they hold the data.
#include "daemon/core/meetings.h"

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

Result<void> check_same(const MeetingKey& key, const Meeting& meeting, Rank rank,
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
  if (!meeting.complete) return meeting.arrivals.size() < meeting.world_size;
  if (meeting.broken) return meeting.arrivals.empty();
  if (key.kind == MeetingKey::Kind::barrier) return meeting.arrivals.empty();
  return meeting.arrivals.size() == meeting.world_size &&
         check_same(key, meeting, 0, meeting.arrivals.begin()->second).has_value();
}

Failure rank_taken(const MeetingKey& key, Rank rank) {
  return failure(Code::rank_taken,
                 describe(key) + ": rank " + std::to_string(rank) +
                     " has already arrived from another session; give each process its own rank, "
                     "and each restart of the job its own run or generation");
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

std::size_t Meeting::bytes() const {
  return sessions.size() * sizeof(SessionId) + (result ? result->size() : 0);
}

const Meeting* Meetings::find(const MeetingKey& key) const {
  const auto it = meetings_.find(key);
  return it == meetings_.end() ? nullptr : &it->second;
}

Result<const Meeting*> Meetings::arrive(const MeetingKey& key, Rank rank, Arrival arrival,
                                        Revision revision, TimePoint now, std::vector<Row>& rows) {
  auto it = meetings_.find(key);
  if (it != meetings_.end()) {
    Meeting& meeting = it->second;
    if (meeting.broken) return &meeting;
    if (Result<void> same = check_same(key, meeting, rank, arrival); !same) return same.error();
    const auto earlier = meeting.arrivals.find(rank);
    const SessionId* who = meeting.complete                    ? &meeting.sessions[rank]
                           : earlier != meeting.arrivals.end() ? &earlier->second.session
                                                               : nullptr;
    if (who != nullptr && *who != arrival.session) return rank_taken(key, rank);
    if (who != nullptr) return &meeting;
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
  if (it == meetings_.end()) {
    it = meetings_.emplace(key, Meeting{}).first;
    it->second.world_size = arrival.world_size;
    it->second.shape = arrival.shape;
    it->second.root = arrival.root;
    it->second.world = arrival.world;
    it->second.participants = arrival.participants;
    it->second.first_arrival = now;
  }
  Meeting& meeting = it->second;
  rows.push_back(
      {Row::Kind::put, meeting_row('a', key).number(rank).take(), wire::encode(arrival)});
  arrival.participants = {};  // the meeting has them
  ++by_session_[arrival.session][key];
  arrived_bytes_ += bytes;
  meeting.revision = revision;
  meeting.arrivals.emplace(rank, std::move(arrival));
  const bool early = planted(Planted::barrier_early) && key.kind == MeetingKey::Kind::barrier;
  if (meeting.arrivals.size() + (early ? 1 : 0) >= meeting.world_size) {
    if (key.kind == MeetingKey::Kind::barrier) erase_arrivals(key, meeting, rows);
    finish(key, meeting);
    rows.push_back(
        {Row::Kind::put, token_of(key),
         wire::encode(core::Outcome{meeting.sessions, meeting.shape, meeting.root, revision})});
    forget_old(rows);
  }
  return &meeting;
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

/// Turns arrivals into the outcome.
void Meetings::finish(const MeetingKey& key, Meeting& meeting) {
  meeting.complete = true;
  for (const auto& [rank, arrival] : meeting.arrivals) {
    meeting.sessions.push_back(arrival.session);
    arrived_bytes_ -= bytes_of(arrival);
  }
  if (key.kind == MeetingKey::Kind::exchange) assemble(meeting);
  meeting.arrivals.clear();
  completed_.push_back(key);
  completed_bytes_ += meeting.bytes();
}

void Meetings::fail(const MeetingKey& key, Failure reason, Revision revision,
                    std::vector<Row>& rows) {
  Meeting& meeting = meetings_.at(key);
  C10DD_ASSERT(!meeting.complete);
  reason.recorded = true;
  meeting.complete = true;
  meeting.revision = revision;
  meeting.sessions.resize(meeting.world_size);
  for (const auto& [rank, arrival] : meeting.arrivals) {
    meeting.sessions[rank] = arrival.session;
    arrived_bytes_ -= bytes_of(arrival);
  }
  erase_arrivals(key, meeting, rows);
  meeting.arrivals.clear();
  completed_.push_back(key);
  completed_bytes_ += meeting.bytes();
  meeting.broken = std::move(reason);
  const core::Outcome outcome{meeting.sessions, meeting.shape, meeting.root, revision,
                              *meeting.broken};
  if (!planted(Planted::break_not_stored)) {
    rows.push_back({Row::Kind::put, token_of(key), wire::encode(outcome)});
  }
  forget_old(rows);
}

std::vector<MeetingKey> Meetings::of_world(const std::string& world) const {
  std::vector<MeetingKey> found;
  for (const auto& [key, meeting] : meetings_) {
    if (!meeting.complete && meeting.world == world) found.push_back(key);
  }
  return found;
}

const MeetingKey* Meetings::elsewhere(const SessionId& session, const MeetingKey& here) const {
  const auto mine = by_session_.find(session);
  if (mine == by_session_.end()) return nullptr;
  for (const auto& [key, ranks] : mine->second) {
    const Meeting* meeting = find(key);
    if (key != here && meeting != nullptr && !meeting->complete) return &key;
  }
  return nullptr;
}

void Meetings::leave(const SessionId& session, Revision revision, std::vector<Row>& rows) {
  const auto mine = by_session_.extract(session);
  if (mine.empty()) return;
  for (const auto& [key, ranks] : mine.mapped()) {
    const auto it = meetings_.find(key);
    if (it == meetings_.end()) continue;
    Meeting& meeting = it->second;
    if (meeting.complete) {
      meeting.departed += ranks;
      if (meeting.departed < meeting.sessions.size()) continue;
      std::erase(completed_, key);
      completed_bytes_ -= meeting.bytes();
    } else {
      meeting.revision = revision;
      // A name of its own for the key: clang 14 captures no structured binding.
      std::erase_if(meeting.arrivals, [&, &left = key](const auto& entry) {
        if (entry.second.session != session) return false;
        rows.push_back({Row::Kind::erase, meeting_row('a', left).number(entry.first).take(), {}});
        arrived_bytes_ -= bytes_of(entry.second);
        return true;
      });
      if (!meeting.arrivals.empty()) continue;
    }
    forget(key, rows);
  }
}

/// Removes a meeting that is no longer counted in completed_.
void Meetings::forget(const MeetingKey& key, std::vector<Row>& rows) {
  const auto it = meetings_.find(key);
  for (const SessionId& session : it->second.sessions) {
    const auto mine = by_session_.find(session);  // none for those who never came
    if (mine == by_session_.end()) continue;
    mine->second.erase(key);
    if (mine->second.empty()) by_session_.erase(mine);
  }
  if (it->second.complete) {
    rows.push_back({Row::Kind::erase, token_of(key), {}});
    if (key.kind == MeetingKey::Kind::exchange && !it->second.broken) {
      erase_ranks(key, it->second.world_size, rows);
    }
  }
  meetings_.erase(it);
}

void Meetings::forget_broken(std::vector<Row>& rows) {
  std::vector<MeetingKey> broken;
  std::ranges::copy_if(completed_, std::back_inserter(broken), [this](const MeetingKey& key) {
    return meetings_.at(key).broken.has_value();
  });
  for (const MeetingKey& key : broken) {
    std::erase(completed_, key);
    completed_bytes_ -= meetings_.at(key).bytes();
    forget(key, rows);
  }
}

void Meetings::forget_old(std::vector<Row>& rows) {
  while (completed_.size() > 1 && (completed_.size() > limits::kOutcomesKept ||
                                   completed_bytes_ > limits::kOutcomeBytesKept)) {
    const MeetingKey oldest = std::move(completed_.front());
    completed_.pop_front();
    completed_bytes_ -= meetings_.at(oldest).bytes();
    forget(oldest, rows);
  }
}

std::vector<SessionId> Meetings::sessions() const {
  std::vector<SessionId> sessions;
  for (const auto& [session, ranks] : by_session_) sessions.push_back(session);
  return sessions;
}

Result<void> Meetings::restore(const Row& row) {
  RowKeyReader in(row.key);
  const MeetingKey key = read_meeting(in);
  const bool is_outcome = row.key.front() == 'o';
  const std::uint64_t rank = is_outcome ? 0 : in.number();
  if (!in.complete() || !row.key.starts_with(meeting_row(row.key.front(), key).take())) {
    return failure(Code::malformed, "damaged key of a meeting's row");
  }
  Meeting& meeting = meetings_[key];
  if (is_outcome) {
    Result<core::Outcome> outcome = wire::decode<core::Outcome>(row.value);
    if (!outcome || outcome->sessions.size() > limits::kWorldSize ||
        outcome->failure.code > kCodes[std::size(kCodes) - 1].code ||
        outcome->root >= outcome->sessions.size()) {
      return failure(Code::malformed, "damaged outcome row");
    }
    meeting.complete = true;
    meeting.world_size = static_cast<std::uint32_t>(outcome->sessions.size());
    meeting.shape = outcome->shape;
    meeting.root = outcome->root;
    meeting.revision = outcome->revision;
    meeting.sessions = std::move(outcome->sessions);
    if (outcome->failure.code != Code::ok) meeting.broken = std::move(outcome->failure);
    return {};
  }
  Result<Arrival> arrival = wire::decode<Arrival>(row.value);
  bool good = arrival && arrival->world_size <= limits::kWorldSize && rank < arrival->world_size &&
              arrival->root < arrival->world_size;
  if (good && key.kind == MeetingKey::Kind::exchange) {
    good = check_parts(key, static_cast<Rank>(rank), *arrival).has_value();
  }
  if (good && !meeting.arrivals.empty()) {
    good = check_same(key, meeting, static_cast<Rank>(rank), *arrival).has_value();
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
    if (!meeting.complete) {
      for (const auto& [rank, arrival] : meeting.arrivals) {
        ++by_session_[arrival.session][key];
        arrived_bytes_ += bytes_of(arrival);
      }
      continue;
    }
    for (const SessionId& session : meeting.sessions) {
      if (session != SessionId{}) ++by_session_[session][key];
    }
    if (key.kind == MeetingKey::Kind::exchange && !meeting.broken) {
      assemble(meeting);
      meeting.arrivals.clear();
    }
    completed_.push_back(key);
    completed_bytes_ += meeting.bytes();
  }
  const auto completed_at = [&](const MeetingKey& key) { return meetings_.at(key).revision; };
  std::ranges::stable_sort(completed_, {}, completed_at);
  return {};
}

}  // namespace c10dd::core
