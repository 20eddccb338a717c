// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap.h"

#include <utility>

namespace c10dd {

// Both take `part` by value, because an override may keep it.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::vector<std::string> Bootstrap::all(const World& world, std::string part, Duration timeout) {
  return transpose(std::vector<std::string>(world.size, part), timeout);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param)
std::string Bootstrap::from_root(const World& world, std::string part, Duration timeout) {
  std::vector<std::string> parts(world.size);
  if (world.rank == 0) parts.assign(world.size, part);
  return transpose(std::move(parts), timeout).front();
}

}  // namespace c10dd
