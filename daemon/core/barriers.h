// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges of one job. A barrier is keyed (kind, group, generation, sequence); each
// rank arrives once; ONE outcome serves everybody, also after a restart: all have come, or it is
// broken and why. One that is bound to no group is released only while all who arrived have a
// connection: nobody is released together with a process that is dead. Arrivals and outcome are
// rows. Old outcomes are forgotten in order of completion, within limits::kOutcomesKept and
// kOutcomeBytesKept, and at once when all their sessions have ended.
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

/// `barrier "epoch" (generation 2, sequence 7)`, for error texts.
std::string describe(const BarrierKey& key);
/// What the waiters of a barrier wait for.
Bytes token_of(const BarrierKey& key);

/// One rank's arrival; for a barrier the data fields are empty.
struct Arrival {
  SessionId session;
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::vector<Bytes> parts;
  std::string group = {};  ///< see Barrier, as is the next
  std::vector<Rank> participants = {};
};
BOOST_DESCRIBE_STRUCT(Arrival, (), (session, world_size, shape, root, parts, group, participants))

struct BarrierOutcome {
  std::vector<SessionId> sessions;  ///< by rank; of a broken barrier, 0 for who had not arrived
  Shape shape = Shape::all;
  Rank root = 0;
  Revision revision = 0;                                         ///< of the batch that holds it
  Failure failure = {Code::ok, {}, {}, {}, Duration{0}, false};  ///< if it is broken
};
BOOST_DESCRIBE_STRUCT(BarrierOutcome, (), (sessions, shape, root, revision, failure))

struct BarrierState {
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::string group;
  std::vector<Rank> participants;
  std::map<Rank, Arrival> arrivals;  ///< until complete; an exchange's parts move to `result`
  TimePoint first_arrival;
  bool complete = false;  ///< it has its outcome
  std::optional<Failure> broken;
  Revision revision = 0;  ///< of its newest change
  CohortRef cohort;       ///< once complete
  std::shared_ptr<const Bytes> result;
  std::vector<std::pair<std::size_t, std::size_t>> slices;  ///< of result, by rank
  std::set<SessionId> absent;  ///< once all have arrived: whose connection it waits for

  std::vector<Rank> missing() const;
  /// The session that is this rank, if one has arrived.
  const SessionId* holder(Rank rank) const;
  /// The sessions that have arrived, by rank.
  std::vector<std::pair<Rank, SessionId>> arrived() const;
  /// The rank in `group` of one of those who meet.
  Rank rank_in_group(Rank rank) const { return participants.empty() ? rank : participants[rank]; }
  std::size_t bytes() const;
};

class Barriers {
 public:
  /// Rank arrives. Appends rows; with the last arrival the barrier is complete as of `revision` if
  /// it is bound to a group or all who arrived are connected. A repeat by the same session changes
  /// nothing. Fails with size_mismatch, rank_taken, invalid_argument or quota_exceeded, and then
  /// nothing has changed.
  Result<const BarrierState*> arrive(const BarrierKey& key, Rank rank, Arrival arrival,
                                     const Sessions& sessions, Revision revision, TimePoint now,
                                     std::vector<Row>& rows);

  /// A session is connected again, or is not any more. Those that waited only for its connection
  /// are complete.
  std::vector<BarrierKey> returned(const SessionId& session, Revision revision,
                                   std::vector<Row>& rows);
  void went(const SessionId& session);

  const BarrierState* find(const BarrierKey& key) const;
  const Participation& participation() const { return participation_; }
  /// Counts returned(), went() and leave() of sessions that take part in a barrier or exchange.
  std::uint64_t presence_changes() const { return presence_changes_; }

  /// Whether an arrival names the world size, shape, root and participants of the earlier ones.
  Result<void> check_same(const BarrierKey& key, Rank rank, const Arrival& arrival) const;

  /// Gives a barrier that is not complete this outcome, for all who came and all who will.
  void fail(const BarrierKey& key, Failure reason, Revision revision, std::vector<Row>& rows);

  /// Removes a barrier with its arrivals or its outcome.
  void drop(const BarrierKey& key, std::vector<Row>& rows);

  /// Those that are not complete and bound to this group.
  std::vector<BarrierKey> of_group(const std::string& group) const;
  /// Those of its series that are not complete.
  std::vector<BarrierKey> unfinished_like(const BarrierKey& key) const;
  /// The highest sequence of its series.
  std::uint64_t newest_sequence(const BarrierKey& key) const;

  /// Another barrier than `here` where the session has arrived and still waits.
  const BarrierKey* elsewhere(const SessionId& session, const BarrierKey& here) const;

  /// A session has ended: it withdraws from barriers that are not complete.
  void leave(const SessionId& session, Revision revision, std::vector<Row>& rows);

  /// Nobody who could be told is left: no launch inherits the time-outs of the one before.
  void forget_broken(std::vector<Row>& rows);

  static bool owns(const Row& row) { return row.key.starts_with('a') || row.key.starts_with('o'); }
  Result<void> restore(const Row& row);
  /// After the last row: rebuilds the results of completed exchanges. Nobody is connected.
  Result<void> resume(TimePoint now);

  /// The revision of the newest outcome.
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
  std::set<BarrierKey> waiting_;      // of these, all have arrived and some are absent
  std::deque<BarrierKey> completed_;  // oldest first
  std::size_t completed_bytes_ = 0;
  std::size_t arrived_bytes_ = 0;
  std::uint64_t presence_changes_ = 1;
};

/// Whether an arrival has the parts that its shape asks for; the failure names the numbers.
Result<void> check_parts(const BarrierKey& key, Rank rank, const Arrival& arrival);

/// The encoded lists of parts of a complete exchange, one slice per rank.
void assemble(BarrierState& barrier);

}  // namespace c10dd::core
