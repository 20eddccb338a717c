// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges of one job. The key of a barrier is (kind, name, generation, sequence).
// Each rank arrives once. All ranks of a barrier get the same outcome, even after a restart. The
// outcome says either that the barrier was released (all ranks had arrived) or why it is broken. A
// barrier that is not bound to a group is released only while all sessions that arrived are
// connected, so that no rank is released together with a dead process. Arrivals and outcomes are
// stored as rows. Beyond limits::kOutcomesKept and kOutcomeBytesKept, the oldest outcomes are
// forgotten. An outcome is forgotten at once when all its sessions have ended.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/barriers/participation.h"
#include "daemon/core/sessions/sessions.h"
#include "protocol/ops.h"
#include "protocol/rows.h"
#include "protocol/types.h"

namespace c10dd::core {

inline BarrierKey barrier_key(const Barrier& b) {
  return {BarrierKey::Kind::barrier, b.name, b.generation, b.sequence};
}
inline BarrierKey barrier_key(const Exchange& e) {
  return {BarrierKey::Kind::exchange, e.name, e.generation, e.sequence};
}

/// Returns the text that names a barrier in errors: `barrier "epoch" (generation 2, sequence 7)`.
std::string describe(const BarrierKey& key);
/// Returns the token that wakes the waiters of a barrier. The token is also the key of the outcome
/// row.
Bytes token_of(const BarrierKey& key);

/// The arrival of one rank. Only an exchange uses `shape`, `root` and `parts`.
struct Arrival {
  SessionId session;
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::vector<Bytes> parts;
  std::string group = {};               ///< see Barrier in protocol/barrier_ops.h
  std::vector<Rank> participants = {};  ///< see Barrier in protocol/barrier_ops.h
  Charge charge = {};                   ///< not stored

  std::size_t bytes() const;  ///< of its parts
};
BOOST_DESCRIBE_STRUCT(Arrival, (), (session, world_size, shape, root, parts, group, participants))

struct BarrierOutcome {
  std::vector<SessionId> sessions;  ///< the session of each rank; zero if the rank had not arrived
  Shape shape = Shape::all;
  Rank root = 0;
  Revision revision = 0;                                         ///< revision of this outcome
  Failure failure = {Code::ok, {}, {}, {}, Duration{0}, false};  ///< code ok if released
};
BOOST_DESCRIBE_STRUCT(BarrierOutcome, (), (sessions, shape, root, revision, failure))

struct BarrierState {
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::string group;
  std::vector<Rank> participants;
  std::map<Rank, Arrival> arrivals;  ///< by rank; emptied when the barrier is complete
  TimePoint first_arrival;
  bool complete = false;  ///< true if the barrier was released or is broken
  std::optional<Failure> broken;
  Revision revision = 0;  ///< of the barrier's newest change
  CohortRef cohort;       ///< set once complete
  std::shared_ptr<const Bytes> result;
  /// For each rank, the offset and size of its slice of `result`.
  std::vector<std::pair<std::size_t, std::size_t>> slices;
  std::set<SessionId> absent;  ///< sessions without a connection; empty until all ranks arrive
  Charge charge;               ///< once complete: for the outcome, to the account of the first rank

  /// Returns the ranks that have not arrived; an empty list if the barrier is complete.
  std::vector<Rank> missing() const;
  /// Returns the session that arrived as this rank, or nullptr if this rank has not arrived.
  const SessionId* holder(Rank rank) const;
  /// Returns the ranks that have arrived and the session of each, in order of the ranks.
  std::vector<std::pair<Rank, SessionId>> arrived() const;
  /// Translates a rank of this barrier to the rank of the same member in `group`.
  Rank rank_in_group(Rank rank) const { return participants.empty() ? rank : participants[rank]; }
  std::size_t bytes() const;
};

class Barriers {
 public:
  /// outcome_bytes: beyond it, the oldest outcomes are forgotten.
  explicit Barriers(std::size_t outcome_bytes = limits::kOutcomeBytesKept)
      : outcome_bytes_(outcome_bytes) {}

  /// Records the arrival of a rank, and appends the changed rows. After the last arrival, completes
  /// the barrier at `revision` if the barrier is bound to a group or if all sessions that arrived
  /// are connected. Otherwise the barrier waits for its absent sessions. Changes nothing if the
  /// barrier is broken, or if this session has already arrived as this rank. Fails with
  /// size_mismatch, rank_taken or quota_exceeded; a failure changes nothing. `allowance` is that of
  /// the session.
  Result<const BarrierState*> arrive(const BarrierKey& key, Rank rank, Arrival arrival,
                                     const Sessions& sessions, const Allowance& allowance,
                                     Revision revision, TimePoint now, Rows& rows);

  /// Notes that a session is connected again. Completes the barriers that waited only for its
  /// connection, and returns their keys.
  std::vector<BarrierKey> returned(const SessionId& session, Revision revision, Rows& rows);
  /// Notes that a session has lost its connection.
  void disconnected(const SessionId& session);

  const BarrierState* find(const BarrierKey& key) const;
  const Participation& participation() const { return participation_; }
  /// Returns a number that grows when a participant is connected again, is disconnected or ends.
  std::uint64_t presence_changes() const { return presence_changes_; }

  /// Compares an arrival with the first arrival of its barrier. Fails with size_mismatch if the
  /// world size, the shape or the root differs. While the barrier is not complete, also fails if
  /// the group or the participants differ.
  Result<void> check_same(const BarrierKey& key, Rank rank, const Arrival& arrival,
                          const Sessions& sessions) const;

  /// Breaks a barrier that is not complete. Every rank gets `reason` as the outcome, even a rank
  /// that arrives later.
  void fail(const BarrierKey& key, Failure reason, Revision revision, Rows& rows);

  /// Memory is short: forgets all but the newest outcomes, limits::kOutcomesKeptShort, so that
  /// requests of the job are not refused for their sake. Keeps those of revision `since` or later.
  /// Returns whether there was something to forget.
  bool give_way(Revision since, Rows& rows) {
    return forget_old(limits::kOutcomesKeptShort, since, rows);
  }
  /// Removes a barrier together with its arrivals or its outcome.
  void drop(const BarrierKey& key, Rows& rows);

  /// Returns the unfinished barriers that are bound to this group.
  std::vector<BarrierKey> of_group(const std::string& group) const;
  /// The barriers that are not complete, in order of their keys.
  const std::set<BarrierKey>& unfinished() const { return unfinished_; }
  /// Returns the unfinished barriers of the series of `key`. The keys of a series differ only in
  /// the sequence.
  std::vector<BarrierKey> unfinished_like(const BarrierKey& key) const;
  /// Returns the highest sequence in the series of `key`; 0 if the series has no barrier.
  std::uint64_t newest_sequence(const BarrierKey& key) const;

  /// Returns an unfinished barrier, other than `here`, at which the session has arrived. Returns
  /// nullptr if there is no such barrier.
  const BarrierKey* elsewhere(const SessionId& session, const BarrierKey& here) const;

  /// Withdraws an ended session from the barriers that are not complete. Drops the outcomes whose
  /// sessions have all ended.
  void leave(const SessionId& session, Revision revision, Rows& rows);

  /// Drops the outcomes of broken barriers. Called when the last session has ended: the next
  /// session belongs to another launch, which must not get the failures of this launch.
  void forget_broken(Rows& rows);

  static bool owns(const Row& row) { return row.key.starts_with('a') || row.key.starts_with('o'); }
  Result<void> restore(const Row& row);
  /// Finishes a restore after its last row: rebuilds the results of completed exchanges. Treats all
  /// sessions as not connected. `account` pays for what is restored. Fails with malformed if
  /// arrivals and outcomes are inconsistent.
  Result<void> resume(TimePoint now, const AccountRef& account = nullptr);

  /// Returns the revision of the newest outcome.
  Revision newest() const {
    return completed_.empty() ? 0 : barriers_.at(completed_.back()).revision;
  }
  std::size_t pending() const { return unfinished_.size(); }
  std::size_t outcomes() const { return completed_.size(); }
  /// Returns the bytes that are charged for what it holds.
  std::size_t charged() const;
  AuditResult audit() const;

 private:
  BarrierState& begin(const BarrierKey& key, const Arrival& arrival, TimePoint now);
  void finish(const BarrierKey& key, BarrierState& barrier);
  void release(const BarrierKey& key, BarrierState& barrier, Revision revision, Rows& rows);
  CohortRef like(const BarrierKey& key) const;
  static void erase_ranks(const BarrierKey& key, std::uint32_t size, Rows& rows);
  static void erase_arrivals(const BarrierKey& key, const BarrierState& barrier, Rows& rows);
  void note_presence(const SessionId& session);
  void forget(const BarrierKey& key, Rows& rows);
  bool forget_old(std::size_t most, Revision since, Rows& rows);
  Result<void> restore_outcome(const BarrierKey& key, const Row& row);
  Result<void> restore_arrival(const BarrierKey& key, std::uint64_t rank, const Row& row);

  std::size_t outcome_bytes_;
  std::map<BarrierKey, BarrierState> barriers_;
  Participation participation_;
  std::set<BarrierKey> unfinished_;
  std::set<BarrierKey> waiting_;      // barriers that wait only for absent sessions
  std::deque<BarrierKey> completed_;  // oldest first
  std::size_t completed_bytes_ = 0;
  std::size_t arrived_bytes_ = 0;
  std::uint64_t presence_changes_ = 1;
};

/// Fails with size_mismatch if an arrival does not have the number of parts that its shape needs,
/// and with invalid_argument if the shape is unknown.
Result<void> check_parts(const BarrierKey& key, Rank rank, const Arrival& arrival);

/// Fills `result` and `slices` of an exchange at which all ranks have arrived. The slice of a rank
/// is the encoded list of the parts that the rank gets.
void assemble(BarrierState& barrier);

}  // namespace c10dd::core
