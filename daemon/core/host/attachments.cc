// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/attachments.h"

#include <map>
#include <utility>

#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

constexpr Duration kDrainRetry = std::chrono::milliseconds(200);  // the next daemon must start

}  // namespace

bool Attachments::hello(const HelloRequest& request) {
  if (context_.draining) {
    Failure reason = context_.cannot_serve("the daemon is shutting down");
    reason.retry_after = kDrainRetry;
    refuse(request, std::move(reason));
    return true;
  }
  const JobRef known = table_.find(request.hello.job, request.hello.run);
  // A client that only reads may come to a job that nobody uses, and the job stays unused.
  const bool looks = known && request.caller.observes() && !known->is_volatile;
  const bool open = known && known->serving && !known->moving && (known->in_use || looks);
  if (open) attach(known, request);
  return open;
}

bool Attachments::look(JobNumber number, const HelloRequest& request) {
  const JobRef slot = table_.find(number);
  const bool open = slot && slot->serving && !slot->moving && slot->name == request.hello.job &&
                    slot->run == request.hello.run;
  if (open) attach(slot, request);
  return open;
}

void Attachments::not_found(const HelloRequest& request, Failure reason) {
  // If the engine is not open, another daemon may serve the job.
  if (reason.code == Code::unavailable) reason.addresses = context_.fleet.others;
  refuse(request, std::move(reason));
}

void Attachments::arrive(const JobLocation& location, HelloRequest request) {
  const std::string job = request.hello.job;
  const std::string run = request.hello.run;
  const std::string sender = request.sender();
  const bool asks_again = request.asks_again;
  auto then = [this, request = std::move(request)](const Result<JobRef>& served) {
    if (served) return attach(*served, request);
    refuse(request, served.error());
  };
  loader_.serve(location, job, run, std::move(then), asks_again);
  const JobRef slot = table_.find(location.number);
  if (slot && !slot->serving) slot->opened_by = sender;
}

/// Ends the older attachment of the session, if there is one. The older connection is notified,
/// unless the hello came on the same channel of the same connection.
void Attachments::take_over(const JobRef& slot, const HelloRequest& request) {
  const auto found = slot->attached.find(request.hello.session);
  if (found == slot->attached.end()) return;
  const AttachmentRef older = found->second;
  const std::shared_ptr<ReplySink> sink = older->sink;
  slot->end(older, context_.loop.now());
  if (!planted(Planted::disconnect_not_reported)) {
    commits_.perform(slot, slot->job->disconnect(request.hello.session, context_.now()));
  }
  if (planted(Planted::attachment_reused)) older->sink = request.sink;
  const bool same =
      sink->connection() == request.sink->connection() && older->channel == request.channel;
  if (same) return;
  sink->end_session(older->channel, failure(Code::session_superseded,
                                            "the session was reopened on another connection"));
}

void Attachments::attach(const JobRef& slot, const HelloRequest& request) {
  const Hello& hello = request.hello;
  Origin from;
  from.session = hello.session;
  from.connection = request.connection;
  from.fleeting = hello.fleeting;
  if (!request.caller.principal.empty()) {
    from.principal = std::make_shared<const std::string>(request.caller.principal);
  }
  from.observes = request.caller.observes();
  if (slot->job->check_owner(from)) take_over(slot, request);
  from.account = context_.growth.memory().account(
      {request.caller.principal, from.observes, slot->number, slot->name});
  if (!slot->charge.account()) {
    const Payer payer = new_jobs_of(request.caller.principal);
    slot->charge = Charge(context_.growth.memory().account(payer), JobSlot::kBytes);
  }
  const AttachmentRef attachment =
      std::make_shared<Attachment>(Attachment{from, request.channel, request.sink});
  Effects effects = slot->job->apply(attachment->from, {request.sequence, 0, 0, 0}, hello,
                                     context_.now(), context_.allowance(attachment->from));
  OutgoingReply& welcome = effects.replies.front();
  welcome.attachment = attachment;
  if (welcome.result) {
    auto& body = std::get<Welcome>(*welcome.result);
    body.daemon = context_.settings.version;
    body.valid_for = request.caller.valid_for;
    if (context_.in_fleet() && !slot->is_volatile) {
      body.takeover_grace = limits::kTakeoverGrace;
      body.daemons = context_.fleet.addresses;
    }
    slot->attached[hello.session] = attachment;
    if (!from.observes) {
      ++slot->trainers;
      slot->opened_by = request.sender();
    }
    request.on_open(slot, attachment);
  } else {
    // A refusal can depend on the job's state: it can say that the client has seen a newer revision
    // than the job has. On a shared engine, the host must therefore confirm that it owns the job
    // before it sends the refusal.
    welcome.evidence = Evidence::state;
    attachment->refusal = ++slot->refusals;
    slot->refused[attachment->refusal] = {attachment, request.sequence};
  }
  commits_.perform(slot, effects, attachment, request.sequence);
}

void Attachments::detach(const JobRef& slot, const AttachmentRef& attachment) {
  if (attachment->ended()) return;
  slot->end(attachment, context_.loop.now());
  if (slot->moving || planted(Planted::disconnect_not_reported)) return;
  commits_.perform(slot, slot->job->disconnect(attachment->from.session, context_.now()));
}

void Attachments::end_all(JobSlot& slot, const Failure& reason) {
  // In a fixed order, so that simulated runs are reproducible.
  const auto attached = std::exchange(slot.attached, {});
  slot.trainers = 0;
  const std::map<SessionId, AttachmentRef> in_order(attached.begin(), attached.end());
  for (const auto& [session, attachment] : in_order) {
    const std::shared_ptr<ReplySink> sink = std::exchange(attachment->sink, nullptr);
    sink->end_session(attachment->channel, reason);
  }
  for (const auto& [number, refused] : std::exchange(slot.refused, {})) {
    replies_.refuse(refused, reason);
  }
}

void Attachments::refuse(const HelloRequest& request, Failure reason) {
  replies_.refuse(request.sink, request.channel, request.sequence, std::move(reason));
}

}  // namespace c10dd::core
