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

/// Returns the slot of a job that this host serves, for a hello or a probe, and marks the job as in
/// use. If the job has no slot yet, creates one and starts to load the job.
JobRef JobHost::slot_of(const JobLocation& location, const std::string& job,
                        const std::string& run) {
  JobRef slot = table_.find(location.number);
  if (!slot) {
    slot = table_.add(location, job, run);
    slot->is_volatile ? begin_volatile(slot) : load(slot);
  }
  table_.use(*slot, location.lookup);
  return slot;
}

void JobHost::probe(const JobLocation& location, const std::string& job, const std::string& run) {
  if (!context_.is_open(location.generation)) return;
  if (planted(Planted::run_not_probed)) return context_.directory.report_idle(location, false);
  const JobRef slot = slot_of(location, job, run);
  if (slot->serving) table_.touch(slot);
}

/// Handles a hello for a job that this host serves. If the job is still loading, the hello waits.
void JobHost::arrive(const JobLocation& location, HelloRequest request) {
  const std::string job = request.hello.job;
  const std::string run = request.hello.run;
  serve(location, job, run, [this, request = std::move(request)](const Result<JobRef>& served) {
    if (served) return attach(*served, request);
    refuse(request, served.error());
  });
}

void JobHost::serve(const JobLocation& location, const std::string& job, const std::string& run,
                    std::function<void(Result<JobRef>)> then) {
  const bool has_engine = context_.is_open(location.generation);
  if (!has_engine && !is_volatile_number(location.number)) {
    return then(context_.cannot_serve("the engine is being reopened"));
  }
  if (!is_volatile_number(location.number) && !context_.lease_holds()) {
    return then(
        context_.cannot_serve("this daemon could not renew its lease on the shared engine"));
  }
  const JobRef slot = slot_of(location, job, run);
  if (slot->name != job || slot->run != run) {
    context_.directory.found_gone();  // the number is of another run by now
    return then(unavailable("the run now has another number; try again"));
  }
  if (slot->serving && !slot->moving) return then(slot);
  if (slot->damaged_until) {
    if (context_.loop.now() < *slot->damaged_until) return then(refusal_of(slot));
    slot->damaged_until.reset();
    load(slot);
  }
  slot->when_loaded.push_back([this, slot, then = std::move(then)] {
    if (slot->serving) return then(slot);
    then(refusal_of(slot));
  });
}

/// Returns why a job could not be loaded, or is served no longer. Reports a job that could not be
/// loaded as idle to the directory, because it gets no session.
Failure JobHost::refusal_of(const JobRef& slot) {
  if (slot->refusal) return *slot->refusal;
  if (context_.engine) {
    context_.directory.report_idle({this, slot->number, context_.engine->generation, slot->lookup},
                                   false);
  }
  return unavailable(format("job \"{}\" could not be loaded: {}", slot->name, slot->load_failure));
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
  durable_.erase(number);
}

/// Drops all jobs except volatile runs. Their clients come back.
void JobHost::drop_stored(const std::string& why) {
  std::vector<JobRef> jobs;  // a copy: drop() erases
  for (const auto& [number, slot] : table_) jobs.push_back(slot);
  for (const JobRef& slot : jobs) {
    if (slot->is_volatile && !planted(Planted::plain_run_dropped)) continue;
    slot->load_failure = why;
    // A refused hello normally makes its job idle (refuse_hello()). In a fleet the job may soon
    // belong to another daemon, so this daemon must not retire it for that.
    if (context_.in_fleet()) slot->refusal = context_.cannot_serve(why);
    drop(slot, context_.cannot_serve(why));
    for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  }
}

}  // namespace c10dd::core
