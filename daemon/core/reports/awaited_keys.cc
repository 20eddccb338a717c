// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/awaited_keys.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "daemon/core/waiting/step.h"

namespace c10dd::core {

std::vector<AwaitedKey> awaited_keys(const Pending& pending) {
  std::vector<AwaitedKey> all;
  pending.for_each_token([&](const Bytes& token, const std::set<Pending::Id>& waiters) {
    // All waiters of a token wait for the same thing, except that several kinds of requests wait
    // for a key.
    const Request& request = pending.at(*waiters.begin()).request;
    if (const auto* const counter = std::get_if<WaitCounter>(&request)) {
      all.push_back({counter->key.str(), counter->at_least, false, &waiters});
    } else if (const auto* const pop = std::get_if<QueuePop>(&request)) {
      all.push_back({pop->key, std::nullopt, true, &waiters});
    } else if (token.front() == kKeyToken &&
               (std::holds_alternative<Get>(request) || std::holds_alternative<Wait>(request) ||
                std::holds_alternative<MultiGet>(request))) {
      all.push_back({token.substr(1), std::nullopt, false, &waiters});
    }
  });
  std::ranges::sort(all, [](const AwaitedKey& a, const AwaitedKey& b) {
    return std::tie(a.key, a.at_least, a.item) < std::tie(b.key, b.at_least, b.item);
  });
  return all;
}

}  // namespace c10dd::core
