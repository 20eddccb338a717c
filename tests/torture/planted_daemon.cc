// SPDX-License-Identifier: Apache-2.0
// Makes c10dd-planted of the program c10dd: the environment variable C10DD_PLANT names a fault of
// the core that the kill loop must find. Only for faults in source files of the core: the shell is
// compiled without faults.
#include <array>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

struct Named {
  Planted fault;
  std::string_view name;
};
constexpr std::array kFaults = {
    Named{Planted::confirmation_skipped, "confirmation_skipped"},
    Named{Planted::lease_ignored, "lease_ignored"},
    Named{Planted::ack_before_sync, "ack_before_sync"},
};

Planted chosen() {
  const char* name = std::getenv("C10DD_PLANT");
  for (const Named& one : kFaults) {
    if (name != nullptr && one.name == name) return one.fault;
  }
  std::cerr << "c10dd-planted: C10DD_PLANT names no fault; there are";
  for (const Named& one : kFaults) std::cerr << " " << one.name;
  std::cerr << std::endl;
  std::exit(64);
}

}  // namespace

bool planted(Planted one) {
  static const Planted fault = chosen();
  return one == fault;
}

}  // namespace c10dd::core
