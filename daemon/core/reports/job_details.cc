// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/job_details.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "daemon/core/keys/key_space.h"
#include "daemon/core/keys/queues.h"
#include "daemon/core/pending.h"
#include "daemon/core/sessions/sessions.h"
#include "daemon/core/torch/rank_keys.h"
#include "daemon/core/torch/world_size.h"
#include "daemon/core/waiting/missing.h"

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

/// Returns the largest number of ranks that a client of TCPStore has named in a barrier.
std::optional<std::uint64_t> largest_barrier(const Sessions& sessions) {
  std::int64_t largest = 0;
  for (const auto& [id, session] : sessions.all()) largest = std::max(largest, session.counts_to);
  return largest > 0 ? std::optional(static_cast<std::uint64_t>(largest)) : std::nullopt;
}

std::vector<UnfinishedBarrier> unfinished(const Everybody& everybody) {
  std::vector<UnfinishedBarrier> all;
  for (const BarrierKey& key : everybody.barriers.unfinished()) {
    if (all.size() == JobDetails::kBarriers) break;
    const BarrierState& barrier = *everybody.barriers.find(key);
    AbsentRanks absent = absent_ranks(key, barrier, everybody);
    all.push_back({describe(key), barrier.world_size, everybody.now - barrier.first_arrival,
                   std::move(absent.ranks), std::move(absent.text)});
  }
  return all;
}

}  // namespace

JobDetails details(const Pending& pending, const KeySpace& keys, const Queues& queues,
                   const Everybody& everybody) {
  const Sessions& sessions = everybody.sessions;
  const TimePoint now = everybody.now;
  JobDetails all;
  all.barriers = unfinished(everybody);
  std::map<Awaited, KeyWait> waits;
  std::map<Awaited, std::set<WaitingProcess>> processes;
  pending.for_each([&](const Pending::Waiter& waiter) {
    const Session* const session = sessions.find(waiter.session);
    for (Awaited& one : awaited(waiter.request, keys, queues)) {
      KeyWait& wait = waits[one];
      ++wait.waiters;
      wait.longest = std::max(wait.longest, Duration(now - waiter.started));
      auto& known = processes[std::move(one)];
      if (session != nullptr && known.size() < JobDetails::kProcesses) {
        known.insert({session->host, session->pid, session->pid == 0 ? session->connection : 0});
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
  WorldSize world;
  keys.for_each([&](std::string_view key, const KeySpace::StoredValue& stored) {
    if (const auto rank = rank_of_key(key)) {
      all.ranks.insert(*rank);
      all.trainers = all.trainers || !agent_key(key);
    }
    world.look_at(key, stored);
  });
  all.world_size = world.found();
  all.differing = world.differing();
  if (!all.world_size) all.world_size = largest_barrier(sessions);
  return all;
}

}  // namespace c10dd::core
