// SPDX-License-Identifier: Apache-2.0
// Measures the free space on the disk that holds the state: twice a second, and more often while
// space is short. Reports the result to core::GrowthGate, which refuses growth while space is
// short. Keeps a ballast file on the disk. If the disk becomes full nevertheless, removes the
// ballast file, so that the engine can erase rows. All functions are called on the first loop.
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
  /// The functions that the watch needs from the engine.
  struct Engine {
    /// Asks the engine to free the space of removed rows. Calls `then` with the result of the
    /// previous attempt: false if it failed, or if the disk had too little space for it.
    std::function<void(std::function<void(bool)> then)> relieve;
    /// Returns how many free bytes the engine needs to free the space of removed rows.
    std::function<std::uint64_t()> needs;
  };

  DiskWatch(boost::asio::io_context& loop, const Options& options, core::GrowthGate& gate,
            Metrics& metrics, Engine engine);

  /// Starts the measurements. Does nothing if the engine has no directory.
  void start();

  /// Removes the ballast file if the free space is below the minimum. Called when the engine is
  /// lost or could not be opened.
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
  std::string path_;  ///< the directory of the state; empty if the engine has no directory
  std::string ballast_;
  std::uint64_t ballast_bytes_;
  std::optional<std::uint64_t> wanted_reserve_;
  std::uint64_t reserve_ = 0;
  std::uint64_t minimum_;
  core::DiskRoom room_ = core::DiskRoom::enough;  ///< at the last measurement
  unsigned short_for_ = 0;                        ///< measurements in a row that found little room
  bool stuck_ = false;  ///< the previous attempt of the engine to free space did not succeed
};

}  // namespace c10dd::daemon
