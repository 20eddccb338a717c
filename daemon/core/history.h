// SPDX-License-Identifier: Apache-2.0
// The newest changes of a job's keys, for watches. All of them are in memory; those that concern a
// key or prefix that is being watched are rows too, so that its watch goes on after a restart as if
// nothing had been. Bounded: the oldest revisions go first, and a watch that wants them is told.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/quotas.h"
#include "protocol/ops.h"

namespace c10dd::core {

class History {
 public:
  /// Nobody has asked for so long: a key or prefix is not watched any more.
  static constexpr Duration kForgottenAfter = std::chrono::minutes(10);

  /// Complete from the revision after `loaded` on.
  History(Revision loaded, const Quotas& quotas) : start_(loaded + 1), quotas_(quotas) {}

  /// Takes up a change; revisions never go down. Appends its row if somebody watches the key, and
  /// the removal of rows that have become too old.
  void add(Change change, std::vector<Row>& rows);

  /// Somebody watches this: its changes after `revision` become rows.
  void watched(const Watch& watch, Revision revision, TimePoint now, std::vector<Row>& rows);

  /// From which revision on all changes are here that concern the watch.
  Revision start(const Watch& watch) const;

  /// Appends to `out` what the watch asks for, from (from, skip) on, at most
  /// limits::kWatchAnswerBytes; out.next and out.skip say where to go on, at most at `head` + 1.
  void read(const Watch& watch, Revision head, Changes& out) const;

  /// What nobody has asked for in a long time; each is to be kept on or forgotten.
  std::vector<Watch> due(TimePoint now, std::size_t limit) const;
  void forget(const Watch& watch, std::vector<Row>& rows);
  std::optional<TimePoint> next_deadline() const;

  static bool owns(const Row& row) {
    return !row.key.empty() && std::string_view("hwf").find(row.key[0]) != std::string_view::npos;
  }
  Result<void> restore(const Row& row);
  void resume(TimePoint now);

  std::size_t bytes() const { return bytes_; }
  Finding audit() const;

 private:
  struct Position {
    Revision revision = 0;
    std::uint64_t index = 0;  ///< among the changes of this revision

    auto operator<=>(const Position&) const = default;
  };
  struct Watched {
    Revision since = 0;  ///< changes of this and later revisions are rows
    TimePoint deadline;
  };
  using Subject = std::pair<bool, Bytes>;  // is a prefix; key or prefix

  /// A change and where it stands; a list of them ascends.
  struct StoredChange {
    Position position;
    Change change;
  };

  bool is_watched(std::string_view key) const;
  void append(std::deque<StoredChange>& list, const Position& position, Change change);
  void drop_oldest(std::deque<StoredChange>& list);
  void set_deadline(const Subject& subject, Watched& watched, TimePoint deadline);

  std::deque<StoredChange> recent_;  // in memory only
  std::deque<StoredChange> kept_;    // rows
  Position last_;
  Revision start_;      // every change from here on is known
  Revision floor_ = 0;  // every kept one
  std::map<Subject, Watched> watched_;
  std::map<std::size_t, std::size_t> prefix_sizes_;  // of the prefixes watched, with their number
  std::set<std::pair<TimePoint, Subject>> by_deadline_;
  Quotas quotas_;
  std::size_t bytes_ = 0;
  std::size_t kept_bytes_ = 0;
};

/// Whether a watch is about this key.
inline bool concerns(const Watch& watch, std::string_view key) {
  return watch.prefix ? key.starts_with(watch.key) : key == watch.key;
}

}  // namespace c10dd::core
