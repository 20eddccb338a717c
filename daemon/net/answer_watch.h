// SPDX-License-Identifier: Apache-2.0
// Lets the connections of a loop look in turn whether their peers answer. One timer serves all, in
// slices, so that many connections neither hold up the loop nor wake it often. Not thread-safe:
// call it on the thread of its loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <optional>
#include <vector>

#include "protocol/types.h"

namespace c10dd::daemon {

class AnswerWatch final : public boost::asio::execution_context::service {
 public:
  using key_type = AnswerWatch;  // NOLINT(readability-identifier-naming): Asio asks for it
  static boost::asio::execution_context::id id;

  /// A connection with a peer.
  class Watched {
   public:
    virtual ~Watched() = default;
    /// Called once in each round. May add and remove any connection, also its own. Should ask the
    /// kernel only if the answer can have changed, see answers_for(): that takes a microsecond.
    virtual void look_at_peer() = 0;

   private:
    friend class AnswerWatch;
    std::optional<std::size_t> place_;  ///< in watched_
  };

  explicit AnswerWatch(boost::asio::execution_context& loop);

  /// Returns the object of a loop, which lives as long as the loop.
  static AnswerWatch& of(boost::asio::io_context& loop);

  /// Looks at a connection from now on. A connection that is watched already stays so.
  void add(Watched& connection);
  /// Has no effect if the connection is not watched.
  void remove(Watched& connection);
  std::size_t watched() const { return watched_.size(); }

  /// For tests: takes this time for a round, from the next slice on.
  void look_every(Duration round) { round_ = round; }

 private:
  void shutdown() override;
  std::size_t slices() const;
  void look_later();
  void look();

  static constexpr Duration kRound = std::chrono::seconds(1);
  static constexpr std::size_t kSlice = 256;  ///< connections

  Duration round_ = kRound;
  std::vector<Watched*> watched_;
  std::size_t next_ = 0;  ///< place of the connection that is looked at next
  std::optional<boost::asio::steady_timer> timer_;  ///< empty: the loop has ended
};

}  // namespace c10dd::daemon
