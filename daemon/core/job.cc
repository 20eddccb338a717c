// SPDX-License-Identifier: Apache-2.0
// The switchboard: a request is admitted, recognised if it was here before, dispatched to one
// on(...), and its reply is kept with its effect. Sessions and the job's own life are here too;
// keys, transactions, queues and waiting are in job_*.cc.
// To add an operation: its struct in protocol/ops.h, one on(...), one script in tests.
#include "daemon/core/job.h"

#include <algorithm>

#include "daemon/core/job_step.h"
#include "daemon/core/planted.h"
#include "protocol/fields.h"
#include "protocol/native_wire.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

constexpr const char* kEndings[] = {"its session said goodbye", "its session has expired",
                                    "another launch has taken its place"};
constexpr std::size_t kGarbageRows = 1'024;  // then they leave without waiting for a write

/// Those that a person should hear of: a rank that is another's, a join that is in vain.
void tell_refused_claims(Effects& out) {
  for (const Reply& reply : out.replies) {
    if (reply.answer) continue;
    const Code code = reply.answer.error().code;
    const bool in_vain =
        reply.op == Join::op.code && (code == Code::size_mismatch || code == Code::quota_exceeded ||
                                      code == Code::invalid_argument);
    if (code != Code::rank_taken && !in_vain) continue;
    out.events.push_back(ClaimRefused{reply.op, code, reply.answer.error().detail});
  }
}

}  // namespace

Job::Job(JobNumber number, Stamp start, const Quotas& quotas)
    : number_(number),
      start_(start),
      revision_(start.revision),
      quotas_(quotas),
      keys_(quotas),
      history_(start.revision, quotas),
      queues_(quotas),
      sessions_(quotas) {}

Effects Job::apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
                   const Failure* no_room) {
  const OpInfo& op = info_of(request);
  Effects out;
  Step step{from, call, now, revision_ + 1, out, sessions_.find(from.session)};
  Maybe done;
  const bool opens = op.code == Hello::op.code;
  if (step.session != nullptr && (step.session->connected || opens)) {
    step.session->last_seen = now;
    acknowledge(step, from.session, *step.session, call.acked_below);
    if (!opens) done = admit(step, op);
  } else if (!opens) {
    done = refuse(Code::session_unknown, "no session: send hello on this channel first");
  }
  const bool first = !done || planted(Planted::room_before_replay);
  const bool refused = first && no_room != nullptr && !arrived_before(from.session, request);
  if (refused) done = *no_room;
  if (!done) done = dispatch(step, request);
  settle_presence(step);
  const bool changes = op.kind == OpKind::write && !out.rows.empty();
  const Evidence evidence = refused || op.kind == OpKind::event ? Evidence::none
                            : changes                           ? Evidence::own_commit
                                                                : Evidence::state;
  settle(step, op, done);
  if (done) {
    // Other answers follow a hello: the shell looks at the first one. They come before a goodbye,
    // which closes the channel.
    out.replies.insert(opens ? out.replies.begin() : out.replies.end(),
                       {from.session, call.sequence, op.code, evidence, std::move(*done),
                        step.observed, call.arrived_ns});
  }
  release(step);
  tell_refused_claims(out);
  out.revision = revision_;
  return out;
}

/// Whether the request comes in its turn, and its first answer if it was here before.
Job::Maybe Job::admit(Step& step, const OpInfo& op) {
  if (step.call.sequence >= step.session->acked_below + limits::kSessionWindow) {
    return refuse(Code::window_exceeded, "too many unacknowledged requests: sequence " +
                                             std::to_string(step.call.sequence) +
                                             ", acknowledged below " +
                                             std::to_string(step.session->acked_below) +
                                             ", limit " + std::to_string(limits::kSessionWindow));
  }
  if (op.dedup == Dedup::reply || op.dedup == Dedup::claim) return replay(step, op);
  return std::nullopt;
}

/// Closes the books of a step: its revision counts, its reply is kept, garbage rides along.
void Job::settle(Step& step, const OpInfo& op, const Maybe& done) {
  const bool changed = !step.out.rows.empty();
  if (!changed && step.garbage_waits && sessions_.garbage() < kGarbageRows) return;
  if (changed && op.dedup == Dedup::reply) {
    Bytes body;
    std::visit([&](const auto& b) { body = wire::encode(b); }, **done);
    sessions_.keep(step.from.session, *step.session, step.call.sequence,
                   {op.code, step.call.fingerprint, std::move(body), step.next}, step.out.rows);
  }
  for (Row& row : sessions_.take_garbage()) step.out.rows.push_back(std::move(row));
  if (!step.out.rows.empty()) revision_ = step.next;
}

Job::Maybe Job::dispatch(Step& step, const Request& request) {
  return std::visit([&](const auto& r) { return on(step, r); }, request);
}

/// The kept reply or claim of a repeated request, or nothing if this is the first time.
Job::Maybe Job::replay(Step& step, const OpInfo& op) {
  const Session& session = *step.session;
  const std::uint64_t sequence = step.call.sequence;
  if (sequence < session.acked_below) {
    return refuse(Code::outcome_unknown, "sequence " + std::to_string(sequence) + " is below " +
                                             std::to_string(session.acked_below) +
                                             ", which this session has acknowledged");
  }
  if (planted(Planted::reply_forgotten)) return std::nullopt;
  const auto reply = session.replies.find(sequence);
  const auto claim = session.claims.find(sequence);
  const bool replied = reply != session.replies.end();
  if (!replied && claim == session.claims.end()) return std::nullopt;
  const std::uint8_t code = replied ? reply->second.op : QueuePop::op.code;
  const std::uint64_t print = replied ? reply->second.fingerprint : claim->second.fingerprint;
  if (code != op.code || print != step.call.fingerprint) {
    return refuse(Code::sequence_reused, "sequence " + std::to_string(sequence) +
                                             " was already used by this session for another "
                                             "request");
  }
  step.out.events.push_back(ReplyReplayed{op.code});
  if (!replied) {
    step.observe(claim->second.revision);
    return answer(Popped{queues_.value(claim->second.queue, claim->second.item())});
  }
  Answer first = ReplyBody(Done{});
  const Result<void> decoded =
      native::decode_reply(code, native::ReplyHeader::Kind::reply, reply->second.body, first);
  C10DD_ASSERT(decoded.has_value());
  step.observe(reply->second.revision);
  return first;
}

/// Whether an exchange only asks for what it has done before, or fails at once: it grows nothing.
bool Job::arrived_before(const SessionId& session, const Request& request) const {
  const auto* exchange = std::get_if<Exchange>(&request);
  const Meeting* meeting = exchange ? meetings_.find(meeting_key(*exchange)) : nullptr;
  if (meeting == nullptr) return false;
  const SessionId* holder = meeting->holder(exchange->rank);
  return meeting->broken || (holder != nullptr && *holder == session);
}

// ---- sessions ----------------------------------------------------------------------------------

/// Items whose pops were acknowledged go, and soon: a crash before that would bring them back.
void Job::acknowledge(Step& step, const SessionId& id, Session& session, std::uint64_t below) {
  for (const Claim& claim : sessions_.acknowledge(id, session, below)) {
    sessions_.discard(queues_.erase(claim.queue, claim.item()));
    step.garbage_waits = false;
  }
}

Job::Maybe Job::on(Step& step, const Hello& hello) {
  if (hello.host.size() > limits::kNameBytes || hello.labels.size() > limits::kLabels) {
    return refuse(Code::too_large, "hello: host name of " + std::to_string(hello.host.size()) +
                                       " bytes, limit " + std::to_string(limits::kNameBytes) +
                                       "; " + std::to_string(hello.labels.size()) +
                                       " labels, limit " + std::to_string(limits::kLabels));
  }
  if (hello.session == SessionId{}) {
    return refuse(Code::invalid_argument, "hello: the session is 0; choose 128 random bits");
  }
  const Stamp& seen = hello.seen;
  // What a client has seen of an earlier epoch was durable when this one began; since then others
  // may have written past what was lost.
  const Revision kept = seen.epoch < start_.epoch ? start_.revision : revision_;
  const bool newer = seen.epoch > start_.epoch || seen.revision > kept;
  if (seen.incarnation != 0 && (seen.incarnation != start_.incarnation || newer)) {
    step.observe(revision_);
    return refuse(Code::state_rolled_back,
                  std::string(seen.incarnation != start_.incarnation
                                  ? "the daemon's state is another one than this client has seen"
                                  : "the daemon holds less than this client has seen") +
                      ": client incarnation " + std::to_string(seen.incarnation) + " revision " +
                      std::to_string(seen.revision) + " epoch " + std::to_string(seen.epoch) +
                      ", daemon incarnation " + std::to_string(start_.incarnation) + " revision " +
                      std::to_string(kept) + " epoch " + std::to_string(start_.epoch) +
                      "; restart the job under a new run");
  }
  if (hello.number != 0 && hello.number != number_) {
    step.observe(revision_);
    return refuse(
        Code::state_rolled_back,
        "this is another job of the same name than the client has seen: that one, number " +
            std::to_string(hello.number) +
            ", was removed, or forgotten when nobody used it; restart the job");
  }
  if (hello.rank >= static_cast<std::int64_t>(limits::kWorldSize)) {
    return refuse(Code::invalid_argument,
                  "hello: rank " + std::to_string(hello.rank) + ", ranks are below " +
                      std::to_string(limits::kWorldSize) + "; -1 is unknown");
  }
  if (Result<void> good = sessions_.check_open(hello); !good) {
    step.observe(revision_);
    return good.error();
  }
  if (const auto surplus = sessions_.surplus(hello)) end_session(step, *surplus, Ending::expired);
  Welcome welcome;
  welcome.expiry = sessions_.open(hello, step.from.connection, revision_, step.now, step.out.rows);
  welcome.opened = sessions_.find(hello.session)->since;
  groups_.connected(hello.session, step.now);
  settle_groups(step);
  note_presence(hello.session);
  for (const MeetingKey& key : meetings_.returned(hello.session, step.next, step.out.rows)) {
    released(step, key);
  }
  step.presence.push_back(hello.session);
  if (!step.out.rows.empty()) step.observe(step.next);
  welcome.version = kProtocolVersion;
  welcome.job = number_;
  welcome.heartbeat_interval = limits::kHeartbeatInterval;
  welcome.session_ttl = limits::kSessionTtl;
  welcome.window = limits::kSessionWindow;
  return answer(std::move(welcome));
}

Job::Maybe Job::on(Step& step, const Ping&) {
  sessions_.heard(step.from.connection, step.now);
  return answer(Done{});
}

Job::Maybe Job::on(Step& step, const Goodbye&) {
  end_session(step, step.from.session, Ending::goodbye);
  step.session = nullptr;
  if (!step.out.rows.empty()) step.observe(step.next);
  return answer(Done{});
}

Job::Maybe Job::on(Step& step, const Cancel& cancel) {
  const auto blocked = pending_.drop(step.from.session, cancel.sequence);
  if (const auto* join = blocked ? std::get_if<Join>(&blocked->request) : nullptr) {
    Moment at = step.moment();
    groups_.withdraw(step.from.session, join->group, "it took its join back", at);
    settle_groups(step);
  }
  if (planted(Planted::cancel_keeps_claim)) return answer(Done{});
  const auto claim =
      sessions_.withdraw(step.from.session, *step.session, cancel.sequence, step.out.rows);
  // A repeated cancel finds no claim: it, too, must not be acknowledged before the item is back.
  step.observe(claim || !step.out.rows.empty() ? step.next : queues_.observed());
  if (claim) give_back(step, *claim);
  return answer(Done{});
}

/// What a session leaves behind when it ends: nothing of its own, and nothing half done.
void Job::end_session(Step& step, const SessionId& id, Ending ending) {
  for (const Pending::Waiter& waiter : pending_.drop(id)) {
    const bool goodbye = ending == Ending::goodbye;
    const char* why = goodbye ? "the session said goodbye" : "the session expired";
    finish(step.out, waiter, failure(Code::aborted, why), 0, step.now);
  }
  note_presence(id);
  meetings_.leave(id, step.next, step.out.rows);
  Session& session = *sessions_.find(id);
  const std::vector<Bytes> keys = lifetimes_.owned_by(id);
  const bool kept = !keys.empty() || !session.claims.empty() || !session.replies.empty();
  while (!session.claims.empty()) {
    const std::uint64_t sequence = session.claims.begin()->first;
    give_back(step, *sessions_.withdraw(id, session, sequence, step.out.rows));
  }
  for (const Bytes& key : keys) remove(step, key);
  Moment at = step.moment();
  groups_.ended(id, kEndings[static_cast<std::size_t>(ending)], at);
  settle_groups(step);
  ledger_.forget(id);
  sessions_.close(id, ending, ending == Ending::expired && kept, step.next, step.out.rows);
  step.presence.push_back(id);
  // Whoever comes next is another launch, which fails at nothing that this one has failed at.
  if (sessions_.size() == 0) meetings_.forget_broken(step.out.rows);
}

Job::Maybe Job::on(Step& step, const Report& report) {
  Result<std::vector<CollectiveTotals>> differences = ledger_.add(step.from.session, report);
  if (!differences) return differences.error();
  if (!differences->empty()) {
    step.out.events.push_back(CollectivesMeasured{std::move(*differences)});
  }
  return answer(Done{});
}

Job::Maybe Job::on(Step& step, const PublishCall& publish) {
  const Result<void> good = call_board_.publish(publish, step.now);
  if (!good) return good.error();
  return answer(Done{});
}

Job::Maybe Job::on(Step&, const ReadCalls& read) {
  Result<PublishedCalls> calls = call_board_.read(read);
  if (!calls) return calls.error();
  return answer(std::move(*calls));
}

Effects Job::disconnect(const SessionId& session, TimePoint now) {
  pending_.drop(session);
  sessions_.disconnect(session, now);
  note_presence(session);
  meetings_.went(session);
  groups_.disconnected(session, now);
  Effects out;
  out.revision = revision_;
  return out;
}

// ---- life --------------------------------------------------------------------------------------

Effects Job::tick(TimePoint now) {
  const Origin nobody;
  const CallId none;
  Effects out;
  Step step{nobody, none, now, revision_ + 1, out, nullptr};
  for (const SessionId& id : sessions_.due(now, limits::kExpiriesPerTick)) {
    end_session(step, id, Ending::expired);
  }
  for (const SessionId& id : absences_.due(now)) step.presence.push_back(id);
  settle_presence(step);
  for (const Bytes& key : lifetimes_.due(now, limits::kExpiriesPerTick)) remove(step, key);
  forget_watches(step);
  call_board_.tick(now);
  Moment at = step.moment();
  groups_.tick(sessions_, at);
  settle_groups(step);
  settle(step, Ping::op, std::nullopt);
  // News of groups last, when all of them are known: for who was told there are none in this tick.
  const auto news = std::stable_partition(step.fired.begin(), step.fired.end(),
                                          [](const Bytes& token) { return !is_group(token); });
  std::vector<Bytes> later(news, step.fired.end());
  step.fired.erase(news, step.fired.end());
  release(step);
  step.fired = std::move(later);
  step.prefixes.clear();
  step.queues.clear();
  give_up_overdue(step);
  settle(step, Ping::op, std::nullopt);
  release(step);
  out.revision = revision_;
  return out;
}

/// After the waiters that were released: what came true in the tick is no time-out.
void Job::give_up_overdue(Step& step) {
  std::vector<Pending::Waiter> overdue = pending_.expire(step.now);
  std::stable_partition(overdue.begin(), overdue.end(), [](const Pending::Waiter& waiter) {
    return !std::holds_alternative<FollowGroup>(waiter.request);
  });
  const Shortages shortages = shortages_of(overdue);
  for (const Pending::Waiter& waiter : overdue) give_up(step, waiter, shortages);
}

/// What nobody waits for any more and nobody has asked for in a long time.
void Job::forget_watches(Step& step) {
  for (const Watch& watch : history_.due(step.now, limits::kExpiriesPerTick)) {
    if (pending_.waits_for(watch_token(watch))) {
      history_.watched(watch, revision_, step.now, step.out.rows);
    } else {
      history_.forget(watch, step.out.rows);
    }
  }
}

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> next = pending_.next_deadline();
  for (const auto& other :
       {lifetimes_.next_deadline(), sessions_.next_deadline(), history_.next_deadline(),
        groups_.next_deadline(), absences_.next_deadline(), call_board_.next_deadline()}) {
    if (other) next = next ? std::min(*next, *other) : *other;
  }
  return next;
}

Result<void> Job::restore(const Row& row) {
  if (Sessions::owns(row)) return sessions_.restore(row);
  if (Meetings::owns(row)) return meetings_.restore(row);
  if (Groups::owns(row)) return groups_.restore(row);
  if (Queues::owns(row)) return queues_.restore(row);
  if (History::owns(row)) return history_.restore(row);
  Result<KeyRow> value = wire::decode<KeyRow>(row.value);
  const Bytes key = row.key.substr(std::min<std::size_t>(row.key.size(), 1));
  if (!row.key.starts_with('k') || !check_key(key) || !value || value->revision > revision_ ||
      value->ttl < Duration::zero() || value->ttl > limits::kKeyTtlMax) {
    return failure(Code::malformed,
                   "damaged row of kind '" + printable(row.key.substr(0, 1), 1) + "'");
  }
  lifetimes_.put(key, {value->ttl, value->owner}, TimePoint{});
  keys_.put(key, std::move(value->value), value->revision);
  return {};
}

Result<void> Job::resume(TimePoint now) {
  if (Result<void> good = sessions_.drop_ended(); !good) return good;
  Revision newest = queues_.observed();
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& [sequence, reply] : session.replies) {
      Answer answer = ReplyBody(Done{});
      if (!native::decode_reply(reply.op, native::ReplyHeader::Kind::reply, reply.body, answer)) {
        return failure(Code::malformed, "damaged reply row");
      }
      newest = std::max(newest, reply.revision);
    }
    for (const auto& [sequence, claim] : session.claims) {
      if (!queues_.is_free(claim.queue, claim.item())) {
        return failure(Code::malformed, "claim of an item that is not there, or a second claim");
      }
      queues_.claim(claim.queue, claim.item(), claim.revision);
      newest = std::max(newest, claim.revision);
    }
  }
  if (Result<void> met = meetings_.resume(now); !met) return met;
  for (const SessionId& owner : lifetimes_.owners()) sessions_.expect(owner);
  for (const SessionId& guest : meetings_.participation().sessions()) {
    if (!planted(Planted::guests_forgotten)) sessions_.expect(guest);
  }
  if (Result<void> grouped = groups_.resume(revision_, now); !grouped) return grouped;
  for (const SessionId& member : groups_.members()) sessions_.expect(member);
  sessions_.resume(now);
  lifetimes_.resume(now);
  history_.resume(now);
  newest = std::max(newest, meetings_.newest());
  if (newest <= revision_) return {};
  return failure(Code::malformed, "a row of revision " + std::to_string(newest) +
                                      " in a job of revision " + std::to_string(revision_));
}

bool Job::empty() const {
  return sessions_.size() == 0 && keys_.size() == 0 && queues_.items() == 0 && groups_.empty();
}

JobStats Job::stats() const {
  JobStats stats;
  stats.keys = keys_.size();
  stats.bytes = keys_.bytes();
  stats.queue_items = queues_.items();
  stats.queue_bytes = queues_.bytes();
  stats.history_bytes = history_.bytes();
  stats.waiters = pending_.size();
  stats.meetings_pending = meetings_.pending();
  stats.sessions = sessions_.connected();
  stats.sessions_known = sessions_.size();
  stats.members = groups_.attendance().here;
  stats.members_missing = groups_.attendance().missing;
  return stats;
}

}  // namespace c10dd::core
