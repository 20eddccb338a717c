// SPDX-License-Identifier: Apache-2.0
// Makes core::ConnectionBudget usable for the connections of all loops: adds a lock and a timer,
// and posts the decisions to the connections. A connection that never holds much memory does not
// use the budget.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "daemon/core/host/connection_budget.h"
#include "daemon/shard/loop.h"
#include "protocol/limits.h"

namespace c10dd::daemon {

/// The interface through which the budget passes its decisions to a connection.
/// read_on() and close_for_room() are called on the connection's loop.
class BudgetSink {
 public:
  virtual ~BudgetSink() = default;
  virtual boost::asio::any_io_executor budget_executor() = 0;
  /// Continues to read the frame that had to wait for memory.
  virtual void read_on() = 0;
  /// Closes the connection, because memory is short. `reason` names the held bytes and the limit.
  virtual void close_for_room(const Failure& reason) = 0;
};

/// The budget of all connections of a daemon.
/// Thread-safe.
class SharedBudget {
 public:
  /// loop: runs the timer. max_bytes: the memory limit of all jobs. The constructor derives the
  /// limit of the connections from `max_bytes`. look: the time between two calls of
  /// ConnectionBudget::look() while memory is scarce.
  SharedBudget(Loop& loop, std::uint64_t max_bytes, Duration look = limits::kBudgetLook);

  /// Returns true if a frame waits for memory or the limit is exceeded. Callers then read less.
  bool scarce() const { return scarce_.load(std::memory_order_relaxed); }
  /// Returns how many bytes the connections hold.
  std::uint64_t held() const;

 private:
  friend class BudgetShare;
  using Connection = core::ConnectionBudget::Connection;
  using Decisions = core::ConnectionBudget::Decisions;

  template <class F>
  void decide(F&& step);
  void carry_out(const Decisions& decisions);
  void start_timer();

  mutable std::mutex mutex_;
  core::ConnectionBudget budget_;
  std::unordered_map<Connection, std::weak_ptr<BudgetSink>> sinks_;  ///< of counted connections
  Connection connections_ = 0;                                       ///< the newest number
  std::atomic<bool> scarce_ = false;
  Loop& loop_;
  const Duration look_;
  boost::asio::steady_timer timer_;  ///< used on loop_ only
  bool looking_ = false;             ///< the timer runs, or a call to start it is posted
};

/// Asks the budget for memory for one connection, and gives the memory back.
/// All functions are called on the connection's loop.
class BudgetShare {
 public:
  explicit BudgetShare(SharedBudget& of) : budget_(of) {}
  ~BudgetShare() { leave(); }
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  /// Sets the sink that gets the budget's decisions. Must be called before any other function.
  void belong_to(std::weak_ptr<BudgetSink> sink) { sink_ = std::move(sink); }

  const SharedBudget& budget() const { return budget_; }

  /// Asks for memory for a frame of `size` bytes, or for a frame to grow to this size. Returns
  /// false if the connection has to wait; the sink is called when the connection may go on or must
  /// close. A frame of up to limits::kUncountedBytes always fits.
  bool begin_frame(std::size_t size);
  bool has_frame() const { return frame_ > 0; }
  /// Returns the size of the frame that is counted or waits; 0 if there is none.
  std::size_t frame() const { return frame_; }
  void end_frame() {
    if (frame_ > 0) give_back_frame();
  }
  /// Sets the size of the replies that the peer has not read. Reports the size to the budget only
  /// after a large change, or when the size has become small. So frequent calls are cheap.
  void set_replies(std::size_t bytes) {
    const std::size_t more = bytes > replies_ ? bytes - replies_ : replies_ - bytes;
    const bool few = bytes <= limits::kUncountedBytes && replies_ > 0;
    if (more > limits::kUncountedBytes || few) report_replies(bytes);
  }
  /// Returns to the budget all memory that the connection holds.
  void leave();

 private:
  void enter();
  void give_back_frame();
  void report_replies(std::size_t bytes);

  SharedBudget& budget_;
  std::weak_ptr<BudgetSink> sink_;
  SharedBudget::Connection number_ = 0;  ///< 0 while the connection is not counted
  std::size_t frame_ = 0;                ///< size of a large frame that is counted, or waits
  std::size_t replies_ = 0;              ///< size of the unread replies, as the budget knows it
};

}  // namespace c10dd::daemon
