// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/torch/world_size.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "daemon/core/torch/rank_keys.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kAgentValueBytes = 4096;  // no agent writes a longer value

std::optional<std::uint64_t> ranks_in(const boost::json::value* value) {
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  const std::int64_t ranks = value->as_int64();
  if (ranks < 1 || ranks > static_cast<std::int64_t>(limits::kWorldSize)) return std::nullopt;
  return static_cast<std::uint64_t>(ranks);
}

/// Returns a number of an agent's value: `local_world_size` of an object, which is the size of the
/// node, or the second number of a list, which is the size of all nodes.
std::optional<std::uint64_t> number_of_agent(std::string_view text) {
  if (text.size() > kAgentValueBytes) return std::nullopt;
  boost::system::error_code failed;
  const boost::json::value value = boost::json::parse(text, failed);
  if (failed) return std::nullopt;
  if (const auto* object = value.if_object())
    return ranks_in(object->if_contains("local_world_size"));
  if (const auto* list = value.if_array()) return ranks_in(list->if_contains(1));
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> world_size_of_gloo(std::string_view key, std::size_t value_bytes) {
  constexpr std::size_t kOldPeer = 136;
  constexpr std::size_t kBase = 154;
  constexpr std::size_t kPeer = 8;
  const auto has = [&](std::string_view part) { return key.find(part) != std::string_view::npos; };
  if (!rank_of_key(key) || has("/rank_") || has("/cuda/") || has("torchelastic/")) {
    return std::nullopt;
  }
  if (value_bytes > 0 && value_bytes % kOldPeer == 0) return value_bytes / kOldPeer + 1;
  if (value_bytes > kBase && (value_bytes - kBase) % kPeer == 0) {
    return (value_bytes - kBase) / kPeer;
  }
  return std::nullopt;
}

void WorldSize::look_at(std::string_view key, const KeySpace::StoredValue& stored) {
  const auto agent = agent_key(key);
  if (!agent) {
    const auto size = world_size_of_gloo(key, stored.value.size());
    if (size) groups_[std::string(group_of_rank_key(key))][*size].insert(*rank_of_key(key));
    return;
  }
  Round& round = rounds_[std::string(agent->round)];
  round.newest = std::max(round.newest, stored.revision);
  if (agent->kind == AgentKey::Kind::finished) round.finished = true;
  if (agent->kind == AgentKey::Kind::total) round.total = number_of_agent(stored.value);
  if (agent->kind != AgentKey::Kind::size) return;
  if (const auto size = number_of_agent(stored.value)) round.sizes[agent->node] = *size;
}

std::optional<std::uint64_t> WorldSize::Round::ranks() const {
  if (total) return total;
  const bool gap = sizes.empty() || sizes.rbegin()->first + 1 != sizes.size();
  if (!finished || gap) return std::nullopt;
  std::uint64_t sum = 0;
  for (const auto& [node, size] : sizes) sum += size;
  return sum;
}

std::optional<std::uint64_t> WorldSize::found() const {
  const auto newest =
      std::ranges::max_element(rounds_, {}, [](const auto& entry) { return entry.second.newest; });
  if (newest != rounds_.end()) {
    if (const auto ranks = newest->second.ranks()) return ranks;
  }
  std::uint64_t largest = 0;
  for (const auto& [group, told] : groups_) largest = std::max(largest, told.rbegin()->first);
  return largest > 0 ? std::optional(largest) : std::nullopt;
}

WorldSize::Told WorldSize::differing() const {
  for (const auto& [group, told] : groups_) {
    if (told.size() > 1) return told;
  }
  return {};
}

}  // namespace c10dd::core
