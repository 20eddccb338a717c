// SPDX-License-Identifier: Apache-2.0
// Looks how much room the disk of the state has, twice a second and more often while it is short;
// tells the gate, and keeps a ballast file there that is given up when the disk is full all the
// same. On the first loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "daemon/config/options.h"
#include "daemon/core/host/growth_gate.h"
#include "daemon/metrics/metrics.h"

namespace c10dd::daemon {

class DiskWatch {
 public:
  /// What it needs of the engine.
  struct Engine {
    /// Asks it to let go of what was removed; `then` hears whether it had room for that.
    std::function<void(std::function<void(bool)> then)> relieve;
    /// Bytes that it needs for that.
    std::function<std::uint64_t()> needs;
  };

  DiskWatch(boost::asio::io_context& loop, const Options& options, core::GrowthGate& gate,
            Metrics& metrics, Engine engine);

  /// Begins; an engine without a directory has no disk to watch.
  void start();

  /// The engine could not be opened, or was lost: if that was for want of room, the ballast goes.
  void engine_failed();

 private:
  std::optional<std::uint64_t> free_bytes() const;
  void relieve();
  void give_up_ballast(std::uint64_t free);
  void look();
  void keep_ballast(std::uint64_t free);
  void check_again_later();

  boost::asio::steady_timer timer_;
  core::GrowthGate& gate_;
  Metrics& metrics_;
  Engine engine_;
  std::string path_;  ///< the directory of the state; empty when there is none
  std::string ballast_;
  std::uint64_t ballast_bytes_;
  std::optional<std::uint64_t> wanted_reserve_;
  std::uint64_t reserve_ = 0;
  std::uint64_t minimum_;
  core::DiskRoom room_ = core::DiskRoom::enough;  ///< at the last look
  unsigned short_for_ = 0;                        ///< looks in a row that found room short
  bool stuck_ = false;  ///< the engine had no room to let go of what was removed
};

}  // namespace c10dd::daemon
