// SPDX-License-Identifier: Apache-2.0
// What one thread of a client process works with, and what it can be told to do for one round.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "client/client.h"
#include "tests/sim/random.h"
#include "tests/torture/history.h"

namespace c10dd::torture {

/// Of everything that waits for somebody else.
inline constexpr std::chrono::seconds kPatience{40};

/// The last item of a queue for each that pops it patiently, and the last key that a watch shows.
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

  /// False when the round is over or a call has failed; else after a little while.
  bool goes_on() {
    if (stop || failed) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(3000)));
    return !stop;
  }

  std::string key(const std::string& name) const { return place.prefix + name; }

  /// A text that nobody else makes in this round.
  std::string unique() {
    return std::to_string(worker) + "." + std::to_string(thread) + "." + std::to_string(++named);
  }

  template <class Ask>
  bool make(Call& call, Ask&& ask) {
    const bool good = recorder.make(call, std::forward<Ask>(ask));
    if (!good) failed = true;
    return good;
  }
};

inline Call call_of(What what, std::string key, std::string input = {}) {
  Call call;
  call.what = what;
  call.key = std::move(key);
  call.input = std::move(input);
  return call;
}

/// Where two threads meet; how often each has arrived.
struct Meeting {
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
void meet(Desk& desk, Meeting& meeting, unsigned rank);

/// These two end with what the conductor puts there.
void pop_patiently(Desk& desk);
void watch(Desk& desk);

}  // namespace c10dd::torture
