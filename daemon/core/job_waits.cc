// SPDX-License-Identifier: Apache-2.0
// The blocking half of Job: who is blocked, how each is answered when it is released, when its
// time is over, and when its session goes.
#include "daemon/core/job_step.h"
#include "daemon/core/missing.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kNameShown = 64;  // bytes of a queue's name in an error

/// The keys that a waiting request names; none for barriers and exchanges.
std::vector<Bytes> keys_of(const Request& request) {
  if (const auto* get = std::get_if<Get>(&request)) return {get->key};
  if (const auto* wait = std::get_if<Wait>(&request)) return wait->keys;
  if (const auto* get = std::get_if<MultiGet>(&request)) return get->keys;
  return {};
}

/// What a blocked request counts for: one for each thing that is missing, which stands in an index;
/// of the keys that it only names, and the parts that it holds, four short ones, or 256 bytes, take
/// as much memory.
std::size_t weight_of(const Request& request, std::size_t missing) {
  std::size_t named = 0;
  for (const Bytes& key : keys_of(request)) named += 1 + key.size() / 64;
  if (const auto* exchange = std::get_if<Exchange>(&request)) {
    for (const Bytes& part : exchange->parts) named += 1 + part.size() / 64;
  }
  return std::max(missing, named / 4);
}

Failure join_overdue(const Join& join, Duration timeout, Failure shortage) {
  shortage.detail = "rendezvous \"" + printable(join.group, limits::kNameBytes) +
                    "\" timed out after " + human(timeout) + ": " + shortage.detail;
  return shortage;
}

}  // namespace

Job::Maybe Job::on(Step& step, const Get& get) {
  const KeySpace::Entry* entry = keys_.find(get.key);
  if (entry == nullptr) return wait_for_keys(step, get, {get.key}, get.timeout);
  step.observe(entry->revision);
  return answer(Value{entry->value, entry->revision});
}
Job::Maybe Job::on(Step& step, const Wait& wait) {
  return wait_for_keys(step, wait, wait.keys, wait.timeout);
}
Job::Maybe Job::on(Step& step, const MultiGet& get) {
  return wait_for_keys(step, get, get.keys, get.timeout);
}

/// Whether what the request wants of a key is there; to wait, an item in a queue is as good.
bool Job::present(const Request& request, const Bytes& key) const {
  if (keys_.find(key) != nullptr) return true;
  return std::holds_alternative<Wait>(request) && queues_.length(key) > 0;
}

Job::Maybe Job::wait_for_keys(Step& step, const Request& request, const std::vector<Bytes>& keys,
                              Duration timeout) {
  if (keys.size() > limits::kKeysPerRequest) {
    return Answer(failure(Code::too_large, std::string(info_of(request).name) + ": " +
                                               std::to_string(keys.size()) + " keys, limit " +
                                               std::to_string(limits::kKeysPerRequest)));
  }
  std::vector<Bytes> tokens;
  for (const Bytes& key : keys) {
    if (Result<void> good = check_key(key); !good) return good.error();
    if (!present(request, key)) tokens.push_back(key_token(key));
  }
  if (tokens.empty()) return answer_now(request, step.observed);
  return block(step, request, std::move(tokens), timeout);
}

/// Answers at once when there are changes, else blocks on the next one.
Job::Maybe Job::on(Step& step, const Watch& asked) {
  if (!asked.prefix || asked.key.size() > limits::kKeyBytes) {
    if (Result<void> good = check_key(asked.key); !good) return good.error();
  }
  Watch watch = asked;
  if (watch.from == 0) watch.from = revision_ + 1;
  Answer past = ReplyBody(Changes{});
  if (watch.from <= revision_) past = changes_for(watch, step.observed);
  if (!past) return past;
  history_.watched(watch, revision_, step.now, step.out.rows);
  if (!std::get<Changes>(*past).changes.empty()) return past;
  if (watch.from <= revision_) watch.skip = 0;
  watch.from = std::max(watch.from, revision_ + 1);
  return block(step, watch, {watch_token(watch)}, watch.timeout);
}

/// Blocks the request, or answers at once when its time-out is not positive.
Job::Maybe Job::block(Step& step, const Request& request, std::vector<Bytes> tokens,
                      Duration timeout) {
  Pending::Waiter waiter;
  waiter.session = step.from.session;
  waiter.sequence = step.call.sequence;
  waiter.request = request;
  waiter.tokens = std::move(tokens);
  waiter.started = step.now;
  waiter.timeout = std::clamp<Duration>(timeout, Duration::zero(), limits::kTimeoutMax);
  waiter.deadline = step.now + waiter.timeout;
  if (step.again != nullptr) {
    waiter.started = step.again->started;
    waiter.timeout = step.again->timeout;
    waiter.deadline = step.again->deadline;
  }
  waiter.fingerprint = step.call.fingerprint;
  if (waiter.timeout == Duration::zero()) return overdue(waiter, step.observed, step.now);
  if (pending_.size() >= quotas_.waits) {
    return refuse(Code::quota_exceeded,
                  "too many blocked requests in the job: " + std::to_string(pending_.size() + 1) +
                      " with this one, limit " + std::to_string(quotas_.waits));
  }
  waiter.weight = weight_of(request, waiter.tokens.size());
  const std::size_t keys = pending_.weight() + waiter.weight;
  if (keys > quotas_.waited_keys) {
    return refuse(Code::quota_exceeded,
                  "blocked requests wait for too many keys: " + std::to_string(keys) +
                      " with this one, limit " + std::to_string(quotas_.waited_keys));
  }
  pending_.add(std::move(waiter));
  return std::nullopt;
}

/// The answer of a waiting request whose conditions hold.
Answer Job::answer_now(const Request& request, Revision& observed) const {
  const auto look = [&](const Bytes& key) {
    const KeySpace::Entry* entry = keys_.find(key);
    C10DD_ASSERT(entry != nullptr);
    observed = std::max(observed, entry->revision);
    return entry->value;
  };
  if (const auto* get = std::get_if<Get>(&request)) {
    return ReplyBody(Value{look(get->key), keys_.find(get->key)->revision});
  }
  if (const auto* wait = std::get_if<Wait>(&request)) {
    for (const Bytes& key : wait->keys) {
      const bool queue = keys_.find(key) == nullptr;
      observed = std::max(observed, queue ? queues_.observed() : keys_.observed(key));
    }
    return ReplyBody(Done{});
  }
  if (const auto* get = std::get_if<MultiGet>(&request)) {
    Values values;
    std::size_t bytes = 0;
    for (const Bytes& key : get->keys) {
      values.values.push_back(look(key));
      values.revisions.push_back(keys_.find(key)->revision);
      bytes += values.values.back().size() + sizeof(std::uint32_t) + sizeof(Revision);
      if (bytes > limits::kFrameBytes - 2 * sizeof(std::uint32_t)) {
        return failure(Code::too_large, "multi_get: the values have more than " +
                                            std::to_string(limits::kFrameBytes) +
                                            " bytes; ask for fewer keys at a time");
      }
    }
    return ReplyBody(std::move(values));
  }
  if (const auto* barrier = std::get_if<Barrier>(&request)) {
    const Meeting& meeting = *meetings_.find(meeting_key(*barrier));
    observed = std::max(observed, meeting.revision);
    if (meeting.broken) return *meeting.broken;
    return ReplyBody(Done{});
  }
  const auto& exchange = std::get<Exchange>(request);
  const Meeting& meeting = *meetings_.find(meeting_key(exchange));
  observed = std::max(observed, meeting.revision);
  if (meeting.broken) return *meeting.broken;
  const auto [at, length] = meeting.slices[exchange.rank];
  if (exchange.offset > length) {
    return failure(Code::invalid_argument, describe(meeting_key(exchange)) + ": offset " +
                                               std::to_string(exchange.offset) +
                                               " is past the end, " + std::to_string(length));
  }
  const std::size_t chunk =
      std::min<std::size_t>(length - exchange.offset, limits::kExchangeChunkBytes);
  return ReplyBody(
      Exchanged{exchange.offset, length, {meeting.result, at + exchange.offset, chunk}});
}

Answer Job::changes_for(const Watch& watch, Revision& observed) const {
  observed = std::max(observed, revision_);
  const Revision start = history_.start(watch);
  if (watch.from < start) {
    return failure(Code::compacted, "changes from revision " + std::to_string(watch.from) +
                                        " are asked for, kept are those from " +
                                        std::to_string(start) +
                                        "; list the keys again, then watch from the list's "
                                        "revision + 1");
  }
  Changes changes;
  history_.read(watch, revision_, changes);
  return ReplyBody(std::move(changes));
}

/// Of each group that one of these waits to join, as it is before any of them is taken out: those
/// who time out together were all there.
Job::Shortages Job::shortages_of(const std::vector<Pending::Waiter>& overdue) const {
  Shortages all;
  for (const Pending::Waiter& waiter : overdue) {
    const auto* join = std::get_if<Join>(&waiter.request);
    if (join == nullptr || all.contains(join->group)) continue;
    all.emplace(join->group, groups_.find(join->group)->shortage());
  }
  return all;
}

Everybody Job::everybody(TimePoint now) const { return {sessions_, meetings_, groups_, now}; }

/// The time of a blocked request is over. What it takes with it: a meeting, which is broken for all
/// who came and all who will, or its wish to join.
void Job::give_up(Step& step, const Pending::Waiter& waiter, const Shortages& shortages) {
  Revision observed = 0;
  const auto* const join = std::get_if<Join>(&waiter.request);
  if (join != nullptr) {
    if (auto known = look_again(waiter, observed, step.now)) {
      return finish(step.out, waiter, std::move(*known), observed, step.now);
    }
  }
  Answer reason = join != nullptr ? join_overdue(*join, waiter.timeout, shortages.at(join->group))
                                  : overdue(waiter, observed, step.now);
  const auto breaks = [&](const MeetingKey& key) {
    if (waits_for_absent(waiter) || meetings_.find(key)->complete) return;
    Failure recorded = reason.error();
    recorded.recorded = true;
    step.out.events.push_back(MeetingTimedOut{recorded.detail});
    meetings_.fail(key, recorded, step.next, step.out.rows);
    reason = std::move(recorded);
    step.fired.push_back(token_of(key));
    observed = step.next;
  };
  if (const auto* b = std::get_if<Barrier>(&waiter.request)) breaks(meeting_key(*b));
  if (const auto* e = std::get_if<Exchange>(&waiter.request)) breaks(meeting_key(*e));
  if (join != nullptr) {
    observed = groups_.find(join->group)->changed();
    Moment at = step.moment();
    groups_.withdraw(waiter.session, join->group, "its join timed out", at);
    settle_groups(step);
    if (!step.out.rows.empty()) observed = step.next;
  }
  finish(step.out, waiter, std::move(reason), observed, step.now);
}

/// The answer of a blocked request at the end of its time: who or what is missing.
Answer Job::overdue(const Pending::Waiter& waiter, Revision& observed, TimePoint now) const {
  if (waits_for_absent(waiter)) return absence_overdue(waiter, observed, now);
  const auto meeting_overdue = [&](const MeetingKey& key) {
    const Meeting& meeting = *meetings_.find(key);
    observed = std::max(observed, meeting.revision);
    if (meeting.broken) return *meeting.broken;
    return missing_ranks(key, meeting, waiter.timeout, everybody(now));
  };
  if (const auto* b = std::get_if<Barrier>(&waiter.request))
    return meeting_overdue(meeting_key(*b));
  if (const auto* e = std::get_if<Exchange>(&waiter.request)) {
    return meeting_overdue(meeting_key(*e));
  }
  if (const auto* join = std::get_if<Join>(&waiter.request)) {
    const Group& group = *groups_.find(join->group);
    observed = std::max(observed, group.changed());
    return join_overdue(*join, waiter.timeout, group.shortage());
  }
  if (const auto* follow = std::get_if<FollowGroup>(&waiter.request)) {
    const Group& group = *groups_.find(follow->group);
    observed = std::max(observed, group.changed());
    return ReplyBody(group.news(now));
  }
  if (const auto* watch = std::get_if<Watch>(&waiter.request)) {
    observed = std::max(observed, revision_);
    return ReplyBody(Changes{{}, std::max(watch->from, revision_ + 1), 0});
  }
  if (const auto* pop = std::get_if<QueuePop>(&waiter.request)) {
    observed = std::max(observed, queues_.observed());
    const bool looked = waiter.timeout == Duration::zero();
    return failure(looked ? Code::not_found : Code::timed_out,
                   "queue \"" + printable(pop->key, kNameShown) + "\" has no item" +
                       (looked ? "" : " after " + human(waiter.timeout)));
  }
  const std::vector<Bytes> keys = keys_of(waiter.request);
  std::vector<Bytes> missing;
  for (const Bytes& key : keys) {
    observed = std::max({observed, keys_.observed(key), queues_.observed()});
    if (!present(waiter.request, key)) missing.push_back(key);
  }
  const bool reads = !std::holds_alternative<Wait>(waiter.request);
  Failure result = reads && waiter.timeout == Duration::zero()
                       ? keys_not_found(missing, keys.size())
                       : missing_keys(missing, keys.size(), waiter.timeout);
  const auto queue = std::find_if(missing.begin(), missing.end(),
                                  [this](const Bytes& key) { return queues_.length(key) > 0; });
  if (reads && queue != missing.end()) {
    result.detail +=
        "; \"" + printable(*queue, kNameShown) + "\" is a queue with items, which queue_pop takes";
  }
  return result;
}

void Job::finish(Effects& out, const Pending::Waiter& waiter, Answer answer, Revision observed,
                 TimePoint now) const {
  const OpInfo& op = info_of(waiter.request);
  const Code outcome = answer ? Code::ok : answer.error().code;
  out.events.push_back(WaitEnded{op.code, outcome, now - waiter.started});
  out.replies.push_back(
      {waiter.session, waiter.sequence, op.code, Evidence::state, std::move(answer), observed, 0});
}

/// Answers the waiters whose last token came true in this step.
void Job::release(Step& step) {
  serve_pops(step);
  for (const Bytes& token : step.fired) {
    for (Pending::Waiter& waiter : pending_.fire(token)) release(step, std::move(waiter));
  }
}

void Job::release(Step& step, Pending::Waiter waiter) {
  if (std::holds_alternative<Join>(waiter.request) ||
      std::holds_alternative<FollowGroup>(waiter.request)) {
    Revision seen = 0;
    auto now_known = look_again(waiter, seen, step.now);
    if (!now_known) return pending_.add(std::move(waiter));
    return finish(step.out, waiter, std::move(*now_known), seen, step.now);
  }
  if (auto* watch = std::get_if<Watch>(&waiter.request)) {
    // No earlier change concerned it, or it would have been released then.
    watch->from = std::max(watch->from, step.next);
    Revision observed = 0;
    Answer changes = changes_for(*watch, observed);
    if (changes && std::get<Changes>(*changes).changes.empty()) {
      return pending_.add(std::move(waiter));  // it waits for a later revision
    }
    return finish(step.out, waiter, std::move(changes), observed, step.now);
  }
  // A key may have gone again while others were missing: then it goes on waiting for that.
  waiter.tokens.clear();
  for (const Bytes& key : keys_of(waiter.request)) {
    if (!present(waiter.request, key)) waiter.tokens.push_back(key_token(key));
  }
  if (!waiter.tokens.empty()) return pending_.add(std::move(waiter));
  Revision observed = 0;
  Answer answer = answer_now(waiter.request, observed);
  finish(step.out, waiter, std::move(answer), observed, step.now);
}

}  // namespace c10dd::core
