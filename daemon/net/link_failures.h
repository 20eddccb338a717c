// SPDX-License-Identifier: Apache-2.0
// LinkFailures: to which other daemons TLS connections have failed of late, and why, for operators.
// Keeps at most kMost of them, and each for kKept after its last failure, or until a connection to
// that daemon succeeds.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace c10dd::daemon {

/// Not thread-safe.
class LinkFailures {
 public:
  static constexpr std::chrono::seconds kKept{60};
  static constexpr std::size_t kMost = 64;
  using Time = std::chrono::steady_clock::time_point;

  void failed(const std::string& address, const std::string& why, Time now);
  void succeeded(const std::string& address) { last_.erase(address); }

  /// Returns a sentence about the newest failure, and how many other daemons there are; empty if
  /// there is none.
  std::string text(Time now) const;

 private:
  struct Last {
    Time at;
    std::string why;
  };
  std::map<std::string, Last> last_;  // by address
};

}  // namespace c10dd::daemon
