// SPDX-License-Identifier: Apache-2.0
#include "collectives/subgroup.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "client/internal/throw_failure.h"
#include "collectives/wording.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives {
namespace {

// The longest name; it is part of the name of an exchange, for which the daemon has a limit.
constexpr std::size_t kNameMax = 200;

[[noreturn]] void refuse(const World& world, const std::string& text) {
  client::throw_failure(
      failure(Code::invalid_argument, "new_group of process group \"{}\": {}", world.name, text));
}

/// Returns a name that only groups of these ranks of `parent` have, such as "world/[0-3]".
std::string name_of(const World& parent, const std::vector<Rank>& ranks) {
  std::string list;
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, by rank
  for (const Rank rank : ranks) {
    list += (list.empty() ? "" : ",") + std::to_string(rank);
    hash = (hash ^ rank) * 0x100000001b3u;
  }
  list = std::ranges::is_sorted(ranks) ? fold(ranks) : "[" + list + "]";
  std::string name = parent.name + "/" + list;
  if (name.size() <= kNameMax) return name;
  return format("{}/{} ranks {:x}", parent.name.substr(0, kNameMax / 2), ranks.size(), hash);
}

}  // namespace

Failure missed(const World& world, const char* function, Duration timeout, const TimedOut& late) {
  Failure failed = failure(Code::timed_out, "");
  failed.missing = client::ranks_of(late.missing());
  for (MissingRank& one : failed.missing) {
    if (one.rank >= world.members.size()) continue;
    const ProcessAddress& process = world.members[one.rank].process;
    if (process.host.empty()) continue;
    one.host = process.host;
    one.pid = process.pid;
  }
  failed.detail =
      format("{} of process group \"{}\" timed out after {}: {} of {} ranks have not arrived: {}",
             function, world.name, human(timeout), failed.missing.size(), world.size,
             described(failed.missing));
  failed.detail += ranks_in_the_job(failed.missing, world);
  return failed;
}

Exchange naming_the_missing(Exchange exchange, const World& child) {
  return [exchange = std::move(exchange), child](ExchangeShape shape,
                                                 std::vector<std::string> parts, Duration timeout) {
    try {
      return exchange(shape, std::move(parts), timeout);
    } catch (const TimedOut& late) {
      client::throw_failure(missed(child, "new_group", timeout, late));
    }
  };
}

World subworld(const World& parent, const std::vector<Rank>& ranks,
               const SubgroupOptions& options) {
  std::vector<Rank> sorted = ranks;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) refuse(parent, format("rank {} is in the list twice", *twice));
  if (!sorted.empty() && sorted.back() >= parent.size) {
    refuse(parent, format("rank {} must be below the world size {}", sorted.back(), parent.size));
  }
  const auto own = std::ranges::find(ranks, parent.rank);
  if (own == ranks.end()) {
    refuse(parent, format("this rank ({}) is not in the list; only the members of the new group "
                          "may call new_group",
                          parent.rank));
  }
  World world{.rank = static_cast<Rank>(own - ranks.begin()),
              .size = static_cast<Rank>(ranks.size()),
              .generation = parent.generation,
              .name = name_of(parent, ranks),
              .kind = options.kind.value_or(parent.kind)};
  for (const Rank rank : ranks) world.members.push_back(parent.members[rank]);
  return world;
}

GroupOptions options_of(const GroupOptions& parent, const SubgroupOptions& options) {
  GroupOptions own = parent;
  own.backend = options.backend.value_or(parent.backend);
  own.timeout = options.timeout.value_or(parent.timeout);
  own.hooks = options.hooks;
  return own;
}

SplitPlan plan_split(ProcessGroup& parent, std::int32_t color, std::int32_t key, bool can_split) {
  constexpr std::size_t kWords = 3;
  std::vector<std::int32_t> own = {color, key, can_split ? 1 : 0};
  std::vector<std::int32_t> all(kWords * parent.size());
  parent.all_gather_single(tensor_of(all), tensor_of(own));
  SplitPlan plan{.by_backend = true};
  for (Rank rank = 0; rank < parent.size(); ++rank) {
    if (color >= 0 && all[kWords * rank] == color) plan.ranks.push_back(rank);
    plan.by_backend = plan.by_backend && all[kWords * rank + 2] != 0;
  }
  std::ranges::stable_sort(plan.ranks, {}, [&](Rank rank) { return all[kWords * rank + 1]; });
  return plan;
}

std::vector<std::string> exchange_over(ProcessGroup& parent, const std::vector<Rank>& ranks,
                                       ExchangeShape shape, std::vector<std::string> parts,
                                       Duration timeout) {
  // Every shape is a transpose, in which parts that do not count are empty.
  const bool is_root = !ranks.empty() && ranks.front() == parent.rank();
  if (shape == ExchangeShape::all || (shape == ExchangeShape::from_root && is_root)) {
    parts.resize(ranks.size(), parts.front());
  }
  parts.resize(ranks.size());
  const std::size_t size = parent.size();
  std::vector<std::string> by_rank(size);
  for (std::size_t i = 0; i < ranks.size(); ++i) by_rank[ranks[i]] = parts[i];
  std::vector<std::int64_t> lengths(size);
  std::vector<std::int64_t> theirs(size);
  for (std::size_t i = 0; i < size; ++i) lengths[i] = static_cast<std::int64_t>(by_rank[i].size());
  parent.all_to_all_single(tensor_of(theirs), tensor_of(lengths), {.timeout = timeout});
  std::vector<std::vector<std::uint8_t>> out(size);
  std::vector<std::vector<std::uint8_t>> in(size);
  std::vector<Tensor> outputs;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < size; ++i) {
    out[i].assign(by_rank[i].begin(), by_rank[i].end());
    in[i].resize(static_cast<std::size_t>(theirs[i]));
    inputs.push_back(tensor_of(out[i]));
    outputs.push_back(tensor_of(in[i]));
  }
  parent.all_to_all(std::move(outputs), std::move(inputs), {.timeout = timeout});
  std::vector<std::string> reply;
  for (const Rank rank : ranks) reply.emplace_back(in[rank].begin(), in[rank].end());
  if (shape == ExchangeShape::from_root && !reply.empty()) reply.resize(1);
  return reply;
}

}  // namespace c10dd::collectives
