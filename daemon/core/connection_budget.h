// SPDX-License-Identifier: Apache-2.0
// How much memory all connections together may hold for frames that are not whole and answers that
// are not read. A connection that holds no more than limits::kSmallFrameBytes is not counted and
// never stopped: the caller does not ask for it. A larger frame is counted with its full size when
// its header is read, and read on only if that fits; else it waits. While one waits, or answers are
// above the limit, look() closes who has held the most, then who has waited, each after kPatience
// looks. Room goes to the smallest frame that waits, of equal ones to the newest: most are served
// so, and their clients are the likeliest to be there still.
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
  /// What is to be done to others, or to the caller itself. Who is closed holds nothing any more.
  struct Decisions {
    std::vector<Connection> read_on;
    std::vector<Closing> close;
  };

  static constexpr unsigned kPatience = 20;  ///< looks

  explicit ConnectionBudget(std::uint64_t limit) : limit_(limit) {}

  /// A frame of this size is to be read. False: it waits until it stands in `read_on` or `close`.
  bool begin_frame(Connection connection, std::uint64_t size);
  Decisions end_frame(Connection connection);

  /// What the connection has of unread answers now. They cannot be refused; above twice the limit
  /// who holds most is closed at once.
  Decisions set_replies(Connection connection, std::uint64_t bytes);

  Decisions leave(Connection connection);

  /// To be called about every limits::kBudgetLook while scarce().
  Decisions look();

  /// Whether anybody waits, or more is held than there may be.
  bool scarce() const { return !waiting_.empty() || held_ > limit_; }
  std::uint64_t held() const { return held_; }

 private:
  struct Holder {
    std::uint64_t frame = 0;
    std::uint64_t replies = 0;
    std::uint64_t wanted = 0;  ///< a frame that waits
    std::uint64_t turn = 0;    ///< among waiting frames of its size: the newest has the lowest
    std::uint64_t since = 0;   ///< the look at which it began to hold, or to wait

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
  std::set<std::pair<std::uint64_t, Connection>> by_size_;                 ///< who holds anything
  std::map<std::pair<std::uint64_t, std::uint64_t>, Connection> waiting_;  ///< by wanted and turn
};

}  // namespace c10dd::core
