// SPDX-License-Identifier: Apache-2.0
// Implements the functions of c10dd.h for groups.
#include <algorithm>

#include "client/c/block.h"
#include "client/c/exchange_options.h"
#include "client/c/guard.h"
#include "client/c/objects.h"
#include "client/internal/boot_time.h"
#include "client/internal/throw_failure.h"

namespace c10dd::c {

MembershipObject::MembershipObject(std::shared_ptr<Membership> joined)
    : membership(std::move(joined)) {
  listening = membership->on_change([this](const GroupState&) {
    const std::lock_guard lock(mutex);
    ++changes;
    changed.notify_all();
  });
}

void MembershipObject::close() {
  {
    const std::lock_guard lock(mutex);
    closed = true;
  }
  changed.notify_all();
}

namespace {

constexpr Duration kStateTimeout = std::chrono::seconds(300);

RendezvousOptions rendezvous_options(const c10dd_rendezvous_options& from, const Call& call) {
  RendezvousOptions to;
  if (from.group != nullptr) to.group = from.group;
  to.min = from.min;
  to.max = from.max;
  to.last_call = Duration(from.last_call_ns);
  to.quorum = from.quorum != 0;
  to.spare = from.spare != 0;
  to.ttl = Duration(from.ttl_ns);
  to.grace = Duration(from.grace_ns);
  to.timeout = call.timeout(to.timeout);
  to.rank = from.rank;
  to.local_rank = from.local_rank;
  to.device = text_of(from.device);
  to.domain = text_of(from.domain);
  if (from.label_count != 0) require(from.labels, "the labels");
  for (std::size_t i = 0; i < from.label_count; ++i) {
    to.labels[text_of(from.labels[i].name)] = text_of(from.labels[i].value);
  }
  to.step = from.step;
  return to;
}

c10dd_generation* copy(const Generation& from) {
  Block block;
  auto* const to = block.array<c10dd_generation>(1);
  *to = {from.round,
         from.number,
         from.rank,
         from.size,
         from.digest,
         from.failures,
         block.text(from.reason)};
  return block.release(to);
}

c10dd_members copy(const std::vector<Member>& from) {
  Block block;
  auto* const to = block.array<c10dd_member>(std::max<std::size_t>(from.size(), 1));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Member& m = from[i];
    auto* const labels = block.array<c10dd_label>(m.labels.size());
    std::size_t n = 0;
    for (const auto& [name, value] : m.labels) labels[n++] = {block.text(name), block.text(value)};
    to[i] = {m.rank,
             block.text(m.host),
             m.pid,
             m.local_rank,
             block.text(m.device),
             block.text(m.domain),
             labels,
             n,
             m.step,
             m.previous_rank};
  }
  return {block.release(to), from.size()};
}

c10dd_ranks ranks(Block& block, const std::vector<std::uint32_t>& from) {
  auto* const to = block.array<std::uint32_t>(from.size());
  std::ranges::copy(from, to);
  return {to, from.size()};
}

c10dd_group_state* copy(const GroupState& from, std::uint64_t change) {
  Block block;
  auto* const to = block.array<c10dd_group_state>(1);
  to->change = change;
  to->phase = static_cast<std::int32_t>(from.phase);
  to->fenced = from.fenced ? 1 : 0;
  to->round = from.round;
  to->generation = from.generation;
  to->reason = block.text(from.reason);
  to->lost = ranks(block, from.lost);
  to->finished = ranks(block, from.finished);
  to->stalled = ranks(block, from.stalled);
  to->missing = copy(block, from.missing);
  to->missing_count = from.missing.size();
  to->waiting = from.waiting;
  auto* const notices = block.array<c10dd_notice>(from.notices.size());
  for (std::size_t i = 0; i < from.notices.size(); ++i) {
    const DrainNotice& notice = from.notices[i];
    notices[i] = {notice.number, notice.preempt ? 1 : 0, ranks(block, notice.ranks),
                  notice.left.count(), block.text(notice.reason)};
  }
  to->notices = notices;
  to->notice_count = from.notices.size();
  return block.release(to);
}

std::vector<std::uint32_t> ranks_of(c10dd_ranks from) {
  if (from.count != 0) require(from.items, "the ranks");
  return {from.items, from.items + from.count};
}

/// Waits until the state has changed more often than `seen`, and returns it.
c10dd_group_state* state_after(MembershipObject& object, std::uint64_t seen, Duration timeout) {
  std::unique_lock lock(object.mutex);
  const auto is_due = [&] { return object.changes > seen || object.closed; };
  const TimePoint end = client::boot_time() + timeout;
  if (client::wait_until(lock, object.changed, end, is_due) == client::Waited::ended_by_caller) {
    client::throw_failure(client::ended_by_caller());
  }
  if (object.closed) throw Error(Code::closed, "the membership was closed");
  // The count is taken first: a change in between is then returned again, not lost.
  const std::uint64_t change = object.changes;
  lock.unlock();
  return copy(object.membership->state(), change);
}

template <class Body>
c10dd_code with_membership(c10dd_membership* membership, const c10dd_call* call, c10dd_error* error,
                           Body&& body) noexcept {
  return guarded(error, [&] {
    const auto object = handles().find<MembershipObject>(membership);
    const Call scope(call);
    body(*object, scope);
  });
}

}  // namespace
extern "C" {

c10dd_code c10dd_rendezvous(c10dd_client* client, const c10dd_rendezvous_options* options,
                            const c10dd_call* call, c10dd_membership** membership,
                            c10dd_error* error) {
  return guarded(error, [&] {
    require(membership, "the output pointer for the membership");
    const auto object = handles().find<ClientObject>(client);
    const Call scope(call);
    const auto from =
        options_of<c10dd_rendezvous_options>(options, C10DD_RENDEZVOUS_OPTIONS_INIT, "the options");
    *membership = static_cast<c10dd_membership*>(handles().add(std::make_shared<MembershipObject>(
        object->client->rendezvous(rendezvous_options(from, scope)))));
  });
}

c10dd_code c10dd_membership_close(c10dd_membership* membership, c10dd_error* error) {
  return guarded(error, [&] { handles().take<MembershipObject>(membership)->close(); });
}

c10dd_code c10dd_membership_generation(c10dd_membership* membership, c10dd_generation** generation,
                                       c10dd_error* error) {
  return with_membership(membership, nullptr, error, [&](MembershipObject& object, const Call&) {
    require(generation, "the output pointer for the generation");
    *generation = copy(object.membership->generation());
  });
}

c10dd_code c10dd_membership_next(c10dd_membership* membership, uint64_t step,
                                 const c10dd_call* call, c10dd_generation** generation,
                                 c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    require(generation, "the output pointer for the generation");
    *generation = copy(object.membership->next(step));
  });
}

c10dd_code c10dd_membership_members(c10dd_membership* membership, const c10dd_call* call,
                                    c10dd_members* members, c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    require(members, "the output pointer for the members");
    *members = copy(object.membership->members());
  });
}

c10dd_code c10dd_membership_state(c10dd_membership* membership, uint64_t seen,
                                  const c10dd_call* call, c10dd_group_state** state,
                                  c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call& scope) {
    require(state, "the output pointer for the state");
    *state = state_after(object, seen, seen == 0 ? Duration(0) : scope.timeout(kStateTimeout));
  });
}

c10dd_code c10dd_membership_leave(c10dd_membership* membership, const char* detail,
                                  const c10dd_call* call, c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    object.membership->leave(text_of(detail));
  });
}

c10dd_code c10dd_membership_finish(c10dd_membership* membership, const char* detail,
                                   const c10dd_call* call, c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    object.membership->finish(text_of(detail));
  });
}

c10dd_code c10dd_membership_fail(c10dd_membership* membership, const char* detail,
                                 uint64_t generation, const c10dd_call* call, c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    object.membership->fail(text_of(detail), generation);
  });
}

c10dd_code c10dd_membership_progress(c10dd_membership* membership, const char* phase, uint64_t step,
                                     int64_t limit_ns, c10dd_error* error) {
  return with_membership(membership, nullptr, error, [&](MembershipObject& object, const Call&) {
    object.membership->progress(text_of(phase), step, Duration(limit_ns));
  });
}

c10dd_code c10dd_membership_notify(c10dd_membership* membership, const c10dd_notice* notice,
                                   const char* host, const c10dd_call* call, uint64_t* number,
                                   c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    require(notice, "the notice");
    const std::uint64_t given =
        object.membership->notify({0, notice->preempt != 0, ranks_of(notice->ranks),
                                   Duration(notice->left_ns), text_of(notice->reason)},
                                  text_of(host));
    if (number != nullptr) *number = given;
  });
}

c10dd_code c10dd_membership_acknowledge(c10dd_membership* membership, uint64_t notice,
                                        const c10dd_call* call, c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call&) {
    object.membership->acknowledge(notice);
  });
}

c10dd_code c10dd_membership_barrier(c10dd_membership* membership, c10dd_view name,
                                    c10dd_ranks participants, const c10dd_call* call,
                                    c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call& scope) {
    object.membership->barrier(std::string(bytes_of(name, "the name of the barrier")),
                               scope.timeout(BarrierOptions().timeout), ranks_of(participants));
  });
}

c10dd_code c10dd_membership_exchange(c10dd_membership* membership, c10dd_view name,
                                     const c10dd_view* parts, size_t count,
                                     c10dd_ranks participants, const c10dd_barrier_options* options,
                                     const c10dd_call* call, c10dd_list* received,
                                     c10dd_error* error) {
  return with_membership(membership, call, error, [&](MembershipObject& object, const Call& scope) {
    require(received, "the output pointer for the parts");
    ExchangeOptions to = exchange_of(
        options_of<c10dd_barrier_options>(options, C10DD_BARRIER_OPTIONS_INIT, "the options"));
    to.timeout = scope.timeout(to.timeout);
    *received = copy(object.membership->exchange(
        std::string(bytes_of(name, "the name of the exchange")),
        strings_of(parts, count, "a part of the exchange"), to, ranks_of(participants)));
  });
}
}

}  // namespace c10dd::c
