// SPDX-License-Identifier: Apache-2.0
// The events of a simulation: a hash over all of them, and the newest ones as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/types.h"

namespace c10dd::sim {

class Trace {
 public:
  static constexpr std::size_t kKept = 256;

  /// Adds an event. `what` is a literal.
  void note(TimePoint at, const char* what, std::uint64_t a = 0, std::uint64_t b = 0,
            std::string_view detail = {});

  /// Prints events as they happen.
  void print_all() { printing_ = true; }

  /// Returns the hash of all events: equal runs have equal hashes.
  std::uint64_t hash() const { return hash_; }
  std::uint64_t events() const { return events_; }
  /// Returns the newest events as lines of text, oldest first.
  std::vector<std::string> last() const;

 private:
  struct Event {
    TimePoint at;
    const char* what = "";
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::string detail;
  };

  static std::string text_of(const Event& event);
  void mix(std::uint64_t value);

  std::uint64_t hash_ = 0xCBF29CE484222325;
  std::uint64_t events_ = 0;
  bool printing_ = false;
  std::vector<Event> ring_ = std::vector<Event>(kKept);
};

}  // namespace c10dd::sim
