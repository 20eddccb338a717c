// SPDX-License-Identifier: Apache-2.0
// Implements core::HostLoop with Asio: an event loop of one thread.
#pragma once

#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <utility>

#include "daemon/core/host/host_loop.h"

namespace c10dd::daemon {

class Loop : public boost::asio::io_context, public core::HostLoop {
 public:
  Loop() : io_context(1) {}

  void post(std::function<void()> f) override { boost::asio::post(*this, std::move(f)); }
  void dispatch(std::function<void()> f) override { boost::asio::dispatch(*this, std::move(f)); }
  core::SteadyTime now() const override { return std::chrono::steady_clock::now(); }

  /// Destroys all handlers that wait in the loop. A handler may hold a connection of another loop.
  /// For this reason all loops must be emptied before any loop is destroyed. Called when no thread
  /// runs the loop any more.
  void empty() { shutdown(); }
};

}  // namespace c10dd::daemon
