// SPDX-License-Identifier: Apache-2.0
// Keeps the newest changes of a job's keys in memory, for watches. Changes of a watched key or
// prefix are also stored as rows, so that the watch continues after a restart without a gap. The
// history is bounded: the oldest changes are dropped first, and a watch that asks for them fails.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/memory_ledger.h"
#include "daemon/core/quotas.h"
#include "protocol/ops.h"
#include "protocol/rows.h"

namespace c10dd::core {

class History {
 public:
  /// A key or prefix stays watched for at least this time after a watch has asked for it.
  static constexpr Duration kForgottenAfter = std::chrono::minutes(10);

  /// Starts an empty history. It will contain all changes of the revisions after `loaded`.
  History(Revision loaded, const Quotas& quotas) : start_(loaded + 1), quotas_(quotas) {}

  /// Adds a change. Its revision must not be lower than the previous change's. If the key is
  /// watched, appends a row with the change to `rows`. If the quotas are exceeded, drops the oldest
  /// changes. If a dropped change has a row, appends the deletion of this row to `rows`.
  void add(Change&& change, Rows& rows);

  /// Notes that a key or prefix is watched: its changes after `revision` will be stored as rows.
  /// `account` pays for the entry; without room for it, they stay in memory only.
  void watched(const Watch& watch, Revision revision, TimePoint now, const AccountRef& account,
               const Allowance& allowance, Rows& rows);

  /// Returns the oldest revision from which the watch can start without missing a change.
  Revision start(const Watch& watch) const;

  /// Appends to `out` the changes that concern the watch, beginning at position (from, skip), up to
  /// about limits::kWatchReplyBytes. Sets out.next and out.skip to the position of the next read.
  /// After all changes have been read, this position is the revision after `head`.
  void read(const Watch& watch, Revision head, Changes& out) const;

  /// Returns at most `limit` keys and prefixes that no watch has asked for in the last
  /// kForgottenAfter. The caller must call watched() or forget() for each.
  std::vector<Watch> due(TimePoint now, std::size_t limit) const;
  void forget(const Watch& watch, Rows& rows);
  std::optional<TimePoint> next_deadline() const;

  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("hwf").find(row.key[0]) != std::string_view::npos;
  }
  Result<void> restore(const Row& row);
  /// `account` pays for what is watched.
  void resume(TimePoint now, const AccountRef& account = nullptr);

  std::size_t bytes() const { return bytes_; }
  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;
  AuditResult audit() const;

 private:
  struct Position {
    Revision revision = 0;
    std::uint64_t index = 0;  ///< position among the changes of `revision`

    auto operator<=>(const Position&) const = default;
  };
  struct Watched {
    Revision since = 0;  ///< changes from this revision on are stored as rows
    TimePoint deadline;
    Charge charge = {};
  };
  using Subject = std::pair<bool, Bytes>;  // first: true for a prefix; second: the prefix or key
  using ByDeadline = std::pair<TimePoint, const Subject*>;  // of watched_
  struct ByTimeThenSubject {
    bool operator()(const ByDeadline& a, const ByDeadline& b) const {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    }
  };

  /// A change with its position. Lists of stored changes are in ascending order of positions.
  struct StoredChange {
    Position position;
    Change change;
  };

  bool is_watched(std::string_view key) const;
  void append(std::deque<StoredChange>& list, const Position& position, Change&& change);
  void drop_oldest(std::deque<StoredChange>& list);
  void set_deadline(const Subject& subject, Watched& watched, TimePoint deadline);

  std::deque<StoredChange> recent_;  // in memory only
  std::deque<StoredChange> kept_;    // rows
  Position last_;
  Revision start_;      // all changes from this revision on are still in memory
  Revision floor_ = 0;  // stored changes from this revision on are all still in kept_
  std::map<Subject, Watched> watched_;
  std::map<std::size_t, std::size_t> prefix_sizes_;  // counts the watched prefixes by length
  std::set<ByDeadline, ByTimeThenSubject> by_deadline_;
  Quotas quotas_;
  std::size_t bytes_ = 0;
  std::size_t kept_bytes_ = 0;
};

/// Returns whether a watch is about this key.
inline bool concerns(const Watch& watch, std::string_view key) {
  return watch.prefix ? key.starts_with(watch.key) : key == watch.key;
}

}  // namespace c10dd::core
