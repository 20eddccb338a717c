// SPDX-License-Identifier: Apache-2.0
// Implements core::HostLoop with Asio: an event loop of one thread. Another thread may only post to
// the loop. It must not use the sockets and timers of the loop, because Asio does not lock them.
#pragma once

#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "daemon/core/host/host_loop.h"
#include "protocol/types.h"

namespace c10dd::daemon {

/// Calls `then` on the loop after this time. Must be called on the loop.
void after(boost::asio::io_context& loop, Duration time, std::function<void()> then);

class Loop : public boost::asio::io_context, public core::HostLoop {
 public:
  /// Opens the descriptors that the loop needs. Throws std::system_error if there are too many.
  Loop();

  void post(std::function<void()> f) override { boost::asio::post(*this, std::move(f)); }
  void dispatch(std::function<void()> f) override { boost::asio::dispatch(*this, std::move(f)); }
  /// After start_clock(), returns the time of the first call since then, so that the
  /// handlers of a turn read the clock once.
  core::SteadyTime now() const override {
    if (!turns_) return std::chrono::steady_clock::now();
    if (!time_) time_ = std::chrono::steady_clock::now();
    return *time_;
  }
  core::SteadyTime boot_now() const override;
  void start_clock() {
    turns_ = true;
    time_.reset();
  }

  /// Runs the handlers of a turn: waits for one, then also runs those that are ready by then. A
  /// turn may leave ready handlers to the next turn. After the call, now() is not earlier than the
  /// end of the handlers.
  void run_ready();

  /// Destroys all handlers that wait in the loop. A handler may hold a connection of another loop.
  /// For this reason all loops must be emptied before any loop is destroyed. Called when no thread
  /// runs the loop any more.
  void empty() { shutdown(); }

 private:
  bool turns_ = false;  // start_clock() was called
  mutable std::optional<core::SteadyTime> time_;
  core::SteadyTime last_turn_;       // when the first handler of the last turn had run
  unsigned turns_without_look_ = 0;  // how many of the next turns may run one handler only
};

}  // namespace c10dd::daemon
