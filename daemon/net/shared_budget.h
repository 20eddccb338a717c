// SPDX-License-Identifier: Apache-2.0
// core::ConnectionBudget for the connections of all loops: a lock, the looks, and the way of its
// decisions to them. A connection that never holds much touches none of it.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "daemon/core/connection_budget.h"
#include "daemon/shard/loop.h"
#include "protocol/limits.h"

namespace c10dd::daemon {

/// A connection as the budget sees it; called on its own loop.
class BudgetSink {
 public:
  virtual ~BudgetSink() = default;
  virtual boost::asio::any_io_executor budget_executor() = 0;
  /// The frame that had to wait may be read.
  virtual void read_on() = 0;
  /// It holds, or has waited for, too much for too long.
  virtual void close_for_room(const Failure& reason) = 0;
};

class SharedBudget {
 public:
  /// max_bytes: of all jobs together. look: the time from one look to the next.
  SharedBudget(Loop& loop, std::uint64_t max_bytes, Duration look = limits::kBudgetLook);

  /// Whether reads should stay small.
  bool scarce() const { return scarce_.load(std::memory_order_relaxed); }
  std::uint64_t held() const;

 private:
  friend class BudgetShare;
  using Connection = core::ConnectionBudget::Connection;
  using Decisions = core::ConnectionBudget::Decisions;

  template <class F>
  void decide(F&& step);
  void carry_out(const Decisions& decisions);
  void look_later();

  mutable std::mutex mutex_;
  core::ConnectionBudget budget_;
  std::unordered_map<Connection, std::weak_ptr<BudgetSink>> sinks_;  ///< of those that are counted
  Connection connections_ = 0;
  std::atomic<bool> scarce_ = false;
  Loop& loop_;
  const Duration look_;
  boost::asio::steady_timer timer_;  ///< the loop's
  bool looking_ = false;             ///< a look is on its way
};

/// What one connection has of the budget. On the connection's loop.
class BudgetShare {
 public:
  explicit BudgetShare(SharedBudget& of) : budget_(of) {}
  ~BudgetShare() { leave(); }
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  /// Whom decisions go to; before all else.
  void belong_to(std::weak_ptr<BudgetSink> sink) { sink_ = std::move(sink); }

  const SharedBudget& budget() const { return budget_; }

  /// False: the sink will be called. A frame of limits::kSmallFrameBytes always fits.
  bool begin_frame(std::size_t size);
  bool has_frame() const { return frame_; }
  void end_frame() {
    if (frame_) give_back_frame();
  }
  /// Unread answers, as often as they change: what has not changed much is not told.
  void set_replies(std::size_t bytes) {
    const std::size_t more = bytes > replies_ ? bytes - replies_ : replies_ - bytes;
    const bool few = bytes <= limits::kSmallFrameBytes && replies_ > 0;
    if (more > limits::kSmallFrameBytes || few) report_replies(bytes);
  }
  void leave();

 private:
  void enter();
  void give_back_frame();
  void report_replies(std::size_t bytes);

  SharedBudget& budget_;
  std::weak_ptr<BudgetSink> sink_;
  SharedBudget::Connection number_ = 0;  ///< 0: it was never counted
  bool frame_ = false;                   ///< counted, or waiting
  std::size_t replies_ = 0;              ///< as counted
};

}  // namespace c10dd::daemon
