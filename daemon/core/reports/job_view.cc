// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/job_view.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "daemon/core/reports/awaited_keys.h"
#include "daemon/core/reports/launch_waits.h"
#include "daemon/core/reports/wait_fors.h"
#include "daemon/core/torch/rank_keys.h"

namespace c10dd::core {
namespace {

/// Keeps the keys for which most requests wait, in order of keys.
void keep_most(std::vector<AwaitedKey>& awaited) {
  std::ranges::stable_sort(awaited, std::greater(),
                           [](const AwaitedKey& one) { return one.waiters->size(); });
  awaited.resize(JobView::kWaits);
  std::ranges::stable_sort(awaited, {}, &AwaitedKey::key);
}

std::vector<UnfinishedBarrier> unfinished(const Everybody& everybody) {
  std::vector<UnfinishedBarrier> all;
  for (const BarrierKey& key : everybody.barriers.unfinished()) {
    if (all.size() == JobView::kBarriers) break;
    const BarrierState& barrier = *everybody.barriers.find(key);
    AbsentRanks absent = absent_ranks(key, barrier, everybody);
    all.push_back({describe(key), barrier.world_size, everybody.now - barrier.first_arrival,
                   std::move(absent.ranks), std::move(absent.text)});
  }
  return all;
}

}  // namespace

JobView view(const WaitSources& sources) {
  const Sessions& sessions = sources.everybody.sessions;
  const TimePoint now = sources.everybody.now;
  JobView all;
  all.barriers = unfinished(sources.everybody);
  std::vector<AwaitedKey> awaited = awaited_keys(sources.pending);
  if (awaited.size() > JobView::kWaits) {
    all.more_waits = awaited.size() - JobView::kWaits;
    keep_most(awaited);
  }
  for (const AwaitedKey& one : awaited) {
    KeyWait wait;
    wait.key = Bytes(one.key);
    wait.at_least = one.at_least;
    wait.waiters = one.waiters->size();
    if (!wait.at_least) wait.rank = rank_of_key(wait.key);
    std::set<WaitingProcess> processes;
    for (const Pending::Id id : *one.waiters) {
      const Pending::Waiter& waiter = sources.pending.at(id);
      wait.longest = std::max(wait.longest, Duration(now - waiter.started));
      const Session* const session = sessions.find(waiter.session);
      if (session == nullptr || processes.size() == JobView::kProcesses) continue;
      processes.insert({session->host, session->pid, session->pid == 0 ? session->connection : 0});
    }
    wait.processes.assign(processes.begin(), processes.end());
    all.waits.push_back(std::move(wait));
  }
  const LaunchTold& told = sources.launch.told(sources.keys);
  all.ranks = told.ranks;
  all.ranks.insert(told.nodes.begin(), told.nodes.end());
  all.trainers = told.trainers;
  all.world_size = world_size(told, sessions);
  all.differing = told.differing;
  return all;
}

}  // namespace c10dd::core
