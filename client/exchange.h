// SPDX-License-Identifier: Apache-2.0
// What an exchange is asked for, of a Client or of a Membership. Standard library only.
#pragma once

#include <chrono>
#include <cstdint>

#include <c10dd/language.h>

namespace c10dd {

enum class ExchangeShape { all, to_root, from_root, transpose };

struct ExchangeOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;  ///< 0: rank and world size are the client's
  std::uint64_t generation = 0;
  ExchangeShape shape = ExchangeShape::all;
  std::uint32_t root = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

}  // namespace c10dd
