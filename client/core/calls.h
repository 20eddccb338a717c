// SPDX-License-Identifier: Apache-2.0
// The calls of one session that have no reply yet: their order, their deadlines, which of them may
// be sent, and which replies the daemon may forget. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::client {

struct Call {
  std::uint64_t id = 0;        ///< counts the calls from 1
  std::uint64_t sequence = 0;  ///< identifies the call on the wire; 0 if not sent in this session
  Request request;
  TimePoint started;
  Duration limit{0};         ///< time-out that the caller gave; for error texts
  TimePoint due;             ///< end of the time-out; the daemon must reply before this time
  TimePoint deadline;        ///< end of the client's wait: `due`, plus kGrace if `waits` is true
  bool waits = false;        ///< the request itself has a time-out above 0
  bool on_wire = false;      ///< sent on the present connection
  bool sent_before = false;  ///< sent on an earlier connection, which was lost
  std::pair<std::uint64_t, std::uint64_t> place;  ///< position in the queue of calls to send
};

/// Owns the pending calls, in the order in which they are to be sent. The requests that are sent in
/// a session get the sequences 1, 2, 3 and so on.
class Calls {
 public:
  /// After the end of a request's time-out, the client waits this long for the daemon's reply. The
  /// reply says why the request timed out, for example which ranks did not arrive.
  static constexpr Duration kGrace = std::chrono::seconds(1);

  /// Adds a call to the queue. If the request has no time-out of its own, `limit` is the time-out
  /// of the call.
  const Call& add(Request request, Duration limit, TimePoint now);

  /// Return the pending call with this id or sequence, or nullptr.
  const Call* find(std::uint64_t id) const;
  const Call* find_sequence(std::uint64_t sequence) const;

  /// Returns the lowest sequence that the daemon must still remember. If the daemon need not
  /// remember any, returns the next sequence. The daemon must remember a write or queue_pop until
  /// its reply, and a cancelled pop until the reply to its Cancel. The daemon need not remember
  /// reads or any other waits, so a wait of hours does not fill the window.
  std::uint64_t acked_below() const;

  /// Returns the next call to send, or nullptr if there is none or the window is full. Marks the
  /// call as sent, writes its remaining time, and the time that has passed, into the request, and
  /// gives it the next sequence unless it has a sequence already. Cancels a blocked queue_pop that
  /// would soon fill the window, and queues it to be sent again under a new sequence.
  const Call* send_next(std::size_t window, TimePoint now);

  /// Returns the sequence of the next request to cancel, and marks its Cancel as sent.
  std::optional<std::uint64_t> cancel_next();
  /// Notes the reply to the Cancel of a sequence. Returns false if this Cancel was not sent.
  bool cancelled(std::uint64_t sequence);

  /// Puts the calls that were on the wire back into the queue, to be sent on the next connection.
  void connection_lost();
  /// Puts all pending calls into the queue of the next session, except the writes that may have
  /// been applied. Removes those writes and returns them.
  std::vector<Call> session_lost();

  /// Removes and returns a call that has its reply or was refused.
  Call take(std::uint64_t id);
  /// Removes a call whose caller no longer waits for it. Queues a Cancel if the daemon may still
  /// block on the request, or may have delivered an item for it.
  Call abandon(std::uint64_t id);
  std::vector<Call> abandon_expired(TimePoint now);
  std::vector<Call> abandon_all();

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return calls_.size(); }

  /// Recounts all that is kept beside the calls. Returns what does not agree; empty if all does.
  std::string audit() const;
  /// Returns the number of abandoned calls whose Cancel has no reply yet.
  std::size_t cancelling() const { return cancels_.size(); }

 private:
  void queue(Call& call);
  void requeue_blocked_pop(std::size_t window);

  std::uint64_t next_id_ = 1;
  std::uint64_t next_ = 1;   // the next sequence
  std::uint64_t order_ = 0;  // place of the next queued call that has no sequence
  std::map<std::uint64_t, Call> calls_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> queued_;  // id by place
  std::map<std::uint64_t, std::uint64_t> by_sequence_;                       // id by sequence
  std::set<std::uint64_t> held_;           // sequences that the daemon must remember
  std::map<std::uint64_t, bool> cancels_;  // sequences to cancel; true if the Cancel was sent
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
};

}  // namespace c10dd::client
