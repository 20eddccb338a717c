// SPDX-License-Identifier: Apache-2.0
// The calls of one session that have no answer yet: their order, their deadlines, what may go on
// the wire, and what the daemon may forget. Pure.
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
  std::uint64_t sequence = 0;  ///< its name on the wire; 0: not sent in this session
  Request request;
  TimePoint started;
  Duration limit{0};   ///< what the caller allowed; for people
  TimePoint due;       ///< the daemon answers until then: the request's own time-out
  TimePoint deadline;  ///< without an answer until then the client gives up
  bool waits = false;  ///< the request carries a time-out of its own
  bool on_wire = false;
  bool sent_before = false;
  std::pair<std::uint64_t, std::uint64_t> place;  ///< in the queue of what is to be sent
};

class Calls {
 public:
  /// After the end of a request's own time-out the daemon has this long to say who was missing.
  static constexpr Duration kGrace = std::chrono::seconds(1);

  /// `limit` holds for requests without a time-out of their own.
  const Call& add(Request request, Duration limit, TimePoint now);

  const Call* find(std::uint64_t id) const;
  const Call* find_sequence(std::uint64_t sequence) const;

  /// The daemon may forget its replies to all lower sequences: that of the oldest write or
  /// queue_pop without an answer, or whose cancel has none. Reads and waits hold nothing back: the
  /// daemon keeps no replies of them, and a wait of hours would otherwise fill the window.
  std::uint64_t acked_below() const;

  /// The next call that is not on the wire, marked as sent and with its remaining time written
  /// into it; nullptr when there is none or the window is full. Gives it the next sequence unless
  /// it has one. A blocked queue_pop that would soon fill the window is cancelled and sent again
  /// later, under a new sequence.
  const Call* send_next(std::size_t window, TimePoint now);

  /// The next sequence to send a Cancel for, marked as sent.
  std::optional<std::uint64_t> cancel_next();
  /// The Cancel of this sequence is answered; whether there was one.
  bool cancelled(std::uint64_t sequence);

  /// The connection went: nothing is on the wire.
  void connection_lost();
  /// The session went: all that is pending is to be sent in a new one, except for the writes that
  /// may have been applied, which are removed and returned.
  std::vector<Call> session_lost();

  /// Removes an answered or refused call.
  Call take(std::uint64_t id);
  /// Removes a call that nobody waits for any more. If the daemon may be waiting for it, or keep
  /// an item for it, a Cancel is to be sent.
  Call give_up(std::uint64_t id);
  std::vector<Call> give_up_expired(TimePoint now);
  std::vector<Call> give_up_all();

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return calls_.size(); }

 private:
  void queue(Call& call);
  void renew_blocked_pops(std::size_t window);

  std::uint64_t next_id_ = 1;
  std::uint64_t next_ = 1;   // sequence
  std::uint64_t order_ = 0;  // of the calls without one
  std::map<std::uint64_t, Call> calls_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> queued_;  // id by place
  std::map<std::uint64_t, std::uint64_t> by_sequence_;                       // id
  std::set<std::uint64_t> held_;           // sequences that the daemon must remember
  std::map<std::uint64_t, bool> cancels_;  // sequences to cancel; whether that is on the wire
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
};

}  // namespace c10dd::client
