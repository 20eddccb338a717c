// SPDX-License-Identifier: Apache-2.0
// The calls of one session that have no reply yet: their order, their deadlines, which of them may
// be sent, and which replies the daemon may forget. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::client {

struct Call {
  std::uint64_t id = 0;        ///< counts the calls from 1
  std::uint64_t sequence = 0;  ///< identifies it on the wire; 0: not sent in this session
  Request request;
  TimePoint started;
  Duration limit{0};         ///< time-out that the caller gave; for error texts
  TimePoint due;             ///< end of the time-out: the daemon replies by then
  TimePoint deadline;        ///< the client stops waiting then: due, plus kGrace if `waits`
  bool waits = false;        ///< the request has a time-out of its own
  bool on_wire = false;      ///< sent on the present connection
  bool sent_before = false;  ///< sent on a connection that was lost since
  std::pair<std::uint64_t, std::uint64_t> place;  ///< key in the queue of calls to send
};

/// Owns the pending calls, in the order in which they are to be sent. Sequences count the requests
/// that were sent in the session, from 1.
class Calls {
 public:
  /// Time that the daemon has after the end of a request's time-out to reply with what was missing.
  static constexpr Duration kGrace = std::chrono::seconds(1);

  /// Adds a call to the queue. `limit` is its time-out unless the request has one of its own.
  const Call& add(Request request, Duration limit, TimePoint now);

  /// Return a pending call, or nullptr.
  const Call* find(std::uint64_t id) const;
  const Call* find_sequence(std::uint64_t sequence) const;

  /// Returns the lowest sequence whose reply the daemon must still remember: that of the oldest
  /// write or queue_pop without a reply, or of the oldest cancelled pop whose Cancel has no reply.
  /// Reads and waits do not count: the daemon keeps no replies for them, and a wait of hours would
  /// otherwise fill the window.
  std::uint64_t acked_below() const;

  /// Returns the next call to send, or nullptr if there is none or the window is full. Marks the
  /// call as sent, writes its remaining time into the request, and gives it the next sequence
  /// unless it has one. A blocked queue_pop that would soon fill the window is cancelled, and sent
  /// again later under a new sequence.
  const Call* send_next(std::size_t window, TimePoint now);

  /// Returns the next sequence to send a Cancel for, and marks that Cancel as sent.
  std::optional<std::uint64_t> cancel_next();
  /// Notes the reply to the Cancel of a sequence. Returns false if no Cancel was sent for it.
  bool cancelled(std::uint64_t sequence);

  /// Puts the calls that were on the wire back into the queue, to be sent on the next connection.
  void connection_lost();
  /// Puts all pending calls into the queue of the next session, except for the writes that may have
  /// been applied: removes and returns these.
  std::vector<Call> session_lost();

  /// Removes a call that has its reply or was refused.
  Call take(std::uint64_t id);
  /// Removes a call that its caller no longer waits for. Queues a Cancel if the daemon may still
  /// block on the request, or may have delivered an item for it.
  Call give_up(std::uint64_t id);
  std::vector<Call> give_up_expired(TimePoint now);
  std::vector<Call> give_up_all();

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return calls_.size(); }

 private:
  void queue(Call& call);
  void requeue_blocked_pop(std::size_t window);

  std::uint64_t next_id_ = 1;
  std::uint64_t next_ = 1;   // the next sequence
  std::uint64_t order_ = 0;  // counts the queued calls that have no sequence
  std::map<std::uint64_t, Call> calls_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> queued_;  // id by place
  std::map<std::uint64_t, std::uint64_t> by_sequence_;                       // id by sequence
  std::set<std::uint64_t> held_;           // sequences that the daemon must remember
  std::map<std::uint64_t, bool> cancels_;  // sequence to cancel; whether its Cancel was sent
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
};

}  // namespace c10dd::client
