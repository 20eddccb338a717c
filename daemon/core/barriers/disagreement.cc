// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/barriers/disagreement.h"

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

std::string shape_text(Shape shape) {
  switch (shape) {
    case Shape::all:
      return "all";
    case Shape::to_root:
      return "to_root";
    case Shape::from_root:
      return "from_root";
    case Shape::transpose:
      return "transpose";
  }
  return format("{}", static_cast<unsigned>(shape));
}

/// Returns what one side of a disagreement asks for, for example "world size 4".
template <class Side>
std::string asked(const Side& side, Difference what) {
  switch (what) {
    case Difference::world_size:
      return format("world size {}", side.world_size);
    case Difference::shape:
      return "shape " + shape_text(side.shape);
    case Difference::root:
      return format("root {}", side.root);
    case Difference::participants:
      break;
  }
  const std::string ranks = side.participants.empty() ? "all" : fold(side.participants);
  return format("participants {} of group \"{}\"", ranks,
                printable(side.group, limits::kNameBytes));
}

}  // namespace

std::optional<Difference> difference(const BarrierState& barrier, const Arrival& arrival) {
  if (arrival.world_size != barrier.world_size) return Difference::world_size;
  if (arrival.shape != barrier.shape) return Difference::shape;
  if (arrival.root != barrier.root) return Difference::root;
  if (!barrier.complete &&
      (arrival.group != barrier.group || arrival.participants != barrier.participants)) {
    return Difference::participants;
  }
  return std::nullopt;
}

Failure disagreement(const BarrierKey& key, const BarrierState& barrier, Rank rank,
                     const Arrival& arrival, Difference what, const Sessions& sessions) {
  std::vector<Rank> ranks;
  const auto arrived = barrier.arrived();
  ranks.reserve(arrived.size());
  for (const auto& [at, session] : arrived) ranks.push_back(at);
  std::string before = "the earlier ranks";
  if (!ranks.empty()) {
    const std::string first =
        format("rank {} on {}", ranks.front(), process_of(sessions.find(arrived.front().second)));
    before = ranks.size() == 1 ? first : format("ranks {} ({})", fold(ranks), first);
  }
  return failure(
      Code::size_mismatch, "{}: the ranks disagree: rank {} on {} says {}, but {} said {}; {}",
      describe(key), rank, process_of(sessions.find(arrival.session)), asked(arrival, what), before,
      asked(barrier, what),
      what == Difference::world_size
          ? "start all ranks with the same world size, and each launch with its own run ID"
          : "make the same call on all ranks, with one backend for the whole process "
            "group");
}

}  // namespace c10dd::core
