// SPDX-License-Identifier: Apache-2.0
// The ranks of a process group that no session has opened. Each session tells only its own rank, so
// it is not always known which ranks of the job they are.
#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/reports/collective_waits.h"
#include "protocol/limits.h"

namespace c10dd::core {

/// Adds ranks of a group that nobody has opened. Nothing follows while they may still come: after
/// the daemon was started, each client opens its groups again.
void CollectiveWaits::await_absent(const ActivityGroup& group, const Places& absent, WaitFor& one) {
  const Duration grace =
      of_.loaded ? of_.everybody.sessions.restart_grace() : Duration(limits::kRestartGrace);
  if (now_ - group.opened < grace && !planted(Planted::restart_accuses)) settled_ = false;
  if (absent.size() > WaitForList::kUnknown || !has_all_ranks(group)) {
    one.unnamed += absent.size();
    return;
  }
  for (const std::size_t rank : absent) {
    if (const auto place = place_of_rank(static_cast<Rank>(rank), absent.size() == 1)) {
      one.awaited.push_back(*place);
    } else {
      ++one.unnamed;
    }
  }
}

/// Returns whether a group has all ranks of the job, in their order, as far as it is known.
bool CollectiveWaits::has_all_ranks(const ActivityGroup& group) {
  if (in_order_) return *in_order_;
  bool in_order = group.size() >= ranks_of_job().size;
  for (Rank rank = 0; in_order && rank < group.size(); ++rank) {
    const RankActivity& known = group.ranks[rank];
    in_order = known.state == RankActivity::State::absent || known.job_rank == rank;
  }
  in_order_ = in_order;
  return in_order;
}

/// Returns nothing if any process may be this rank. `alone`: no other rank is absent. Then it is
/// the only process that names no rank, if that has gone silent: a client reports its groups at
/// once.
std::optional<std::size_t> CollectiveWaits::place_of_rank(Rank job_rank, bool alone) {
  const auto reporter = ranks_of_job().reporters.find(job_rank);
  if (reporter != ranks_of_job().reporters.end()) return process_of(reporter->second).place;
  const Sessions& sessions = of_.everybody.sessions;
  const bool told =
      sessions.id_of_rank(job_rank) != nullptr || sessions.departed(job_rank) != nullptr;
  if (told || ranks_of_job().strangers == 0) return list_.known().of_rank(job_rank);
  if (!alone || ranks_of_job().strangers > 1) return std::nullopt;
  const SessionId& stranger = ranks_of_job().stranger;
  if (!list_.facts(list_.known().of_session(stranger)).is_lost()) return std::nullopt;
  return list_.known().of_session(stranger, job_rank);
}

const RanksOfJob& CollectiveWaits::ranks_of_job() {
  if (ranks_of_job_) return *ranks_of_job_;
  RanksOfJob& found = ranks_of_job_.emplace();
  found.size = job_size_;
  for (std::uint32_t number = 0; number < of_.activity.reporters(); ++number) {
    const Reporter& reporter = of_.activity.reporter(number);
    if (reporter.entries == 0) continue;
    found.size = std::max(found.size, reporter.job_rank + 1);
    if (!reporter.ended) found.reporters[reporter.job_rank] = number;
  }
  for (const auto& [id, session] : of_.everybody.sessions.all()) {
    const bool names_none =
        session.rank < 0 && !session.observes && of_.activity.find(id) == nullptr;
    if (!session.connected || !names_none) continue;
    ++found.strangers;
    found.stranger = id;
  }
  return found;
}

}  // namespace c10dd::core
