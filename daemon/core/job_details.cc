// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job_details.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "daemon/core/rank_keys.h"

namespace c10dd::core {
namespace {

using Awaited = std::pair<Bytes, std::optional<std::int64_t>>;  // a key, and the number in it

/// Returns what a blocked request waits for: the keys that do not exist, a number, or an item.
std::vector<Awaited> awaited(const Request& request, const KeySpace& keys, const Queues& queues) {
  std::vector<Awaited> all;
  const auto add = [&](const Bytes& key, bool or_queue) {
    const bool exists = keys.find(key) != nullptr || (or_queue && queues.length(key) > 0);
    if (!exists) all.emplace_back(key, std::nullopt);
  };
  if (const auto* const get = std::get_if<Get>(&request)) add(get->key.str(), false);
  if (const auto* const pop = std::get_if<QueuePop>(&request))
    all.emplace_back(pop->key, std::nullopt);
  if (const auto* const wait = std::get_if<Wait>(&request)) {
    for (const Bytes& key : wait->keys) add(key, true);
  }
  if (const auto* const get = std::get_if<MultiGet>(&request)) {
    for (const Bytes& key : get->keys) add(key, false);
  }
  if (const auto* const wait = std::get_if<WaitCounter>(&request)) {
    all.emplace_back(wait->key.str(), wait->at_least);
  }
  return all;
}

/// Keeps the waits that concern most requests, in order of keys.
void keep_most(JobDetails& all) {
  if (all.waits.size() <= JobDetails::kWaits) return;
  all.more_waits = all.waits.size() - JobDetails::kWaits;
  std::ranges::stable_sort(all.waits, std::greater(), &KeyWait::waiters);
  all.waits.resize(JobDetails::kWaits);
  std::ranges::sort(all.waits, {}, &KeyWait::key);
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

JobDetails details(const Pending& pending, const KeySpace& keys, const Queues& queues,
                   const Sessions& sessions, TimePoint now) {
  JobDetails all;
  std::map<Awaited, KeyWait> waits;
  std::map<Awaited, std::set<WaitingProcess>> processes;
  pending.for_each([&](const Pending::Waiter& waiter) {
    const Session* const session = sessions.find(waiter.session);
    for (Awaited& one : awaited(waiter.request, keys, queues)) {
      if (one.second && *one.second > 0) all.world_size = static_cast<std::uint64_t>(*one.second);
      KeyWait& wait = waits[one];
      ++wait.waiters;
      wait.longest = std::max(wait.longest, Duration(now - waiter.started));
      auto& known = processes[std::move(one)];
      if (session != nullptr && known.size() < JobDetails::kProcesses) {
        known.insert({session->host, session->pid});
      }
    }
  });
  for (auto& [key, wait] : waits) {
    wait.key = key.first;
    wait.at_least = key.second;
    if (!wait.at_least) wait.rank = rank_of_key(wait.key);
    const auto& known = processes[key];
    wait.processes.assign(known.begin(), known.end());
    all.waits.push_back(std::move(wait));
  }
  keep_most(all);
  std::uint64_t largest = 0;  // of the groups: that of the world
  keys.for_each([&](std::string_view key, std::size_t value_bytes) {
    if (const auto rank = rank_of_key(key)) all.ranks.insert(*rank);
    largest = std::max(largest, world_size_of_gloo(key, value_bytes).value_or(0));
  });
  if (largest > 0) all.world_size = largest;
  return all;
}

}  // namespace c10dd::core
