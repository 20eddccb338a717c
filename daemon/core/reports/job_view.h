// SPDX-License-Identifier: Apache-2.0
// What a status page shows of one job: which keys its requests wait for, who waits, and which ranks
// of PyTorch have set their keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

struct WaitSources;

/// A process with a blocked request.
struct WaitingProcess {
  std::string host;
  std::uint64_t pid = 0;         ///< 0: unknown
  std::uint64_t connection = 0;  ///< tells apart processes whose pid is unknown; otherwise 0

  auto operator<=>(const WaitingProcess&) const = default;
};

/// The blocked requests that wait for one key.
struct KeyWait {
  Bytes key;
  std::optional<std::uint32_t> rank;  ///< the rank that sets this key, see rank_of_key()
  std::optional<std::int64_t>
      at_least;  ///< the requests wait for this number; nothing: for a value
  std::size_t waiters = 0;
  Duration longest{0};                    ///< how long the oldest of them has waited
  std::vector<WaitingProcess> processes;  ///< at most JobView::kProcesses
};

/// A barrier or exchange at which some ranks wait for others.
struct UnfinishedBarrier {
  std::string name;  ///< describe(): barrier "start" (generation 0, sequence 0)
  std::uint32_t world_size = 0;
  Duration waiting{0};               ///< since the first rank has arrived
  std::vector<std::uint32_t> ranks;  ///< those that are missing
  std::string missing;               ///< AbsentRanks::text
};

struct JobView {
  static constexpr std::size_t kBarriers = 100;
  static constexpr std::size_t kWaits = 100;
  static constexpr std::size_t kProcesses = 1024;

  std::vector<KeyWait> waits = {};  ///< those with most waiters, at most kWaits; in order of keys
  std::size_t more_waits = 0;       ///< keys that are not in `waits`
  std::vector<UnfinishedBarrier> barriers = {};  ///< at most kBarriers, in order of names
  std::set<std::uint32_t> ranks = {};            ///< that have set a rank's key
  bool trainers = false;  ///< not all of these keys are of agents, whose ranks are those of nodes
  /// How many ranks there are, if a value tells it (see WorldSize), or else a barrier of TCPStore.
  std::optional<std::uint64_t> world_size = {};
  /// The ranks that tell each size, if they tell several: WorldSize::differing().
  std::map<std::uint64_t, std::set<std::uint32_t>> differing = {};
};

/// The cost depends on the number of keys that are awaited, and not on that of all keys.
JobView view(const WaitSources& sources);

}  // namespace c10dd::core
