// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/group_ops.h"

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

std::string promise_broken(const MissingRank& stalled) {
  return format(
      "{} has not reported progress within its promised time{}",
      rank_text(stalled.rank, stalled.host, stalled.pid),
      stalled.doing.empty() ? "" : ", in " + printable(stalled.doing, limits::kReasonBytes));
}

Result<void> check_names(std::string_view op, const std::string& group) {
  if (!group.empty() && group.size() <= limits::kNameBytes) return {};
  return failure(Code::invalid_argument, "{}: the group name has {} bytes; use 1 to {}", op,
                 group.size(), limits::kNameBytes);
}

/// `known`: the group exists, perhaps since an earlier version, which took other names.
Result<void> check_join(const Join& join, bool known) {
  if (Result<void> good = check_names("join", join.group); !good) return good;
  if (Result<void> good = check_name("group", join.group); !good && !known) {
    return failure(good.error().code, "join: " + good.error().detail);
  }
  if (Result<void> good = check_policy(join.policy); !good) {
    return failure(good.error().code, "join: " + good.error().detail);
  }
  std::size_t bytes = join.device.size() + join.domain.size();
  for (const auto& [label, value] : join.labels) bytes += label.size() + value.size();
  if (join.labels.size() > limits::kLabels) {
    return failure(Code::too_large, "join: too many labels: {}, limit {}", join.labels.size(),
                   limits::kLabels);
  }
  if (bytes > limits::kLabelBytes) {
    return failure(Code::too_large,
                   "join: labels, device and domain too long: {} bytes in all, limit {}", bytes,
                   limits::kLabelBytes);
  }
  if (join.rank >= 0 && (join.policy.min != join.policy.max || join.rank >= join.policy.max ||
                         join.policy.quorum || join.spare)) {
    return failure(
        Code::invalid_argument,
        "join: rank {} cannot be requested with min {} and max {}; request ranks below max only, "
        "with min equal to max, no quorum and no spare",
        join.rank, join.policy.min, join.policy.max);
  }
  return {};
}

}  // namespace

// ---- requests ----------------------------------------------------------------------------------

OptionalReply GroupOps::on(Step& step, const Join& join) {
  const bool known = groups_.find(join.group) != nullptr;
  if (Result<void> good = check_join(join, known); !good) return good.error();
  ChangeContext at = step.change_context();
  const SessionId& id = step.from.session;
  const Group* const group_before = groups_.find(join.group);
  const bool is_member = group_before != nullptr && group_before->state().find(id) != nullptr;
  if (!is_member) {
    if (auto full = step.allowance.refuses(memory_of_member(join), "this member"))
      return Reply(*full);
  }
  if (group_before != nullptr && group_before->came_in_vain(id, step.session->since, join)) {
    auto& [told, sequence] = step.session->sent_away;
    if (told != group_before->facts().status) sequence = step.call.sequence;
    told = group_before->facts().status;
    if (sequence == step.call.sequence) {
      step.observe(group_before->changed());
      return Reply(group_before->finished());
    }
  }
  Result<void> joined = groups_.join(id, *step.session, join, at);
  if (!joined) return joined.error();
  settle(step);  // the join can complete a generation
  const Group& group = *groups_.find(join.group);
  if (const auto place = group.place(id, join.round)) {
    step.observe(group.changed());
    return reply(*place);
  }
  OptionalReply refused = waits_.block(step, join, join.timeout);
  if (refused) groups_.withdraw(id, join.group, "its join was refused", at);
  return refused;
}

OptionalReply GroupOps::on(Step& step, const ReadMembers& read) {
  const Result<const Group*> group = groups_.known(read.group);
  if (!group) return group.error();
  step.observe((*group)->changed());
  Result<MemberPage> page = (*group)->page(read);
  if (!page) return page.error();
  return reply(std::move(*page));
}

OptionalReply GroupOps::on(Step& step, const Leave& leave) {
  if (Result<void> good = check_names("leave", leave.group); !good) return good.error();
  if (leave.kind > Leave::Kind::fail) {
    return refuse(Code::invalid_argument,
                  format("leave: unknown kind {}", static_cast<int>(leave.kind)));
  }
  const Group* group = groups_.find(leave.group);
  if (group != nullptr) step.observe(group->changed());
  if (group != nullptr && leave.generation != 0 && leave.generation != group->facts().generation) {
    return Reply(group->stale(leave.generation));
  }
  ChangeContext at = step.change_context();
  groups_.leave(step.from.session, leave, at);
  step.shows_change = true;
  return reply(Done{});
}

OptionalReply GroupOps::on(Step& step, const WatchGroup& watch) {
  const Result<const Group*> group = groups_.known(watch.group);
  if (!group) return group.error();
  if ((*group)->facts().status > watch.seen || watch.seen > step.revision) {
    step.observe((*group)->changed());
    return reply((*group)->status(step.now));
  }
  return waits_.block(step, watch, watch.timeout);
}

OptionalReply GroupOps::on(Step& step, const Notify& request) {
  if (request.kind > Notice::Kind::preempt) {
    return refuse(Code::invalid_argument,
                  format("notify: unknown kind {}", static_cast<int>(request.kind)));
  }
  if (request.ranks.size() > limits::kWorldSize) {
    return refuse(Code::invalid_argument,
                  format("notify: {} ranks, limit {}", request.ranks.size(), limits::kWorldSize));
  }
  const Group* const group = groups_.find(request.group);
  const std::size_t members = group == nullptr ? 0 : group->state().members().size();
  if (auto full = step.allowance.refuses(memory_of_notice(members), "this notice")) {
    return Reply(std::move(*full));
  }
  ChangeContext at = step.change_context();
  const Result<std::uint64_t> number = groups_.notify(request, at);
  if (!number) return number.error();
  step.observe(step.next);
  return reply(Counted{*number});
}

OptionalReply GroupOps::on(Step& step, const Acknowledge& request) {
  ChangeContext at = step.change_context();
  const Result<void> done = groups_.acknowledge(step.from.session, request, at);
  if (!done) return done.error();
  step.shows_change = true;
  return reply(Done{});
}

OptionalReply GroupOps::on(Step& step, const Progress& report) {
  ChangeContext at = step.change_context();
  const Result<void> done = groups_.progress(step.from.session, report, at);
  if (!done) return done.error();
  return reply(Done{});
}

// ---- consequences ------------------------------------------------------------------------------

void GroupOps::settle(Step& step) {
  ChangeContext at = step.change_context();
  for (const Groups::ChangedGroup& change : groups_.settle(at)) {
    const Group& group = *change.group;
    const GroupFacts& facts = group.facts();
    const bool unnotified =
        planted(Planted::loss_not_reported) && facts.phase == GroupPhase::broken;
    const Bytes token = group_token(group.name());
    const bool signaled = !step.signals.empty() && step.signals.back().token == token;
    // One signal wakes all waiters of a group. So one is enough if many members leave at once.
    if (!unnotified && !signaled) step.signals.push_back({token, true});
    barrier_ops_.break_bound(step, group);
    if (!change.stalled.empty()) {
      step.out.events.push_back(
          MembersStalled{group.name(), facts.generation, fold(change.stalled),
                         promise_broken(group.describe(change.stalled.front()))});
    }
    if (change.ended) {
      step.may_hang = true;
      step.out.events.push_back(GenerationEnded{group.name(), facts.generation, facts.reason});
    }
    if (change.formed) {
      step.out.events.push_back(
          GenerationFormed{group.name(), facts.generation, group.size(), facts.reason});
    }
  }
}

}  // namespace c10dd::core
