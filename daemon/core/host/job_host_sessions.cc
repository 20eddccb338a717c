// SPDX-License-Identifier: Apache-2.0
// Attaches sessions to their jobs, detaches them, and drops jobs.
#include "daemon/core/host/commit_gate.h"
#include "daemon/core/host/job_host.h"
#include "daemon/core/host/volatile_number.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

constexpr Duration kDrainRetry = std::chrono::milliseconds(200);  // the next daemon must start

}  // namespace

void JobHost::refuse(const HelloRequest& request, Failure reason) {
  replies_.refuse(request.sink, request.channel, request.sequence, std::move(reason));
}

void JobHost::hello(HelloRequest request) {
  if (context_.draining) {
    Failure reason = context_.cannot_serve("the daemon is shutting down");
    reason.retry_after = kDrainRetry;
    return refuse(request, std::move(reason));
  }
  const JobRef known = table_.find(request.hello.job, request.hello.run);
  const bool open = known && known->serving && known->in_use && !known->moving;
  if (open) return attach(known, request);
  const std::string job = request.hello.job;
  const std::string run = request.hello.run;
  const std::string client = request.client;
  auto located = [this, request = std::move(request)](const Result<JobLocation>& found) mutable {
    if (!found) {  // if the engine is not open, another daemon may serve the job
      Failure reason = found.error();
      if (reason.code == Code::unavailable) reason.addresses = context_.fleet.others;
      return refuse(request, std::move(reason));
    }
    JobHost& owner = *found->host;
    if (&owner == this) return arrive(*found, std::move(request));
    request.sink = std::make_shared<RemoteSink>(request.sink, context_.loop);
    request.on_open = [this, on_open = std::move(request.on_open)](
                          const JobRef& slot, const AttachmentRef& attachment) {
      context_.loop.post([on_open, slot, attachment] { on_open(slot, attachment); });
    };
    owner.loop().post([&owner, location = *found, request = std::move(request)]() mutable {
      owner.arrive(location, std::move(request));
    });
  };
  context_.directory.locate(job, run, client, context_.loop, std::move(located));
}

void JobHost::lease_endpoint(const std::string& job, const LeaseEndpoint& request,
                             std::int64_t arrived_ns, std::function<void(const Reply&)> then) {
  context_.directory.lease_endpoint(
      job, request, context_.loop,
      [this, arrived_ns, then = std::move(then)](Result<EndpointLease> leased) {
        OutgoingReply reply;
        reply.op = LeaseEndpoint::op.code;
        reply.arrived_ns = arrived_ns;
        if (leased) reply.result = ReplyBody(std::move(*leased));
        if (!leased) reply.result = leased.error();
        context_.shell.released(reply);
        then(reply.result);
      });
}

/// Handles a hello for a job that this host serves. If the job is still loading, the hello waits.
void JobHost::arrive(const JobLocation& location, HelloRequest request) {
  const std::string job = request.hello.job;
  const std::string run = request.hello.run;
  loader_.serve(location, job, run,
                [this, request = std::move(request)](const Result<JobRef>& served) {
                  if (served) return attach(*served, request);
                  refuse(request, served.error());
                });
}

/// Ends the older attachment of the session, if there is one. The older connection is notified,
/// unless the hello came on the same channel of the same connection.
void JobHost::take_over(const JobRef& slot, const HelloRequest& request) {
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

void JobHost::attach(const JobRef& slot, const HelloRequest& request) {
  const Hello& hello = request.hello;
  take_over(slot, request);
  Origin from;
  from.session = hello.session;
  from.connection = request.connection;
  from.fleeting = hello.fleeting;
  const AttachmentRef attachment =
      std::make_shared<Attachment>(Attachment{std::move(from), request.channel, request.sink});
  Effects effects =
      slot->job->apply(attachment->from, {request.sequence, 0, 0, 0}, hello, context_.now());
  OutgoingReply& welcome = effects.replies.front();
  welcome.attachment = attachment;
  if (welcome.result) {
    auto& body = std::get<Welcome>(*welcome.result);
    body.daemon = context_.settings.version;
    if (context_.in_fleet() && !slot->is_volatile) {
      body.takeover_grace = limits::kTakeoverGrace;
      body.daemons = context_.fleet.addresses;
    }
    slot->attached[hello.session] = attachment;
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

void JobHost::detach(const JobRef& slot, const AttachmentRef& attachment) {
  if (!mine(slot)) {
    slot->owner.loop().post([slot, attachment] { slot->owner.detach(slot, attachment); });
    return;
  }
  if (attachment->ended()) return;
  slot->end(attachment, context_.loop.now());
  if (slot->moving || planted(Planted::disconnect_not_reported)) return;
  commits_.perform(slot, slot->job->disconnect(attachment->from.session, context_.now()));
}

void JobHost::retire(JobNumber number) {
  if (const JobRef slot = table_.find(number)) {
    drop(slot, failure(Code::session_expired, "the daemon has removed this run"));
  }
  loader_.note_gone(number);
}

}  // namespace c10dd::core
