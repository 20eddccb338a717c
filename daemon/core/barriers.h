// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges of one job. The key of a barrier is (kind, name, generation, sequence).
// Each rank arrives once. A barrier has ONE outcome for all its ranks, also after a restart: it was
// released because all ranks had arrived, or it is broken, with the reason. A barrier that is not
// bound to a group is released only while all sessions that arrived are connected, so that no rank
// is released together with a dead process. Arrivals and outcomes are rows. The oldest outcomes are
// forgotten first, beyond limits::kOutcomesKept and kOutcomeBytesKept; an outcome is forgotten at
// once when all its sessions have ended.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/participation.h"
#include "daemon/core/sessions.h"
#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

inline BarrierKey barrier_key(const Barrier& b) {
  return {BarrierKey::Kind::barrier, b.name, b.generation, b.sequence};
}
inline BarrierKey barrier_key(const Exchange& e) {
  return {BarrierKey::Kind::exchange, e.name, e.generation, e.sequence};
}

/// Returns for example `barrier "epoch" (generation 2, sequence 7)`, for error texts.
std::string describe(const BarrierKey& key);
/// Returns the token that the waiters of a barrier wait for; also the key of its outcome row.
Bytes token_of(const BarrierKey& key);

/// The arrival of one rank. A barrier does not use `shape`, `root` and `parts`.
struct Arrival {
  SessionId session;
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::vector<Bytes> parts;
  std::string group = {};  ///< this and `participants`: see Barrier in protocol/ops.h
  std::vector<Rank> participants = {};
};
BOOST_DESCRIBE_STRUCT(Arrival, (), (session, world_size, shape, root, parts, group, participants))

struct BarrierOutcome {
  std::vector<SessionId> sessions;  ///< by rank; zero for a rank that had not arrived
  Shape shape = Shape::all;
  Rank root = 0;
  Revision revision = 0;                                         ///< of the change that made it
  Failure failure = {Code::ok, {}, {}, {}, Duration{0}, false};  ///< code ok if released
};
BOOST_DESCRIBE_STRUCT(BarrierOutcome, (), (sessions, shape, root, revision, failure))

struct BarrierState {
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::string group;
  std::vector<Rank> participants;
  std::map<Rank, Arrival> arrivals;  ///< empty once complete; parts then are in `result`
  TimePoint first_arrival;
  bool complete = false;  ///< the barrier has its outcome: released or broken
  std::optional<Failure> broken;
  Revision revision = 0;  ///< of the barrier's newest change
  CohortRef cohort;       ///< set once complete
  std::shared_ptr<const Bytes> result;
  /// By rank: the offset and size of its slice of `result`.
  std::vector<std::pair<std::size_t, std::size_t>> slices;
  std::set<SessionId> absent;  ///< not connected; filled when all have arrived

  /// Returns the ranks that have not arrived; empty once complete.
  std::vector<Rank> missing() const;
  /// Returns the session that arrived as this rank, or nullptr.
  const SessionId* holder(Rank rank) const;
  /// Returns the sessions that have arrived, by rank.
  std::vector<std::pair<Rank, SessionId>> arrived() const;
  /// Returns the rank in `group` of a rank of this barrier.
  Rank rank_in_group(Rank rank) const { return participants.empty() ? rank : participants[rank]; }
  std::size_t bytes() const;
};

class Barriers {
 public:
  /// Records the arrival of a rank and appends its rows. The last arrival completes the barrier as
  /// of `revision` if it is bound to a group or all sessions that arrived are connected. An arrival
  /// that the same session repeats changes nothing. Fails with size_mismatch, rank_taken,
  /// invalid_argument or quota_exceeded; a failure changes nothing.
  Result<const BarrierState*> arrive(const BarrierKey& key, Rank rank, Arrival arrival,
                                     const Sessions& sessions, Revision revision, TimePoint now,
                                     std::vector<Row>& rows);

  /// Notes that a session is connected again. Completes the barriers that waited only for its
  /// connection, and returns their keys.
  std::vector<BarrierKey> returned(const SessionId& session, Revision revision,
                                   std::vector<Row>& rows);
  /// Notes that a session has lost its connection.
  void disconnected(const SessionId& session);

  const BarrierState* find(const BarrierKey& key) const;
  const Participation& participation() const { return participation_; }
  /// Counts returned(), went() and leave() of sessions that take part in a barrier or exchange.
  std::uint64_t presence_changes() const { return presence_changes_; }

  /// Fails with size_mismatch if an arrival differs from the first one of its barrier in world
  /// size, shape or root, or, until the barrier is complete, in group or participants.
  Result<void> check_same(const BarrierKey& key, Rank rank, const Arrival& arrival) const;

  /// Breaks a barrier that is not complete: this failure is its outcome, also for ranks that arrive
  /// later.
  void fail(const BarrierKey& key, Failure reason, Revision revision, std::vector<Row>& rows);

  /// Removes a barrier with its arrivals or its outcome.
  void drop(const BarrierKey& key, std::vector<Row>& rows);

  /// Returns the barriers that are not complete and bound to this group.
  std::vector<BarrierKey> of_group(const std::string& group) const;
  /// Returns the barriers of the key's series that are not complete.
  std::vector<BarrierKey> unfinished_like(const BarrierKey& key) const;
  /// Returns the highest sequence of the key's series; 0 if there is no barrier.
  std::uint64_t newest_sequence(const BarrierKey& key) const;

  /// Returns another barrier than `here` at which the session has arrived and still waits, or
  /// nullptr.
  const BarrierKey* elsewhere(const SessionId& session, const BarrierKey& here) const;

  /// Withdraws a session that has ended from the barriers that are not complete, and drops the
  /// outcomes whose sessions have all ended.
  void leave(const SessionId& session, Revision revision, std::vector<Row>& rows);

  /// Drops the outcomes of broken barriers. Called when the last session has ended, so that the
  /// next launch does not inherit time-outs.
  void forget_broken(std::vector<Row>& rows);

  static bool owns(const Row& row) { return row.key.starts_with('a') || row.key.starts_with('o'); }
  Result<void> restore(const Row& row);
  /// Finishes a restore after its last row: rebuilds the results of completed exchanges. No session
  /// is connected. Fails with malformed if arrivals and outcomes do not fit together.
  Result<void> resume(TimePoint now);

  /// Returns the revision of the newest outcome.
  Revision newest() const {
    return completed_.empty() ? 0 : barriers_.at(completed_.back()).revision;
  }
  std::size_t pending() const { return unfinished_.size(); }
  std::size_t outcomes() const { return completed_.size(); }
  Finding audit() const;

 private:
  BarrierState& begin(const BarrierKey& key, const Arrival& arrival, TimePoint now);
  void finish(const BarrierKey& key, BarrierState& barrier);
  void release(const BarrierKey& key, BarrierState& barrier, Revision revision,
               std::vector<Row>& rows);
  CohortRef like(const BarrierKey& key) const;
  static void erase_ranks(const BarrierKey& key, std::uint32_t size, std::vector<Row>& rows);
  static void erase_arrivals(const BarrierKey& key, const BarrierState& barrier,
                             std::vector<Row>& rows);
  void note_presence(const SessionId& session);
  void forget(const BarrierKey& key, std::vector<Row>& rows);
  void forget_old(Revision since, std::vector<Row>& rows);
  Result<void> restore_outcome(const BarrierKey& key, const Row& row);
  Result<void> restore_arrival(const BarrierKey& key, std::uint64_t rank, const Row& row);

  std::map<BarrierKey, BarrierState> barriers_;
  Participation participation_;
  std::set<BarrierKey> unfinished_;
  std::set<BarrierKey> waiting_;      // unfinished; all have arrived, some are absent
  std::deque<BarrierKey> completed_;  // oldest first
  std::size_t completed_bytes_ = 0;
  std::size_t arrived_bytes_ = 0;
  std::uint64_t presence_changes_ = 1;
};

/// Fails with size_mismatch if an arrival has another number of parts than its shape needs, and
/// with invalid_argument if the shape is unknown.
Result<void> check_parts(const BarrierKey& key, Rank rank, const Arrival& arrival);

/// Fills `result` and `slices` of an exchange at which all have arrived: the encoded list of parts
/// that each rank gets.
void assemble(BarrierState& barrier);

}  // namespace c10dd::core
