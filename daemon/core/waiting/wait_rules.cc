// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/waiting/wait_rules.h"

#include <algorithm>

#include "daemon/core/keys/counter.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kQueueNameShown =
    64;  // an error shows at most this many bytes of a queue's name

Failure join_overdue(const Join& join, Duration timeout, Failure shortage) {
  shortage.detail =
      format("rendezvous \"{}\" timed out after {}: {}", printable(join.group, limits::kNameBytes),
             human(timeout), shortage.detail);
  return shortage;
}

/// Ends the text of a time-out with the cause, which may be elsewhere in the job.
void add_diagnosis(Failure& overdue, WaitRules::WaitContext& look) {
  if (look.diagnosis == nullptr || look.diagnosis->kind == Diagnosis::Kind::none) return;
  look.diagnosed = true;
  overdue.detail += "; diagnosis: " + look.diagnosis->sentence;
}

}  // namespace

// ---- get, wait, multi_get ----------------------------------------------------------------------

bool WaitRules::is_there(std::string_view key, bool or_queue) const {
  return tables_.keys.find(key) != nullptr || (or_queue && tables_.queues.oldest(key).has_value());
}

std::vector<Bytes> WaitRules::missing(const std::vector<Bytes>& keys, bool or_queue) const {
  std::vector<Bytes> missing;
  for (const Bytes& key : keys) {
    if (!is_there(key, or_queue)) missing.push_back(key);
  }
  return missing;
}

std::vector<Blob> WaitRules::tokens_of_missing(const std::vector<Bytes>& keys,
                                               bool or_queue) const {
  std::vector<Blob> tokens;
  for (const Bytes& key : keys) {
    if (!is_there(key, or_queue)) tokens.emplace_back(key_token(key));
  }
  return tokens;
}

std::vector<Blob> WaitRules::tokens(const Get& get) const { return {key_token(get.key)}; }

std::vector<Blob> WaitRules::tokens(const Wait& wait) const {
  return tokens_of_missing(wait.keys, true);
}

std::vector<Blob> WaitRules::tokens(const MultiGet& get) const {
  return tokens_of_missing(get.keys, false);
}

OptionalReply WaitRules::ready(const Get& get, WaitContext& look) const {
  const KeySpace::StoredValue* entry = tables_.keys.find(get.key);
  if (entry == nullptr) return std::nullopt;
  look.observe(entry->revision);
  return reply(Value{entry->value, entry->revision});
}

OptionalReply WaitRules::ready(const Wait& wait, WaitContext& look) const {
  if (wait.each && look.since > 0) {  // the last key that had not existed was set in this step
    look.observe(look.revision);
    return reply(Done{});
  }
  Revision newest = 0;
  for (const Bytes& key : wait.keys) {
    const KeySpace::StoredValue* entry = tables_.keys.find(key);
    if (entry == nullptr && !tables_.queues.oldest(key)) return std::nullopt;
    newest = std::max(newest, entry != nullptr ? entry->revision : tables_.queues.observed());
  }
  look.observe(newest);
  return reply(Done{});
}

OptionalReply WaitRules::ready(const MultiGet& get, WaitContext& look) const {
  for (const Bytes& key : get.keys) {
    if (!is_there(key, false)) return std::nullopt;
  }
  Values values;
  std::size_t bytes = 0;
  for (const Bytes& key : get.keys) {
    const KeySpace::StoredValue& entry = *tables_.keys.find(key);
    look.observe(entry.revision);
    values.values.push_back(entry.value.str());
    values.revisions.push_back(entry.revision);
    bytes += entry.value.size() + sizeof(std::uint32_t) + sizeof(Revision);
    if (bytes > limits::kFrameBytes - 2 * sizeof(std::uint32_t)) {
      return failure(Code::too_large,
                     "multi_get: the values have more than {} bytes; ask for fewer keys at a time",
                     limits::kFrameBytes);
    }
  }
  return reply(std::move(values));
}

/// Returns the reply to a request that has timed out while keys are missing. `reads` is true if the
/// request asks for the values of the keys. For such a request, a queue with items does not replace
/// a missing key of the same name.
Reply WaitRules::keys_overdue(const Waiter& waiter, const std::vector<Bytes>& keys, bool reads,
                              WaitContext& look) const {
  for (const Bytes& key : keys) {
    look.observe(std::max(tables_.keys.observed(key), tables_.queues.observed()));
  }
  const std::vector<Bytes> missing = this->missing(keys, !reads);
  Failure result = reads && waiter.timeout == Duration::zero()
                       ? keys_not_found(missing, keys.size())
                       : missing_keys(missing, keys.size(), waiter.timeout);
  const auto queue = std::ranges::find_if(
      missing, [this](const Bytes& key) { return tables_.queues.length(key) > 0; });
  if (reads && queue != missing.end()) {
    result.detail +=
        "; \"" + printable(*queue, kQueueNameShown) + "\" is a queue with items: use queue_pop";
  }
  return result;
}

Reply WaitRules::overdue(const Waiter& waiter, const Get& get, WaitContext& look) const {
  return keys_overdue(waiter, {get.key.str()}, true, look);
}
Reply WaitRules::overdue(const Waiter& waiter, const Wait& wait, WaitContext& look) const {
  if (!wait.each) return keys_overdue(waiter, wait.keys, false, look);
  // Names only the keys that have not existed since the request.
  look.observe(look.revision);
  std::vector<Bytes> missing;
  for (const Blob& token : waiter.tokens) missing.emplace_back(key_of_token(token));
  return missing_keys(missing, wait.keys.size(), waiter.timeout);
}
Reply WaitRules::overdue(const Waiter& waiter, const MultiGet& get, WaitContext& look) const {
  return keys_overdue(waiter, get.keys, true, look);
}

// ---- wait_counter ------------------------------------------------------------------------------

std::vector<Blob> WaitRules::tokens(const WaitCounter& wait) const {
  return {Pending::counter_token(wait.key, wait.at_least)};
}

OptionalReply WaitRules::ready(const WaitCounter& wait, WaitContext& look) const {
  const KeySpace::StoredValue* entry = tables_.keys.find(wait.key);
  if (entry == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = number_at_start(entry->value);
  if (!number || *number < wait.at_least) return std::nullopt;
  look.observe(entry->revision);
  return reply(Done{});
}

Reply WaitRules::overdue(const Waiter& waiter, const WaitCounter& wait, WaitContext& look) const {
  look.observe(tables_.keys.observed(wait.key));
  const KeySpace::StoredValue* entry = tables_.keys.find(wait.key);
  const auto number = entry == nullptr ? std::nullopt : number_at_start(entry->value);
  return failure(Code::timed_out,
                 "timed out after {}: counter \"{}\" {}, but at least {} is awaited",
                 human(waiter.timeout), printable(wait.key, kQueueNameShown),
                 number             ? format("is {}", *number)
                 : entry == nullptr ? std::string("does not exist")
                                    : std::string("is not a number"),
                 wait.at_least);
}

// ---- watch -------------------------------------------------------------------------------------

std::vector<Blob> WaitRules::tokens(const Watch& watch) const { return {watch_token(watch)}; }

OptionalReply WaitRules::ready(const Watch& asked, WaitContext& look) const {
  Watch watch = asked;
  watch.from = std::max(watch.from, look.since);
  look.observe(look.revision);
  const Revision start = tables_.history.start(watch);
  if (watch.from < start) {
    return failure(
        Code::compacted,
        "the watch asks for changes from revision {} on, but only changes from revision {} "
        "on are kept; list the keys again, then watch from the list's revision + 1",
        watch.from, start);
  }
  Changes changes;
  tables_.history.read(watch, look.revision, changes);
  if (changes.changes.empty()) return std::nullopt;
  return reply(std::move(changes));
}

Reply WaitRules::overdue(const Waiter&, const Watch& watch, WaitContext& look) const {
  look.observe(look.revision);
  return ReplyBody(Changes{.changes = {}, .next = std::max(watch.from, look.revision + 1)});
}

// ---- queue_pop ---------------------------------------------------------------------------------

std::vector<Blob> WaitRules::tokens(const QueuePop& pop) const { return {queue_token(pop.key)}; }

Reply WaitRules::overdue(const Waiter& waiter, const QueuePop& pop, WaitContext& look) const {
  look.observe(tables_.queues.observed());
  const bool looked = waiter.timeout == Duration::zero();
  return failure(looked ? Code::not_found : Code::timed_out,
                 "queue \"" + printable(pop.key, kQueueNameShown) + "\" has no item" +
                     (looked ? "" : " after " + human(waiter.timeout)));
}

// ---- barrier, exchange -------------------------------------------------------------------------

std::vector<Blob> WaitRules::tokens(const Barrier& barrier) const {
  return {token_of(barrier_key(barrier))};
}
std::vector<Blob> WaitRules::tokens(const Exchange& exchange) const {
  return {token_of(barrier_key(exchange))};
}

OptionalReply WaitRules::ready(const Barrier& barrier, WaitContext& look) const {
  const BarrierState& state = *tables_.barriers.find(barrier_key(barrier));
  if (!state.complete) return std::nullopt;
  look.observe(state.revision);
  if (state.broken) return *state.broken;
  return reply(Done{});
}

OptionalReply WaitRules::ready(const Exchange& exchange, WaitContext& look) const {
  const BarrierKey key = barrier_key(exchange);
  const BarrierState& state = *tables_.barriers.find(key);
  if (!state.complete) return std::nullopt;
  look.observe(state.revision);
  if (state.broken) return *state.broken;
  const auto [at, length] = state.slices[exchange.rank];
  if (exchange.offset > length) {
    return failure(Code::invalid_argument, "{}: offset {} is past the end of the reply of {} bytes",
                   describe(key), exchange.offset, length);
  }
  const std::size_t chunk =
      std::min<std::size_t>(length - exchange.offset, limits::kExchangeChunkBytes);
  return reply(Exchanged{exchange.offset, length, {state.result, at + exchange.offset, chunk}});
}

Reply WaitRules::barrier_overdue(const Waiter& waiter, const BarrierKey& key,
                                 WaitContext& look) const {
  const BarrierState* state = tables_.barriers.find(key);
  if (state != nullptr) look.observe(state->revision);
  const Everybody everybody{tables_.sessions, tables_.barriers, tables_.groups, look.now};
  if (waiter.absent) return missing_session(key, *waiter.absent, waiter.timeout, everybody);
  C10DD_ASSERT(state != nullptr);  // who waits for ranks has arrived at the barrier
  if (state->broken) return *state->broken;
  Failure overdue = missing_ranks(key, *state, waiter.timeout, everybody);
  if (state->group.empty() && look.diagnosis != nullptr) {
    for (const Rank rank : look.diagnosis->ranks) {
      const bool named = std::ranges::any_of(
          overdue.missing, [&](const MissingRank& one) { return one.rank == rank; });
      const bool is_here = state->holder(rank) != nullptr;  // as in a deadlock of two barriers
      if (named || is_here || overdue.missing.size() == limits::kMissingNamed) continue;
      overdue.missing.push_back(look_up(rank, key, *state, everybody));
    }
  }
  add_diagnosis(overdue, look);
  return overdue;
}

Reply WaitRules::overdue(const Waiter& waiter, const Barrier& barrier, WaitContext& look) const {
  return barrier_overdue(waiter, barrier_key(barrier), look);
}
Reply WaitRules::overdue(const Waiter& waiter, const Exchange& exchange, WaitContext& look) const {
  return barrier_overdue(waiter, barrier_key(exchange), look);
}

Reply WaitRules::time_out_barrier(Step& step, const Waiter& waiter, const BarrierKey& key,
                                  WaitContext& look) {
  Reply reason = barrier_overdue(waiter, key, look);
  if (waiter.absent || tables_.barriers.find(key)->complete) return reason;
  Failure recorded = reason.error();
  recorded.recorded = true;
  step.out.events.push_back(BarrierTimedOut{recorded.detail});
  tables_.barriers.fail(key, recorded, step.next, step.out.rows);
  step.signal(token_of(key));
  look.observe(step.next);
  return recorded;
}

Reply WaitRules::time_out(Step& step, const Waiter& waiter, const Barrier& barrier,
                          WaitContext& look) {
  return time_out_barrier(step, waiter, barrier_key(barrier), look);
}
Reply WaitRules::time_out(Step& step, const Waiter& waiter, const Exchange& exchange,
                          WaitContext& look) {
  return time_out_barrier(step, waiter, barrier_key(exchange), look);
}

// ---- join, watch_group ------------------------------------------------------------------------

std::vector<Blob> WaitRules::tokens(const Join& join) const { return {group_token(join.group)}; }
std::vector<Blob> WaitRules::tokens(const WatchGroup& watch) const {
  return {group_token(watch.group)};
}

OptionalReply WaitRules::ready(const Join& join, WaitContext& look) const {
  const Group& group = *tables_.groups.find(join.group);
  look.observe(group.changed());
  if (const auto place = group.place(look.session, join.round)) return reply(*place);
  if (group.waits(look.session)) return std::nullopt;
  if (group.facts().phase == GroupPhase::finished) return Reply(group.finished());
  return refuse(Code::aborted, "join: this member was removed from group \"" +
                                   printable(join.group, limits::kNameBytes) + "\"; join again");
}

OptionalReply WaitRules::ready(const WatchGroup& watch, WaitContext& look) const {
  const Group& group = *tables_.groups.find(watch.group);
  if (group.facts().status <= watch.seen) return std::nullopt;
  look.observe(group.changed());
  return reply(group.status(look.now));
}

Reply WaitRules::overdue(const Waiter& waiter, const Join& join, WaitContext& look) const {
  const Group& group = *tables_.groups.find(join.group);
  look.observe(group.changed());
  Failure overdue =
      join_overdue(join, waiter.timeout,
                   look.shortages == nullptr ? group.shortage() : look.shortages->at(join.group));
  add_diagnosis(overdue, look);
  return overdue;
}

Reply WaitRules::overdue(const Waiter&, const WatchGroup& watch, WaitContext& look) const {
  const Group& group = *tables_.groups.find(watch.group);
  look.observe(group.changed());
  return ReplyBody(group.status(look.now));
}

Reply WaitRules::time_out(Step& step, const Waiter& waiter, const Join& join, WaitContext& look) {
  if (OptionalReply known = ready(join, look)) return std::move(*known);
  Reply reason = overdue(waiter, join, look);
  ChangeContext at = step.change_context();
  tables_.groups.withdraw(waiter.session, join.group, "its join timed out", at);
  if (!step.out.rows.empty()) look.observe(step.next);
  return reason;
}

/// Must be called before a join of `waiters` is withdrawn, because the replies to joins that time
/// out together must count the members of all these joins.
WaitRules::Shortages WaitRules::shortages(const std::vector<Waiter>& waiters) const {
  Shortages all;
  for (const Waiter& waiter : waiters) {
    const auto* join = std::get_if<Join>(&waiter.request);
    if (join == nullptr || all.contains(join->group)) continue;
    all.emplace(join->group, tables_.groups.find(join->group)->shortage());
  }
  return all;
}

}  // namespace c10dd::core
