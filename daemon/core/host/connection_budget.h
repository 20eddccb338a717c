// SPDX-License-Identifier: Apache-2.0
// Limits the memory that all connections together hold for unfinished frames and unread replies.
// The caller does not report a frame of at most limits::kUncountedBytes, or a connection's unread
// replies of at most this size. These do not count and never make a connection wait. A larger frame
// counts with its full size as soon as its header has been read. If the frame does not fit, its
// connection must wait before it reads on.
//
// While a frame waits, or while the limit is exceeded, look() closes connections: first those that
// hold the most bytes, then those that wait. It closes only connections that have held or waited
// for kPatience calls of look(). Freed memory goes to the smallest waiting frame. Among frames of
// equal size, the newest comes first. This order serves the most connections, and the newest client
// is the most likely to be still there.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "protocol/error.h"

namespace c10dd::core {

class ConnectionBudget {
 public:
  using Connection = std::uint64_t;

  struct Closing {
    Connection connection;
    Failure reason;  ///< quota_exceeded; the text names the held bytes and the limit
  };
  /// Lists which connections the caller must let read on and which it must close. Each list may
  /// include the connection passed to the call. Connections in `close` are no longer counted.
  struct Decisions {
    std::vector<Connection> read_on;
    std::vector<Closing> close;
  };

  static constexpr unsigned kPatience = 20;  ///< looks

  explicit ConnectionBudget(std::uint64_t limit) : limit_(limit) {}

  /// If a frame of this size fits, counts it and returns true. Otherwise returns false, and the
  /// connection must wait until it appears in `read_on` or `close`. If a frame of the connection is
  /// counted already, this is its new size: meanwhile the old one counts.
  bool begin_frame(Connection connection, std::uint64_t size);
  /// Stops counting the frame of a connection, because the frame has been read to its end.
  Decisions end_frame(Connection connection);

  /// Sets the bytes of unread replies that the connection holds now. Replies can not be refused.
  /// Instead, while all connections together hold more than twice the limit, closes the connection
  /// that holds the most.
  Decisions set_replies(Connection connection, std::uint64_t bytes);

  /// Removes a connection that has ended.
  Decisions leave(Connection connection);

  /// Closes connections that have waited, or have held memory, for too long. Must be called about
  /// every limits::kBudgetLook while scarce() returns true.
  Decisions look();

  /// Returns true if a frame waits or if the limit is exceeded.
  bool scarce() const { return !waiting_.empty() || held_ > limit_; }
  std::uint64_t held() const { return held_; }

 private:
  struct Holder {
    std::uint64_t frame = 0;
    std::uint64_t replies = 0;
    std::uint64_t wanted = 0;  ///< size of the frame that waits; 0: no frame waits
    std::uint64_t turn = 0;    ///< orders frames of equal size; the newest has the lowest turn
    std::uint64_t since = 0;   ///< value of looks_ when the connection began to hold or to wait

    std::uint64_t held() const { return frame + replies; }
  };
  using Holders = std::map<Connection, Holder>;

  Holders::iterator find(Connection connection);
  void hold(Holders::iterator at, std::uint64_t Holder::*what, std::uint64_t bytes);
  void forget_empty(Holders::iterator at);
  void remove(Holders::iterator at);
  void close(Holders::iterator at, Decisions& decisions);
  void give_room(Decisions& decisions);
  bool patient(const Holder& holder) const { return looks_ - holder.since < kPatience; }

  const std::uint64_t limit_;
  std::uint64_t held_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t next_turn_ = UINT64_MAX;
  Holders holders_;
  std::set<std::pair<std::uint64_t, Connection>> by_size_;  ///< connections that hold bytes
  /// By Holder::wanted and Holder::turn.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Connection> waiting_;
};

}  // namespace c10dd::core
