// SPDX-License-Identifier: Apache-2.0
// An event loop of one thread.
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

  /// When no thread runs it any more: destroys what waits in it. Loops that hold each other's
  /// connections are all emptied before the first is destroyed.
  void empty() { shutdown(); }
};

}  // namespace c10dd::daemon
