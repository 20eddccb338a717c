// SPDX-License-Identifier: Apache-2.0
// The daemon as a whole: one loop, its shard, its listener, signals, and the order of start and
// end. Everything here runs on the loop's thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>

#include "daemon/listener.h"
#include "daemon/metrics.h"
#include "daemon/options.h"
#include "daemon/shard.h"

namespace c10dd::daemon {

class Server {
 public:
  explicit Server(Options options);
  ~Server();

  /// Serves until SIGTERM or SIGINT, then drains. The exit code, as listed in deploy/README.md.
  int run();

  Shard& shard() { return *shard_; }
  Metrics& metrics() { return *metrics_; }
  const Options& options() const { return options_; }

  bool draining() const { return draining_; }

  /// One line for /readyz: empty when requests are served, else the reason why not.
  std::string not_ready() const;

  /// The text of /metrics, rendered on a thread of its own from a fresh snapshot. At most one
  /// rendering at a time; a second request waits for the first.
  asio::awaitable<std::string> metrics_text();

 private:
  Result<void> start();
  void turn();
  void drain();

  Options options_;
  asio::io_context loop_{1};
  asio::signal_set signals_{loop_};
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<asio::thread_pool> renderer_;
  bool draining_ = false;
  bool stopped_ = false;
};

}  // namespace c10dd::daemon
