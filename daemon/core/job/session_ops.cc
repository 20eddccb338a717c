// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/job/session_ops.h"

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

constexpr const char* kEndings[] = {"its session said goodbye", "its session has expired",
                                    "another launch has taken its place",
                                    "its connection has closed"};

}  // namespace

OptionalReply SessionOps::on(Step& step, const Hello& hello) {
  if (hello.host.size() > limits::kNameBytes) {
    return failure(Code::too_large, "hello: host name too long: {} bytes, limit {}",
                   hello.host.size(), limits::kNameBytes);
  }
  if (hello.labels.size() > limits::kLabels) {
    return failure(Code::too_large, "hello: too many labels: {}, limit {}", hello.labels.size(),
                   limits::kLabels);
  }
  if (hello.session == SessionId{}) {
    return refuse(Code::invalid_argument, "hello: the session ID is 0; choose 128 random bits");
  }
  const Stamp& seen = hello.seen;
  // The highest revision that the client can know if no change was lost. A client that saw an
  // earlier epoch knows no revision above the start of the next one. Any later revision would hide
  // a loss, because changes of other clients may have raised it.
  const Revision kept = revision_after(starts_, seen.epoch).value_or(step.revision);
  const bool newer = seen.epoch > start_.epoch || seen.revision > kept;
  if (seen.incarnation != 0 && (seen.incarnation != start_.incarnation || newer)) {
    step.observe(step.revision);
    const char* what = seen.incarnation != start_.incarnation
                           ? "the daemon's state is not the one that this client has seen"
                           : "the daemon's state is older than the one that this client has seen";
    return failure(Code::state_rolled_back,
                   "{}: client at incarnation {}, revision {}, epoch {}; daemon at incarnation {}, "
                   "revision {}, epoch {}; restart the job under a new run",
                   what, seen.incarnation, seen.revision, seen.epoch, start_.incarnation, kept,
                   start_.epoch);
  }
  if (hello.number != 0 && hello.number != number_) {
    step.observe(step.revision);
    return failure(
        Code::state_rolled_back,
        "job number {}, which this client has used under this name, does not exist any more: "
        "it was removed, or erased after its last session ended; restart the job",
        hello.number);
  }
  if (hello.rank >= static_cast<std::int64_t>(limits::kWorldSize)) {
    return failure(
        Code::invalid_argument,
        "hello: rank {} is too high: ranks are below {}; -1 means that the rank is unknown",
        hello.rank, limits::kWorldSize);
  }
  if (Result<void> good = parts_.sessions.check_owner(step.from); !good) {
    step.observe(step.revision);
    return good.error();
  }
  if (Result<void> good = parts_.sessions.check_open(hello, step.from, step.allowance); !good) {
    step.observe(step.revision);
    return good.error();
  }
  if (const auto surplus = parts_.sessions.surplus(hello)) end(step, *surplus, Ending::expired);
  Welcome welcome;
  welcome.expiry = parts_.sessions.open(hello, step.from, step.revision, step.now, step.out.rows);
  parts_.sessions.belongs(hello.session, step.from, step.out.rows);
  const Session& session = *parts_.sessions.find(hello.session);
  welcome.opened = session.since;
  if (session.observes) {
    parts_.launch.ended(hello.session, Ending::goodbye, step.now);  // if it could write before
  } else if (session.c10d) {
    parts_.launch.opened(hello.session, session);
  }
  ChangeContext at = step.change_context();
  parts_.groups.connected(hello.session, at);
  step.presence.push_back(hello.session);
  step.shows_change = true;
  welcome.version = kProtocolVersion;
  welcome.job = number_;
  welcome.heartbeat_interval = limits::kHeartbeatInterval;
  welcome.session_ttl = limits::kSessionTtl;
  welcome.window = limits::kSessionWindow;
  return reply(std::move(welcome));
}

OptionalReply SessionOps::on(Step& step, const Ping&) {
  parts_.sessions.heard(step.from.connection, step.now);
  return reply(Done{});
}

OptionalReply SessionOps::on(Step& step, const Goodbye&) {
  end(step, step.from.session, Ending::goodbye);
  step.session = nullptr;
  step.shows_change = true;
  return reply(Done{});
}

OptionalReply SessionOps::on(Step& step, const Cancel& cancel) {
  const auto blocked = parts_.waits.cancel(step, cancel.sequence);
  if (const auto* join = blocked ? std::get_if<Join>(&blocked->request) : nullptr) {
    ChangeContext at = step.change_context();
    parts_.groups.withdraw(step.from.session, join->group, "its join was cancelled", at);
  }
  if (planted(Planted::cancel_keeps_delivery)) return reply(Done{});
  const auto delivery =
      parts_.sessions.withdraw(step.from.session, *step.session, cancel.sequence, step.out.rows);
  step.shows_change = true;
  // If there is no delivery, an earlier cancel may already have put the item back. This reply then
  // waits until that change of the queue is durable.
  if (!delivery) step.observe(parts_.queues.observed());
  if (delivery) parts_.queue_ops.give_back(step, *delivery);
  return reply(Done{});
}

void SessionOps::end(Step& step, const SessionId& id, Ending ending) {
  const bool goodbye = ending == Ending::goodbye;
  parts_.waits.abort(step, id, goodbye ? "the session said goodbye" : "the session expired");
  parts_.barriers.leave(id, step.next, step.out.rows);
  Session& session = *parts_.sessions.find(id);
  if (session.reserved && !planted(Planted::reservation_kept))
    parts_.queue_ops.free_reserved(step, id, session);
  const std::vector<Bytes> keys = parts_.lifetimes.owned_by(id);
  const bool kept = !keys.empty() || !session.deliveries.empty() || !session.replies.empty();
  while (!session.deliveries.empty()) {
    const std::uint64_t sequence = session.deliveries.begin()->first;
    parts_.queue_ops.give_back(step,
                               *parts_.sessions.withdraw(id, session, sequence, step.out.rows));
  }
  for (const Bytes& key : keys) parts_.key_ops.remove(step, key);
  ChangeContext at = step.change_context();
  parts_.groups.ended(id, kEndings[static_cast<std::size_t>(ending)], at);
  if (!planted(Planted::totals_kept)) parts_.ledger.forget(id);
  parts_.activity.end(id, ending);
  parts_.launch.ended(id, ending, step.now);
  parts_.sessions.close(id, ending, ending == Ending::expired && kept, step.next, step.now,
                        step.out.rows);
  step.presence.push_back(id);
  // The next session belongs to another launch, which must not get the failures of this launch.
  if (parts_.sessions.trainers() == 0) parts_.barriers.forget_broken(step.out.rows);
}

void SessionOps::disconnect(Step& step, const SessionId& session) {
  parts_.waits.forget(step, session);
  const Session* known = parts_.sessions.find(session);
  if (known != nullptr && known->fleeting) return end(step, session, Ending::disconnected);
  parts_.sessions.disconnect(session, step.now);
  parts_.barriers.disconnected(session);
  parts_.ledger.disconnect(session);
  parts_.groups.disconnected(session, step.now);
  step.presence.push_back(session);
}

}  // namespace c10dd::core
