// SPDX-License-Identifier: Apache-2.0
// Rows:
//   'h' + revision + index: a Change.
//   'w' + 1 + prefix, or 'w' + 0 + key: a revision. From this revision on, the changes of the
//   prefix or key are stored.
//   'f': a revision. Stored changes from before this revision may have been dropped.
#include "daemon/core/keys/history.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"

namespace c10dd::core {

struct WatchedRow {
  Revision since = 0;
};
BOOST_DESCRIBE_STRUCT(WatchedRow, (), (since))

namespace {

std::size_t size_of(const Change& change) {
  return sizeof(Change) + change.key.size() + change.value.size();
}

/// The memory of an entry of what is watched, without its key.
constexpr std::size_t kWatchedBytes = 256;

Bytes change_key(Revision revision, std::uint64_t index) {
  return RowKey('h').number(revision).number(index).take();
}
Bytes subject_key(bool prefix, const Bytes& key) {
  return RowKey('w').number(prefix ? 1 : 0).rest(key).take();
}

}  // namespace

// ---- changes -----------------------------------------------------------------------------------

void History::add(Change&& change, Rows& rows) {
  const Revision revision = change.revision;
  last_ = last_.revision == revision ? Position{revision, last_.index + 1} : Position{revision, 0};
  if (is_watched(change.key)) {
    rows.push_back({Row::Kind::put, change_key(revision, last_.index), wire::encode(change)});
    kept_bytes_ += size_of(change);
    append(kept_, last_, std::move(change));
  } else {
    append(recent_, last_, std::move(change));
  }
  while (recent_.size() > quotas_.history_changes || bytes_ - kept_bytes_ > quotas_.history_bytes) {
    start_ = std::max(planted(Planted::history_start_sinks) ? 0 : start_,
                      recent_.front().position.revision + 1);
    drop_oldest(recent_);
  }
  const bool full = kept_.size() > quotas_.history_changes || kept_bytes_ > quotas_.history_bytes;
  while (kept_.size() > quotas_.history_changes || kept_bytes_ > quotas_.history_bytes) {
    const Position oldest = kept_.front().position;
    kept_bytes_ -= size_of(kept_.front().change);
    floor_ = oldest.revision + 1;
    start_ = std::max(start_, floor_);
    rows.push_back({Row::Kind::erase, change_key(oldest.revision, oldest.index), {}});
    drop_oldest(kept_);
  }
  if (full) rows.push_back({Row::Kind::put, "f", wire::encode(WatchedRow{floor_})});
}

void History::append(std::deque<StoredChange>& list, const Position& position, Change&& change) {
  bytes_ += size_of(change);
  list.push_back({position, std::move(change)});
}

void History::drop_oldest(std::deque<StoredChange>& list) {
  if (!planted(Planted::change_bytes_kept)) bytes_ -= size_of(list.front().change);
  list.pop_front();
}

void History::read(const Watch& watch, Revision head, Changes& out) const {
  Revision revision = watch.from;
  std::uint32_t passed = 0;  // number of changes of `revision` so far that concern the watch
  std::size_t bytes = 0;
  const auto first = [from = Position{watch.from, 0}](const std::deque<StoredChange>& list) {
    return std::ranges::lower_bound(list, from, {}, &StoredChange::position);
  };
  // Merges recent_ and kept_ by position.
  auto recent = first(recent_);
  auto kept = first(kept_);
  while (recent != recent_.end() || kept != kept_.end()) {
    const bool from_kept =
        recent == recent_.end() || (kept != kept_.end() && kept->position < recent->position);
    const Change& change = (from_kept ? kept++ : recent++)->change;
    if (!concerns(watch, change.key)) continue;
    if (change.revision != revision) {
      revision = change.revision;
      passed = 0;
    }
    if (revision == watch.from && passed < watch.skip) {
      ++passed;
      continue;
    }
    bytes += size_of(change);
    if (bytes > limits::kWatchReplyBytes && !out.changes.empty()) {
      out.next = revision;
      out.skip = passed;
      return;
    }
    out.changes.push_back(change);
    ++passed;
  }
  out.next = std::max(watch.from, head + 1);
  out.skip = 0;
}

// ---- watched keys and prefixes ------------------------------------------------------------------

bool History::is_watched(std::string_view key) const {
  if (watched_.empty()) return false;
  if (watched_.contains(Subject(false, key))) return true;
  for (const auto& [size, count] : prefix_sizes_) {
    if (size > key.size()) break;
    if (watched_.contains(Subject(true, key.substr(0, size)))) return true;
  }
  return false;
}

void History::watched(const Watch& watch, Revision revision, TimePoint now,
                      const AccountRef& account, const Allowance& allowance, Rows& rows) {
  const Subject subject(watch.prefix, watch.key);
  auto it = watched_.find(subject);
  if (it == watched_.end()) {
    const std::size_t bytes = kWatchedBytes + watch.key.size();
    if (watched_.size() >= limits::kWatchedKept) return;  // changes stay in memory only
    if (allowance.refuses(bytes, "a watched key")) return;
    it = watched_.emplace(subject, Watched{revision + 1, {}, Charge(account, bytes)}).first;
    if (watch.prefix) ++prefix_sizes_[watch.key.size()];
    rows.push_back({Row::Kind::put, subject_key(watch.prefix, watch.key),
                    wire::encode(WatchedRow{revision + 1})});
  }
  set_deadline(it->first, it->second, now + kForgottenAfter);
}

void History::set_deadline(const Subject& subject, Watched& watched, TimePoint deadline) {
  by_deadline_.erase({watched.deadline, &subject});
  watched.deadline = deadline;
  by_deadline_.emplace(deadline, &subject);
}

Revision History::start(const Watch& watch) const {
  const auto it = watched_.find({watch.prefix, watch.key});
  if (it == watched_.end()) return start_;
  return std::min(start_, std::max(it->second.since, floor_));
}

std::vector<Watch> History::due(TimePoint now, std::size_t limit) const {
  std::vector<Watch> subjects;
  for (const auto& [deadline, subject] : by_deadline_) {
    if (deadline > now || subjects.size() == limit) break;
    subjects.push_back({subject->second, subject->first, 0, 0, Duration{0}});
  }
  return subjects;
}

std::optional<TimePoint> History::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

void History::forget(const Watch& watch, Rows& rows) {
  const auto it = watched_.find({watch.prefix, watch.key});
  if (it == watched_.end()) return;
  by_deadline_.erase({it->second.deadline, &it->first});
  if (watch.prefix && --prefix_sizes_.at(watch.key.size()) == 0) {
    prefix_sizes_.erase(watch.key.size());
  }
  watched_.erase(it);
  rows.push_back({Row::Kind::erase, subject_key(watch.prefix, watch.key), {}});
}

// ---- restart -----------------------------------------------------------------------------------

Result<void> History::restore(const Row& row) {
  RowKeyReader key(row.key);
  if (row.key[0] == 'h') {
    const Revision revision = key.number();
    const Position position{revision, key.number()};
    Result<Change> change = wire::decode<Change>(row.value);
    if (!key.complete() || !change || change->revision != revision || revision >= start_ ||
        (!kept_.empty() && position <= kept_.back().position)) {
      return failure(Code::malformed, "damaged row of a change kept for watches");
    }
    kept_bytes_ += size_of(*change);
    append(kept_, position, std::move(*change));
    return {};
  }
  const Result<WatchedRow> value = wire::decode<WatchedRow>(row.value);
  if (row.key == "f" && value) {
    floor_ = value->since;
    return {};
  }
  const std::uint64_t prefix = key.number();
  const Bytes subject(key.rest());
  if (row.key[0] != 'w' || !key.complete() || prefix > 1 || !value) {
    return failure(Code::malformed, "damaged row of a watched key");
  }
  watched_[{prefix == 1, subject}] = Watched{value->since, {}, {}};
  if (prefix == 1) ++prefix_sizes_[subject.size()];
  return {};
}

void History::resume(TimePoint now, const AccountRef& account) {
  for (auto& [subject, watched] : watched_) {
    watched.charge = Charge(account, kWatchedBytes + subject.second.size());
    set_deadline(subject, watched, now + kForgottenAfter);
  }
}

std::size_t History::charged() const {
  std::size_t bytes = 0;
  for (const auto& [subject, watched] : watched_) bytes += watched.charge.bytes();
  return bytes;
}

AuditResult History::audit() const {
  std::size_t kept = 0;
  std::size_t recent = 0;
  const auto size_of = [](const Change& change) {
    return sizeof(Change) + change.key.size() + change.value.size();
  };
  for (const StoredChange& entry : kept_) kept += size_of(entry.change);
  for (const StoredChange& entry : recent_) recent += size_of(entry.change);
  std::size_t prefixes = 0;
  for (const auto& [subject, watched] : watched_) prefixes += subject.first ? 1 : 0;
  std::size_t sized = 0;
  for (const auto& [size, count] : prefix_sizes_) sized += count;
  return first_difference(
      {differ("bytes of watched changes", kept_bytes_, kept),
       differ("bytes of changes", bytes_, kept + recent),
       differ("watched prefixes", sized, prefixes),
       differ("deadlines of what is watched", by_deadline_.size(), watched_.size())});
}

}  // namespace c10dd::core
