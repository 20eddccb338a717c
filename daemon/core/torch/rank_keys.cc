// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/torch/rank_keys.h"

#include <charconv>

#include "protocol/limits.h"

namespace c10dd::core {
namespace {

std::optional<std::uint32_t> number(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, failed] = std::from_chars(digits.data(), end, value);
  if (failed != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Takes the part behind the last '/' off the end of `key`. If there is no '/', takes everything.
std::string_view take_last(std::string_view& key) {
  const std::size_t slash = key.rfind('/');
  const std::string_view last = key.substr(slash + 1);
  key = slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
  return last;
}

}  // namespace

std::optional<AgentKey> agent_key(std::string_view key) {
  constexpr std::string_view kAgents = "torchelastic/";
  constexpr std::string_view kSizes = "role_info";
  constexpr std::string_view kTotals = "assigned_ranks/";
  constexpr std::string_view kFinished = ".FIN";
  const std::size_t at = key.rfind(kAgents);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = key.substr(at + kAgents.size());
  AgentKey found{.round = key.substr(0, at)};
  if (rest.starts_with(kTotals)) {
    found.kind = AgentKey::Kind::total;
    rest.remove_prefix(kTotals.size());
  } else if (rest.starts_with(kSizes)) {
    rest.remove_prefix(kSizes.size());
    if (rest.starts_with('/')) rest.remove_prefix(1);
    if (rest.ends_with(kFinished)) {
      found.kind = AgentKey::Kind::finished;
      rest.remove_suffix(kFinished.size());
    }
  } else {
    return std::nullopt;
  }
  const std::optional<std::uint32_t> node = number(rest);
  if (!node) return std::nullopt;
  found.node = *node;
  return found;
}

std::optional<std::uint32_t> rank_of_key(std::string_view key) {
  constexpr std::string_view kHostName = "rank_";
  constexpr std::string_view kRpc = "rpc_prefix_";
  if (const auto agent = agent_key(key)) {
    return agent->kind == AgentKey::Kind::size ? std::optional(agent->node) : std::nullopt;
  }
  std::string_view rest = key;
  std::string_view last = take_last(rest);
  if (last.starts_with(kHostName)) return number(last.substr(kHostName.size()));
  const std::optional<std::uint32_t> rank = number(last);
  if (!rank) return std::nullopt;
  if (rest.ends_with("/cuda/")) return 0;
  if (!number(take_last(rest))) return std::nullopt;  // the device
  if (rest.ends_with('/')) return rank;
  const std::string_view group = take_last(rest);
  if (group.starts_with(kRpc) && number(group.substr(kRpc.size()))) return rank;
  return number(group) && rest.ends_with("/default_pg") ? rank : std::nullopt;
}

std::optional<std::uint32_t> job_rank_of_key(std::string_view key) {
  const auto rank = agent_key(key) ? std::nullopt : rank_of_key(key);
  if (!rank || *rank >= limits::kWorldSize) return std::nullopt;
  if (key.find("default_pg/") != std::string_view::npos) {
    return key.find("default_pg/0/") != std::string_view::npos ? rank : std::nullopt;
  }
  return key.substr(key.rfind('/') + 1).starts_with("rank_") ? std::nullopt : rank;
}

std::string_view group_of_rank_key(std::string_view key) {
  return key.substr(0, key.rfind('/') + 1);
}

}  // namespace c10dd::core
