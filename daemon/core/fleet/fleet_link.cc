// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/fleet_link.h"

#include <utility>

namespace c10dd::core {

Result<void> FleetLink::open() {
  if (fleet_) return {};
  Result<std::unique_ptr<store::Fleet>> opened = open_();
  if (!opened) return opened.error();
  fleet_ = std::move(*opened);
  return {};
}

FleetLink::Heard FleetLink::ask(bool beats, const store::DaemonFacts& self,
                                std::string_view engine_server) {
  const bool is_new = !fleet_;
  if (Result<void> opened = open(); !opened) return {opened.error()};
  if (beats && fleet_->server() != engine_server) {
    close();
    return {failure(Code::unavailable,
                    "Redis restarted, or another server is now the master; reopening the engine"),
            is_new};
  }
  Heard heard{beats ? fleet_->beat(self) : fleet_->read()};
  if (!heard.reading) close();
  return heard;
}

}  // namespace c10dd::core
