// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/awaited_keys.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <variant>

#include "daemon/core/waiting/step.h"

namespace c10dd::core {
namespace {

/// Returns what a token stands for; nothing if it is not that of a key, a counter or a queue.
std::optional<AwaitedKey> awaited_by(const Request& request, std::string_view token) {
  AwaitedKey one;
  if (const auto* const counter = std::get_if<WaitCounter>(&request)) {
    one.key = key_of_counter(token);
    one.at_least = counter->at_least;
  } else if (std::holds_alternative<QueuePop>(request)) {
    one.key = key_of_token(token);
    one.item = true;
  } else if (std::holds_alternative<Get>(request) || std::holds_alternative<Wait>(request) ||
             std::holds_alternative<MultiGet>(request)) {
    one.key = key_of_token(token);
  } else {
    return std::nullopt;
  }
  return one;
}

/// Lets `one` have only the waiters that may do more than read.
void leave_out_observers(const Pending& pending, AwaitedKey& one) {
  auto trainers = std::make_shared<std::set<Pending::Id>>();
  for (const Pending::Id id : *one.waiters) {
    if (!pending.at(id).observes) trainers->insert(trainers->end(), id);
  }
  one.waiters = trainers.get();
  one.own = std::move(trainers);
}

}  // namespace

std::vector<AwaitedKey> awaited_keys(const Pending& pending) {
  std::vector<AwaitedKey> found;
  std::unordered_set<std::string_view> seen;  // looked up only
  std::size_t looked = 0;
  for (const auto& [id, waiter] : pending.all()) {
    if (waiter.observes) continue;
    for (const std::string_view token : waiter.tokens) {
      if (++looked > kAwaitedLooked) break;
      const std::set<Pending::Id>* const waiters = pending.waiters_of(token);
      if (waiters == nullptr || !seen.insert(token).second) continue;
      std::optional<AwaitedKey> one = awaited_by(waiter.request, token);
      if (!one) continue;
      one->waiters = waiters;
      if (pending.observed() > 0) leave_out_observers(pending, *one);
      found.push_back(std::move(*one));
    }
    if (looked > kAwaitedLooked) break;
  }
  std::ranges::sort(found, [](const AwaitedKey& a, const AwaitedKey& b) {
    return std::tie(a.key, a.at_least, a.item) < std::tie(b.key, b.at_least, b.item);
  });
  return found;
}

}  // namespace c10dd::core
