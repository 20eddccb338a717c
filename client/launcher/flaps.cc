// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/flaps.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "client/errors.h"
#include "protocol/format.h"

namespace c10dd::run {
namespace {

constexpr std::chrono::seconds kFirstDelay{10};
constexpr std::chrono::minutes kLongestDelay{5};
constexpr std::chrono::minutes kKept{15};

std::string key_of(const std::string& host) { return "c10drun/flaps/" + host; }

/// What the store has for a host.
struct Stored {
  std::string text;  ///< empty: nothing
  std::uint32_t flaps = 0;
  std::uint64_t generation = 0;  ///< in which the last one was counted
};

Stored read(JobStore& store, const std::string& host) {
  Stored stored;
  try {
    stored.text = store.get(key_of(host), std::chrono::seconds(0));
  } catch (const NotFound&) {
    return stored;
  }
  std::istringstream(stored.text) >> stored.flaps >> stored.generation;
  return stored;
}

}  // namespace

Duration flap_delay(std::uint32_t flaps) {
  if (flaps == 0) return Duration::zero();
  const std::uint32_t doublings = std::min(flaps - 1, 10u);
  return std::min<Duration>(kFirstDelay * (1u << doublings), kLongestDelay);
}

std::uint32_t flaps_of(JobStore& store, const std::string& host) { return read(store, host).flaps; }

std::uint32_t count_flap(JobStore& store, const std::string& host, std::uint64_t generation) {
  for (;;) {
    const Stored now = read(store, host);
    if (!now.text.empty() && now.generation >= generation) return now.flaps;
    const std::string key = key_of(host);
    Transaction change;
    now.text.empty() ? change.if_absent(key) : change.if_value(key, now.text);
    change.set(key, format("{} {}", now.flaps + 1, generation), {.ttl = kKept});
    if (store.transact(change).applied) return now.flaps + 1;
  }
}

}  // namespace c10dd::run
