// SPDX-License-Identifier: Apache-2.0
// Handles the requests of a job. A request that was applied before gets its stored reply. A new
// request is dispatched to the handler of its operation. Then groups and barriers are updated, the
// reply is recorded, and the waiters that the request has unblocked are answered.
#include "daemon/core/job/job.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/native_wire.h"

namespace c10dd::core {
namespace {

// A job with this many garbage rows erases them in the next step, whatever the step writes.
constexpr std::size_t kGarbageRows = 1'024;

/// Adds an event for each request that was refused because its rank belongs to another session, and
/// for each join that cannot succeed. An operator should see these refusals.
void report_refused_ranks(Effects& out) {
  for (const OutgoingReply& reply : out.replies) {
    if (reply.result) continue;
    const Code code = reply.result.error().code;
    const bool refused_join =
        reply.op == Join::op.code && (code == Code::size_mismatch || code == Code::quota_exceeded ||
                                      code == Code::invalid_argument);
    if (code != Code::rank_taken && !refused_join) continue;
    out.events.push_back(RankRefused{reply.op, code, reply.result.error().detail});
  }
}

/// Passes an operation to the one handler that has an on() for the operation.
template <class Op, class First, class... Rest>
OptionalReply handle(Step& step, const Op& op, First& first, Rest&... rest) {
  if constexpr (requires { first.on(step, op); }) {
    return first.on(step, op);
  } else {
    return handle(step, op, rest...);
  }
}

}  // namespace

Job::Job(JobNumber number, Stamp start, const Quotas& quotas, std::vector<EpochStart> starts,
         AccountRef account)
    : revision_(start.revision),
      restored_(std::move(account)),
      keys_(quotas),
      history_(start.revision, quotas),
      queues_(quotas),
      sessions_(quotas),
      barriers_(quotas.outcome_bytes),
      groups_(quotas.takeover_grace),
      waits_(quotas, {keys_, queues_, history_, sessions_, barriers_, groups_}),
      session_ops_(number, start, std::move(starts),
                   {.sessions = sessions_,
                    .barriers = barriers_,
                    .groups = groups_,
                    .lifetimes = lifetimes_,
                    .queues = queues_,
                    .launch = launch_,
                    .ledger = ledger_,
                    .activity = activity_,
                    .waits = waits_,
                    .key_ops = key_ops_,
                    .queue_ops = queue_ops_}) {}

void Job::apply(const Origin& from, const CallId& call, const Request& request, TimePoint now,
                const Allowance& allowance, Effects& out) {
  const OpInfo& op = info_of(request);
  Step step = begin(from, call, allowance, now, out);
  OptionalReply done;
  const bool opens = op.code == Hello::op.code;
  if (opens && !sessions_.check_owner(from)) step.session = nullptr;  // it is not the sender's
  if (step.session != nullptr && (step.session->connected || opens)) {
    step.session->last_seen = now;
    if (op.code != Report::op.code && op.code != Activity::op.code) step.session->acted = now;
    note_callers(*step.session, from.session, call.sequence, op);
    acknowledge(step, *step.session);
    if (OptionalReply early = opens ? std::nullopt : admit(step, op)) done = std::move(early);
    if (step.session->reserved) queue_ops_.next_request(step, request);
  } else if (!opens) {
    done = refuse(Code::session_unknown, "no session: send hello on this channel first");
  }
  const bool first = !done || planted(Planted::room_before_replay);
  const bool refused =
      first && allowance.no_room != nullptr && !barrier_ops_.arrived_before(from.session, request);
  if (refused) done = *allowance.no_room;
  const bool admitted = !done;
  if (admitted) done = dispatch(step, request);
  // The sender holds too much: outcomes that are kept for late retries give way.
  const bool full = admitted && done && !*done && done->error().code == Code::quota_exceeded;
  if (full && barriers_.give_way(step.next, out.rows)) done = dispatch(step, request);
  const bool quiet = is_quiet(step);
  if (!quiet) settle(step);
  const bool changes = op.kind == OpKind::write && !out.rows.empty() && done && *done;
  const Evidence evidence = refused || op.kind == OpKind::event ? Evidence::none
                            : changes                           ? Evidence::own_commit
                                                                : Evidence::state;
  if (!quiet) record(step, op, done);
  if (done) {
    // The reply to a hello comes first, because Attachments::attach() looks at the first reply. The
    // reply to any other request comes last, because the reply to a goodbye closes the channel.
    out.replies.emplace_back(from.session, call.sequence, op.code, evidence, std::move(*done),
                             step.observed, call.arrived_ns);
    if (opens) std::rotate(out.replies.begin(), std::prev(out.replies.end()), out.replies.end());
  }
  if (!quiet) release(step);
  report_refused_ranks(out);
  out.blocked = !done && std::ranges::none_of(out.replies, [&](const OutgoingReply& reply) {
    return reply.to == from.session && reply.sequence == call.sequence;
  });
  if (out.blocked || step.may_hang || !step.presence.empty()) diagnoses_.wake(now);
  if (!out.events.empty()) diagnoses_.refresh(now);
  out.revision = revision_;
  // Other operations can change deadlines or sessions although the step is quiet; a watch keeps its
  // key watched for longer.
  const bool only_reads = op.kind == OpKind::read || op.code == Ping::op.code ||
                          (op.kind == OpKind::wait && op.code != Watch::op.code);
  out.quiet = quiet && done && only_reads;
}

Effects Job::disconnect(const SessionId& session, TimePoint now) {
  const Origin nobody;
  const CallId none;
  const Allowance any;
  Effects out;
  Step step = begin(nobody, none, any, now, out);
  session_ops_.disconnect(step, session);
  diagnoses_.wake(now);
  settle(step);
  record(step, Ping::op, std::nullopt);
  release(step);
  out.revision = revision_;
  return out;
}

Effects Job::tick(TimePoint now) {
  const Origin nobody;
  const CallId none;
  const Allowance any;
  Effects out;
  Step step = begin(nobody, none, any, now, out);
  for (const SessionId& id : sessions_.due(now, limits::kExpiriesPerTick)) {
    session_ops_.end(step, id, Ending::expired);
    group_ops_.settle(step);  // updates this session's groups before the next session ends
  }
  barrier_ops_.tick(step);
  key_ops_.tick(step);
  queue_ops_.tick(step);
  ChangeContext at = step.change_context();
  groups_.tick(sessions_, at);
  settle(step);
  record(step, Ping::op, std::nullopt);
  queue_ops_.serve(step);
  // Runs before time_out(), so that a request whose condition came true in this tick succeeds.
  waits_.release_all_but_status(step);
  diagnoses_.tick(wait_sources(now), out.events);
  if (waits_.time_out(step, diagnoses_.for_time_outs(now))) diagnoses_.note_time_out(now);
  settle(step);
  record(step, Ping::op, std::nullopt);
  release(step);
  if (step.may_hang || !step.presence.empty()) diagnoses_.wake(now);
  if (!out.replies.empty()) diagnoses_.refresh(now);
  out.revision = revision_;
  return out;
}

// ---- the parts of a step -----------------------------------------------------------------------

Step Job::begin(const Origin& from, const CallId& call, const Allowance& allowance, TimePoint now,
                Effects& out) {
  return {.from = from,
          .call = call,
          .allowance = allowance,
          .now = now,
          .revision = revision_,
          .next = revision_ + 1,
          .out = out,
          .session = sessions_.find(from.session)};
}

/// Notes that a request comes while others of its session are blocked: another thread makes it. A
/// client cancels a request on the thread that has made it.
void Job::note_callers(Session& session, const SessionId& id, std::uint64_t sequence,
                       const OpInfo& op) const {
  if (op.kind == OpKind::event || op.code == Cancel::op.code || waits_.pending().empty()) return;
  if (session.callers == Session::kCallers) return;
  const std::size_t others = waits_.pending().of(id, Session::kCallers - 1U, sequence);
  session.callers = std::max(session.callers, static_cast<std::uint8_t>(others + 1));
}

/// Drops the replies that the client has received, and erases the items whose delivery the client
/// has acknowledged. The deletions of the items' rows must not wait for a later step, because the
/// items would come back after a crash between the two steps.
void Job::acknowledge(Step& step, Session& session) {
  const SessionId& id = step.from.session;
  for (const Delivery& delivery : sessions_.acknowledge(id, session, step.call.acked_below)) {
    sessions_.discard(queues_.erase(delivery.queue, delivery.item()));
    step.garbage_waits = false;
  }
}

/// Refuses a request whose sequence is too far ahead. Then checks with replay() whether the request
/// was applied before. Returns nothing if the request is to be applied.
OptionalReply Job::admit(Step& step, const OpInfo& op) {
  if (step.session->fleeting) return std::nullopt;  // it repeats nothing
  if (step.call.sequence >= step.session->acked_below + limits::kSessionWindow) {
    return refuse(Code::window_exceeded,
                  format("too many unacknowledged requests: sequence {}, but only sequences below "
                         "{} are acknowledged; the next {} sequences may be used",
                         step.call.sequence, step.session->acked_below, limits::kSessionWindow));
  }
  if (op.dedup != Dedup::reply && op.dedup != Dedup::delivery) return std::nullopt;
  if (OptionalReply first = replay(step, op)) return first;
  if (op.growth == Growth::none && op.dedup == Dedup::reply) return std::nullopt;  // frees memory
  if (auto full = Sessions::check_keep(*step.session, step.allowance)) {
    return Reply(std::move(*full));
  }
  return std::nullopt;
}

/// Returns the stored reply or delivery of a repeated request, and nothing for a new request.
/// Refuses a sequence that the client has acknowledged or has used for another request.
OptionalReply Job::replay(Step& step, const OpInfo& op) {
  const Session& session = *step.session;
  const std::uint64_t sequence = step.call.sequence;
  if (sequence < session.acked_below) {
    return refuse(
        Code::outcome_unknown,
        format("sequence {} is too old: this session has acknowledged all sequences below {}",
               sequence, session.acked_below));
  }
  if (planted(Planted::reply_forgotten)) return std::nullopt;
  const auto stored = session.replies.find(sequence);
  const auto delivery = session.deliveries.find(sequence);
  const bool replied = stored != session.replies.end();
  if (!replied && delivery == session.deliveries.end()) return std::nullopt;
  const std::uint8_t code = replied ? stored->second.op : QueuePop::op.code;
  const std::uint64_t print = replied ? stored->second.fingerprint : delivery->second.fingerprint;
  if (code != op.code || print != step.call.fingerprint) {
    return refuse(
        Code::sequence_reused,
        format("sequence {} was already used by this session for another request", sequence));
  }
  step.out.events.push_back(ReplyReplayed{op.code});
  if (!replied) {
    step.observe(delivery->second.revision);
    return reply(Popped{queues_.value(delivery->second.queue, delivery->second.item()),
                        delivery->second.length});
  }
  Reply first = ReplyBody(Done{});
  const Result<void> decoded =
      native::decode_reply(code, native::ReplyHeader::Kind::reply, stored->second.body, first);
  C10DD_ASSERT(decoded.has_value());
  step.observe(stored->second.revision);
  return first;
}

OptionalReply Job::dispatch(Step& step, const Request& request) {
  return std::visit(
      [&](const auto& op) {
        return handle(step, op, key_ops_, queue_ops_, transactions_, barrier_ops_, group_ops_,
                      session_ops_, collective_ops_);
      },
      request);
}

/// Returns true if the step has changed nothing, and has noted nothing that settle(), record() or
/// release() would act on. Most reads are such steps.
bool Job::is_quiet(const Step& step) const {
  return step.out.rows.empty() && step.signals.empty() && step.queues.empty() &&
         step.presence.empty() && step.garbage_waits && sessions_.garbage() < kGarbageRows &&
         groups_.settled();
}

/// Updates groups and barriers. Then repeats the requests that an absent session no longer blocks.
/// These requests can end sessions, so the groups are updated once more.
void Job::settle(Step& step) {
  const bool idle = step.presence.empty() && groups_.settled();
  if (!idle) {
    group_ops_.settle(step);
    barrier_ops_.release_returned(step);
  }
  if (step.shows_change && !step.out.rows.empty()) step.observe(step.next);
  if (idle) return;
  barrier_ops_.recheck_absent(step);
  group_ops_.settle(step);
}

/// Records a step: stores the reply, adds the garbage rows to the rows of the step, and raises the
/// job's revision. Does nothing if the step has no rows and the garbage rows can wait.
void Job::record(Step& step, const OpInfo& op, const OptionalReply& done) {
  const bool changed = !step.out.rows.empty();
  if (!changed && step.garbage_waits && sessions_.garbage() < kGarbageRows) return;
  if (changed && step.session != nullptr && !step.session->fleeting) {
    sessions_.keep_owner(step.from.session, *step.session, step.next, step.out.rows);
  }
  const bool keeps = op.dedup == Dedup::reply && step.session != nullptr && !step.session->fleeting;
  if (changed && keeps && done && *done) {
    StoredReply kept{op.code, step.call.fingerprint, {}, step.next};
    std::visit([&](const auto& body) { wire::Writer(kept.body).put_fields(body); }, **done);
    sessions_.keep(step.from.session, *step.session, step.call.sequence, std::move(kept),
                   step.out.rows);
  }
  sessions_.take_garbage(step.out.rows);
  if (!step.out.rows.empty()) revision_ = step.revision = step.next;
}

/// Replies to the waiting requests that the step has unblocked.
void Job::release(Step& step) {
  if (!step.queues.empty()) queue_ops_.serve(step);
  if (!step.signals.empty()) waits_.release(step);
}

// ---- life --------------------------------------------------------------------------------------

std::optional<TimePoint> Job::next_deadline() const {
  std::optional<TimePoint> next = waits_.next_deadline();
  for (const auto& other :
       {lifetimes_.next_deadline(), sessions_.next_deadline(), reservations_.next_deadline(),
        history_.next_deadline(), groups_.next_deadline(), barrier_ops_.next_deadline(),
        diagnoses_.next_deadline()}) {
    if (other) next = next ? std::min(*next, *other) : *other;
  }
  return next;
}

bool Job::empty() const {
  return sessions_.trainers() == 0 && keys_.size() == 0 && queues_.items() == 0 &&
         groups_.are_over();
}

JobStats Job::stats() const {
  JobStats stats;
  stats.keys = keys_.size();
  stats.bytes = keys_.bytes();
  stats.queue_items = queues_.items();
  stats.queue_bytes = queues_.bytes();
  stats.history_bytes = history_.bytes();
  stats.waiters = waits_.size() - waits_.pending().observed();
  stats.barriers_pending = barriers_.pending();
  stats.sessions = sessions_.connected_trainers();
  stats.sessions_known = sessions_.trainers();
  stats.members = groups_.attendance().here;
  stats.members_missing = groups_.attendance().missing;
  stats.collectives_in_flight = ledger_.in_flight();
  return stats;
}

}  // namespace c10dd::core
