// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/link_failures.h"

#include <algorithm>
#include <utility>

#include "protocol/format.h"

namespace c10dd::daemon {

void LinkFailures::failed(const std::string& address, const std::string& why, Time now) {
  last_.insert_or_assign(address, Last{now, why});
  std::erase_if(last_, [&](const auto& one) { return now - one.second.at > kKept; });
  if (last_.size() <= kMost) return;
  last_.erase(std::ranges::min_element(last_, {}, [](const auto& one) { return one.second.at; }));
}

std::string LinkFailures::text(Time now) const {
  const std::pair<const std::string, Last>* newest = nullptr;
  std::size_t others = 0;
  for (const auto& one : last_) {
    if (now - one.second.at > kKept) continue;
    if (newest != nullptr) ++others;
    if (newest == nullptr || one.second.at >= newest->second.at) newest = &one;
  }
  if (newest == nullptr) return {};
  const std::string more = others == 0 ? "" : format(" (and to {} more)", others);
  return format("no TLS connection to the daemon at {}{}: {}", newest->first, more,
                newest->second.why);
}

}  // namespace c10dd::daemon
