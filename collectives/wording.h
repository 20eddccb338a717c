// SPDX-License-Identifier: Apache-2.0
// Names ranks in the error texts of the collectives: "rank 3", "ranks [17,512-519]" or "rank 3 on
// host-b (pid 7857)".
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap.h"
#include "protocol/error.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives {

/// Sorts the ranks and returns a text such as "[17,512-519]"; see fold().
inline std::string folded(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return fold(ranks);
}

/// Returns a text such as "rank 3" or "ranks [3,5-7]".
inline std::string named(const std::vector<Rank>& ranks) {
  return ranks.size() == 1 ? format("rank {}", ranks.front()) : "ranks " + folded(ranks);
}

/// Returns the rank with its host and process id, if these are known.
inline MissingRank missing_rank(Rank rank, const std::vector<ProcessAddress>& processes,
                                MissingRank::Cause cause, std::string doing = {}) {
  const ProcessAddress process = rank < processes.size() ? processes[rank] : ProcessAddress{};
  return {.rank = rank,
          .cause = cause,
          .host = process.host,
          .pid = process.pid,
          .doing = std::move(doing)};
}

/// Returns a text such as `; rank 1 of group "tp" is rank 5 of the job` for the ranks that have
/// another number in the job.
inline std::string ranks_in_the_job(const std::vector<MissingRank>& missing, const World& world) {
  std::string text;
  for (const MissingRank& one : missing) {
    if (one.rank >= world.members.size()) continue;
    const Rank job_rank = world.members[one.rank].job_rank;
    if (job_rank == one.rank) continue;
    text +=
        format("; rank {} of group \"{}\" is rank {} of the job", one.rank, world.name, job_rank);
  }
  return text;
}

/// Returns the text of the failure of operations if the group was aborted.
inline std::string aborted_text(const World& world, const std::string& reason) {
  return format("process group \"{}\" aborted: {}", world.name, reason);
}

/// Names the ranks as named() does, and adds the known hosts and pids of the first four ranks.
inline std::string described(const std::vector<MissingRank>& missing) {
  constexpr std::size_t kProcesses = 4;
  std::vector<Rank> ranks;
  std::string processes;
  for (const MissingRank& one : missing) {
    ranks.push_back(one.rank);
    if (one.host.empty() || ranks.size() > kProcesses) continue;
    processes += (processes.empty() ? "" : ", ") + rank_text(one.rank, one.host, one.pid);
  }
  if (processes.empty()) return named(ranks);
  if (ranks.size() == 1) return processes;
  return format("{} ({}{})", named(ranks), processes, ranks.size() > kProcesses ? ", ..." : "");
}

}  // namespace c10dd::collectives
