// SPDX-License-Identifier: Apache-2.0
// Two network namespaces of this process's own, joined by a link that can be set down. Nothing
// outside them is touched; they go with the last who uses them.
#pragma once

#include <stdexcept>
#include <string>

#include "tests/bench/line.h"

namespace c10dd::bench {

/// This machine, or this user, cannot do what a scenario needs.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class TwoNetworks {
 public:
  static constexpr const char* kNearAddress = "10.231.0.1";  // as seen from the far one

  /// From now on this process, and who is started by it, is in the near one. Throws Skipped.
  TwoNetworks();
  ~TwoNetworks();

  /// This process goes to the far one.
  void enter_far() const;

  /// Of the far end of the link.
  void set_link(bool up);

 private:
  Descriptor home_;
  Descriptor near_;
  Descriptor far_;
};

}  // namespace c10dd::bench
