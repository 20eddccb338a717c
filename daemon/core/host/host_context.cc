// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/host_context.h"

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(100);

}  // namespace

Failure unavailable(std::string detail) {
  Failure reason = failure(Code::unavailable, std::move(detail));
  reason.retry_after = kRetry;
  return reason;
}

bool HostContext::lease_holds() const {
  if (!in_fleet() || planted(Planted::lease_ignored)) return true;
  return loop.boot_now() < fleet.lease_end;
}

Failure HostContext::cannot_serve(std::string why) const {
  Failure reason = unavailable(std::move(why));
  reason.addresses = fleet.others;
  return reason;
}

}  // namespace c10dd::core
