// SPDX-License-Identifier: Apache-2.0
// The calls of one session that have no answer yet: their order, their deadlines, what may go on
// the wire, and what the daemon may forget. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "protocol/ops.h"

namespace c10dd::client {

struct Call {
  std::uint64_t sequence = 0;
  Request request;
  TimePoint started;
  Duration limit{0};   ///< what the caller allowed; for people
  TimePoint due;       ///< the daemon answers until then: the request's own time-out
  TimePoint deadline;  ///< without an answer until then the client gives up
  bool waits = false;  ///< the request carries a time-out of its own
  bool on_wire = false;
  bool sent_before = false;
};

class Calls {
 public:
  /// After the end of a request's own time-out the daemon has this long to say who was missing.
  static constexpr Duration kGrace = std::chrono::seconds(1);

  /// Takes the next sequence. `limit` holds for requests without a time-out of their own.
  const Call& add(Request request, Duration limit, TimePoint now);

  const Call* find(std::uint64_t sequence) const;

  /// The daemon may forget its replies to all lower sequences: that of the oldest write without
  /// an answer. Reads and waits hold nothing back: the daemon keeps no replies of them, and a wait
  /// of hours would otherwise fill the window.
  std::uint64_t acked_below() const;

  /// The oldest call that is not on the wire, marked as sent and with its remaining time written
  /// into it; nullptr when there is none or the window is full.
  const Call* send_next(std::size_t window, TimePoint now);

  /// The connection went: nothing is on the wire.
  void connection_lost();

  /// Removes an answered or given up call.
  Call take(std::uint64_t sequence);
  std::vector<Call> take_expired(TimePoint now);
  std::vector<Call> take_all();

  std::optional<TimePoint> next_deadline() const;
  std::size_t size() const { return calls_.size(); }

 private:
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Call> calls_;
  std::set<std::uint64_t> queued_;
  std::set<std::uint64_t> writes_;
  std::set<std::pair<TimePoint, std::uint64_t>> deadlines_;
};

}  // namespace c10dd::client
