// SPDX-License-Identifier: Apache-2.0
// Limits the memory that all connections together hold for unfinished frames and unread replies.
// A connection that holds at most limits::kSmallFrameBytes is neither counted nor stopped: the
// caller does not report it. A larger frame is counted with its full size as soon as its header has
// been read; if it does not fit, its connection waits before it reads on. While a frame waits, or
// the limit is exceeded, look() closes connections: first those that hold the most, then those that
// wait; each only after it has held or waited for kPatience looks. Freed memory goes to the
// smallest waiting frame, among equal sizes to the newest: this serves the most connections, and
// the newest client is the most likely to be still there.
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
    Failure reason;  ///< quota_exceeded, with what is held and the limit
  };
  /// What the caller must do to connections, its own included. A connection in `close` is not
  /// counted any more.
  struct Decisions {
    std::vector<Connection> read_on;
    std::vector<Closing> close;
  };

  static constexpr unsigned kPatience = 20;  ///< looks

  explicit ConnectionBudget(std::uint64_t limit) : limit_(limit) {}

  /// Counts a frame of this size and returns true if it fits. Else returns false: the connection
  /// must wait until it appears in `read_on` or `close`.
  bool begin_frame(Connection connection, std::uint64_t size);
  /// Stops counting the frame of a connection, which has been read.
  Decisions end_frame(Connection connection);

  /// Sets the bytes of unread replies that the connection holds now. Replies can not be refused:
  /// while all connections hold more than twice the limit, the one that holds most is closed at
  /// once.
  Decisions set_replies(Connection connection, std::uint64_t bytes);

  /// Removes a connection that has ended.
  Decisions leave(Connection connection);

  /// Closes connections that have held or waited for too long. Must be called about every
  /// limits::kBudgetLook while scarce().
  Decisions look();

  /// Returns whether a frame waits, or the limit is exceeded.
  bool scarce() const { return !waiting_.empty() || held_ > limit_; }
  std::uint64_t held() const { return held_; }

 private:
  struct Holder {
    std::uint64_t frame = 0;
    std::uint64_t replies = 0;
    std::uint64_t wanted = 0;  ///< size of the frame that waits; 0: no frame waits
    std::uint64_t turn = 0;    ///< order among frames of equal size; the newest has the lowest
    std::uint64_t since = 0;   ///< the look at which the connection began to hold, or to wait

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
