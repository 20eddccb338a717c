// SPDX-License-Identifier: Apache-2.0
// Giving up has a thread of its own, because it writes files and calls callbacks of the user, and
// the thread of the client must send heartbeats.
#include "collectives/reported_group.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "collectives/wording.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::collectives {

std::shared_ptr<ReportedGroup> ReportedGroup::attach(ActivityLink link, GroupOptions& options,
                                                     GroupContext& context) {
  const auto reported = std::make_shared<ReportedGroup>(std::move(link), options.abort_when_stuck);
  options.hooks.push_back(reported->hook_);
  options.hooks.push_back(reported->flight_);
  context.explain = [weak = std::weak_ptr(reported)](const CollectiveCall& call, Failure& failure) {
    const auto known = weak.lock();
    const bool is_other = known && known->explain(call, failure);
    FlightRecorder::dump(failure.detail);
    return is_other;
  };
  using Kept = std::pair<std::shared_ptr<void>, std::shared_ptr<ReportedGroup>>;
  context.kept = std::make_shared<Kept>(std::move(context.kept), reported);
  return reported;
}

ReportedGroup::ReportedGroup(ActivityLink link, bool abort_when_stuck)
    : link_(std::move(link)),
      abort_when_stuck_(abort_when_stuck),
      flight_(std::make_shared<FlightRecorder>(link_.job)) {}

ReportedGroup::~ReportedGroup() {
  if (process_group_ != 0) link_.close(process_group_);
  if (!giving_up_.joinable()) return;
  if (giving_up_.get_id() == std::this_thread::get_id()) {
    giving_up_.detach();
  } else {
    giving_up_.join();
  }
}

void ReportedGroup::open(std::uint64_t process_group, AbortableGroup& group) {
  world_ = group.world();
  if (world_.size < 2 || process_group == 0) return;
  process_group_ = process_group;
  abort_ = group.aborter();
  flight_->identify(process_group);
  client::WatchedGroup watched{.opened = {.process_group = process_group,
                                          .name = printable_name(world_.name),
                                          .kind = printable_name(world_.kind),
                                          .generation = world_.generation,
                                          .size = world_.size,
                                          .rank = world_.rank,
                                          .job_rank = world_.members.at(world_.rank).job_rank},
                               .read = [hook = hook_] { return hook->read(); }};
  watched.hopeless = [this](const ActivityDiagnosis& said) { give_up_soon(said); };
  link_.open(std::move(watched));
}

/// Writes the flight records, and aborts the group if its caller wants that.
void ReportedGroup::give_up_soon(const ActivityDiagnosis& said) {
  try {
    giving_up_ = std::thread([aborts = abort_when_stuck_, abort = abort_, reason = stuck(said)] {
      FlightRecorder::dump(reason.detail);
      if (aborts) abort(reason);
    });
  } catch (const std::system_error&) {
    // Without a thread the group waits until its time-out.
  }
}

// A time-out gets the daemon's diagnosis, and the ranks in it are the missing ones. If the group
// can never go on, the other ranks may have aborted it before this one, which then loses them: the
// diagnosis is the reason.
bool ReportedGroup::explain(const CollectiveCall& call, Failure& failure) const {
  const bool late = failure.code == Code::timed_out;
  const bool lost = failure.code == Code::unavailable || failure.code == Code::aborted;
  if (process_group_ == 0 || (!late && !lost)) return false;
  const auto said = link_.explain(process_group_, lost);
  if (!said || said->sentence.empty()) return false;
  if (lost && !is_hopeless(*said)) return false;
  if (lost && abort_when_stuck_) {
    failure = stuck(*said);
    failure.detail = aborted_text(world_, failure.detail);
    return true;
  }
  auto missing = missing_of(
      *said, is_hopeless(*said) ? MissingRank::Cause::elsewhere : MissingRank::Cause::not_arrived);
  const Operation& operation = call.operation;
  const bool names_peer = info_of(operation.collective).message && operation.peer != kAnyRank;
  // What holds up the job need not be what holds up this message.
  if (names_peer && std::ranges::count(missing, operation.peer, &MissingRank::rank) == 0) {
    return false;
  }
  failure.detail += "; diagnosis: " + said->sentence;
  if (late && !missing.empty()) failure.missing = std::move(missing);
  return false;
}

bool ReportedGroup::is_hopeless(const ActivityDiagnosis& said) const {
  return std::ranges::count(said.hopeless, process_group_) > 0;
}

Failure ReportedGroup::stuck(const ActivityDiagnosis& said) const {
  Failure reason = failure(Code::aborted, said.sentence);
  reason.missing = missing_of(said, MissingRank::Cause::elsewhere);
  return reason;
}

/// Returns those of the ranks of the job that are in the group, as ranks of the group.
std::vector<MissingRank> ReportedGroup::missing_of(const ActivityDiagnosis& said,
                                                   MissingRank::Cause cause) const {
  std::vector<MissingRank> missing;
  for (Rank rank = 0; rank < world_.size && missing.size() < limits::kMissingNamed; ++rank) {
    const GroupMember& member = world_.members[rank];
    const auto has = [&](const RankRange& range) {
      return range.first <= member.job_rank && member.job_rank <= range.last;
    };
    if (std::ranges::none_of(said.ranks, has)) continue;
    missing.push_back(
        {.rank = rank, .cause = cause, .host = member.process.host, .pid = member.process.pid});
  }
  return missing;
}

}  // namespace c10dd::collectives
