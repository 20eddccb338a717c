// SPDX-License-Identifier: Apache-2.0
// What a thread of a client process needs for its work, and the kinds of work for one round.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/client.h"
#include "tests/sim/random.h"
#include "tests/torture/recorder.h"

namespace c10dd::torture {

/// Prefix of the last items of a queue (one for each thread in pop_patiently()) and of the last key
/// that a watch reports.
inline constexpr const char* kEnd = "end";

inline constexpr unsigned kGroup = 4;  // keys of multi_set and multi_get

/// What is known before a round begins.
struct Place {
  std::string prefix;            ///< of every key and queue of the round
  std::uint64_t watch_from = 0;  ///< a watch from this revision sees all of the round
};

struct Desk {
  Client& client;
  JobStore& store;
  Recorder& recorder;
  const Place& place;
  unsigned worker;
  unsigned thread;
  sim::Random random;
  const std::atomic<bool>& stop;
  bool failed = false;
  std::uint64_t named = 0;

  /// Returns false if the round is over or a call has failed. Otherwise sleeps a moment first.
  bool goes_on() {
    if (stop || failed) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
    return !stop;
  }

  std::string key(const std::string& name) const { return place.prefix + name; }

  /// Returns a text that is unique in this round.
  std::string unique() {
    return std::to_string(worker) + "." + std::to_string(thread) + "." + std::to_string(++named);
  }

  /// Makes a call. Returns the reply if it is good. Any failure ends the work of this thread,
  /// except that nothing was found.
  template <class Asked, class Ask>
  std::optional<typename Asked::Body> make(const Asked& request, Ask&& ask) {
    const Op op = recorder.make(request, std::forward<Ask>(ask));
    if (op.good()) return op.told<typename Asked::Body>();
    if (!found_nothing(op)) failed = true;
    return std::nullopt;
  }
};

/// A barrier of two threads: how often each of them has arrived.
struct BarrierState {
  std::atomic<std::uint64_t> arrived[2] = {0, 0};
};

void keep_registers(Desk& desk);
void count(Desk& desk);
void write_logs(Desk& desk);
void extend_chain(Desk& desk);
void set_groups(Desk& desk);
void transfer(Desk& desk);
void use_any_key(Desk& desk);
void push(Desk& desk);
void pop_impatiently(Desk& desk);
void meet(Desk& desk, BarrierState& barrier, unsigned rank);

/// These two kinds of work end when they get the last item or key, which the conductor adds.
void pop_patiently(Desk& desk);
void watch(Desk& desk);

}  // namespace c10dd::torture
