// SPDX-License-Identifier: Apache-2.0
// Finds out how many ranks a job of PyTorch has. No request says it, but some values do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/core/keys/key_space.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Returns the number of ranks that the value of a rank's key of Gloo tells by its length: since
/// PyTorch 2.1 it has 154 bytes and 8 for each rank, before that 136 bytes for each other rank.
std::optional<std::uint64_t> world_size_of_gloo(std::string_view key, std::size_t value_bytes);

class WorldSize {
 public:
  /// Takes note of what a key and its value tell. Ignores all others.
  void look_at(std::string_view key, const KeySpace::StoredValue& stored);

  /// Returns the number of ranks that the values tell:
  ///   torchrun  of the newest round, the number that its agents have worked out, or the sum of the
  ///             sizes that they have shared, once one of them has read the sizes of all
  ///   gloo      else the size of the largest group
  std::optional<std::uint64_t> found() const;

  /// The ranks that tell each size of one group of Gloo.
  using Told = std::map<std::uint64_t, std::set<std::uint32_t>>;
  /// Returns those of the first group whose ranks tell several sizes; empty if there is none.
  Told differing() const;

 private:
  /// The keys of torchrun's agents in one round of their rendezvous.
  struct Round {
    std::map<std::uint32_t, std::uint64_t> sizes = {};  // by node
    bool finished = false;                              // true once some node has read the size of every node
    std::optional<std::uint64_t> total = {};
    Revision newest = 0;

    std::optional<std::uint64_t> ranks() const;
  };

  std::map<std::string, Round, std::less<>> rounds_;
  std::map<std::string, Told, std::less<>> groups_;  // of Gloo
};

}  // namespace c10dd::core
