// SPDX-License-Identifier: Apache-2.0
// A daemon's link to the fleet of a shared engine. Opens it anew after a failure. A heartbeat says
// that this daemon serves its jobs, so it is sent only to the server on which the engine is open:
// not to one that was started again, or promoted. Calls block. One caller at a time.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "store/fleet.h"

namespace c10dd::core {

class FleetLink {
 public:
  using Open = std::function<Result<std::unique_ptr<store::Fleet>>()>;

  struct Heard {
    Result<store::FleetReading> reading;
    /// A link that was just opened leads to another server than the engine's, which is therefore
    /// not in charge any more.
    bool engine_left_behind = false;
  };

  /// `open` opens a link to the server that is in charge now.
  explicit FleetLink(Open open) : open_(std::move(open)) {}

  /// Opens the link, unless it is open.
  Result<void> open();
  /// Closes the link. The next call opens it anew.
  void close() { fleet_.reset(); }
  /// Returns the rows of the fleet; null while the link is closed.
  store::Fleet* fleet() const { return fleet_.get(); }

  /// Sends a heartbeat of `self`, or only reads the fleet. `engine_server` is Engine::server() of
  /// the engine of this daemon. Closes the link if that fails.
  Heard ask(bool beats, const store::DaemonFacts& self, std::string_view engine_server);

 private:
  const Open open_;
  std::unique_ptr<store::Fleet> fleet_;
};

}  // namespace c10dd::core
