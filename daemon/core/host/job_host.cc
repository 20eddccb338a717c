// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_host.h"

#include <algorithm>

#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {

JobHost::JobHost(HostLoop& loop, Shell& shell, JobDirectory& directory, GrowthGate& growth,
                 Settings settings)
    : context_{*this, loop, shell, directory, growth, std::move(settings), JobTime(loop.now())},
      table_(context_),
      replies_(context_),
      commits_(context_, table_, deadlines_, replies_, *this),
      loader_(context_, table_, *this),
      attachments_(context_, table_, loader_, commits_, replies_),
      moves_(context_, table_, *this) {}

void JobHost::hello(HelloRequest request) {
  if (attachments_.hello(request)) return;
  const bool looks = request.caller.observes();
  find_job(std::move(request), looks);
}

/// Lets the directory say which host gets a hello. `looks`: JobAsker::looks.
void JobHost::find_job(HelloRequest request, bool looks) {
  const std::string job = request.hello.job;
  const std::string run = request.hello.run;
  const JobAsker asker{request.client, !request.caller.observes(), looks, request.caller.principal};
  auto located = [this, request = std::move(request)](const Result<JobLocation>& found) mutable {
    if (!found) return attachments_.not_found(request, found.error());
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
  context_.directory.locate(job, run, asker, context_.loop, std::move(located));
}

void JobHost::arrive(const JobLocation& location, HelloRequest request) {
  if (location.lookup != 0) return attachments_.arrive(location, std::move(request));
  if (!attachments_.look(location.number, request)) find_job(std::move(request), false);
}

void post_to_owner(const JobRef& slot, const AttachmentRef& attachment, const CallId& call,
                   const Request& request) {
  slot->owner.loop().post(
      [slot, attachment, call, request] { slot->owner.submit(slot, attachment, call, request); });
}

void JobHost::heard(const JobRef& slot, std::uint64_t connection) {
  if (&slot->owner != this) {
    slot->owner.loop().post([slot, connection] { slot->owner.heard(slot, connection); });
  } else if (!slot->dropped) {
    slot->job->heard(connection, context_.now());
  }
}

void JobHost::answers(const JobRef& slot, std::uint64_t connection, bool answers) {
  if (&slot->owner != this) {
    slot->owner.loop().post(
        [slot, connection, answers] { slot->owner.answers(slot, connection, answers); });
  } else if (!slot->dropped) {
    slot->job->answers(connection, answers, context_.now());
    table_.touch(slot);
  }
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

void JobHost::detach(const JobRef& slot, const AttachmentRef& attachment) {
  if (&slot->owner != this) {
    slot->owner.loop().post([slot, attachment] { slot->owner.detach(slot, attachment); });
  } else {
    attachments_.detach(slot, attachment);
  }
}

bool JobHost::charge(const JobRef& job, std::size_t bytes) {
  const bool mine = &job->owner == this;
  TurnUse& use = mine ? job->use : foreign_use_;
  use.add(bytes);
  if (mine) table_.touch_quietly(job);
  return use.spent();
}

bool JobHost::spent(const JobRef& job) const {
  return (&job->owner == this ? job->use : foreign_use_).spent();
}

void JobHost::heard_from_fleet(FleetNews news) {
  const bool lapsed = news.lapses != context_.fleet.lapses;
  context_.fleet = std::move(news);
  // This thread may not have run since the lease ended.
  if (lapsed && context_.in_fleet()) give_up_jobs();
}

void JobHost::give_up_jobs() {
  if (table_.empty()) return;
  loader_.give_up_all("this daemon could not renew its lease on the shared engine");
}

// Deadlines and finished loads can produce rows. Both are handled before start_batch(), so that the
// batch includes these rows.
void JobHost::end_turn() {
  // If the lease does not hold, other daemons may take over the jobs now. So no reply may leave
  // that a client takes for a sign of life from the owner of its job.
  if (!table_.empty() && !context_.lease_holds()) give_up_jobs();
  const TimePoint time = context_.time.end_turn(context_.loop.now());
  while (const JobRef slot = deadlines_.take_due(time)) {
    if (!slot->dropped && !slot->moving) commits_.perform(slot, slot->job->tick(time));
  }
  if (loader_.has_pieces()) loader_.restore_piece();
  loader_.tell_waiters();
  commits_.start_batch();
  commits_.end_turn();
  if (!moves_.empty()) moves_.hand_over();
  replies_.flush();
  foreign_use_ = {};
}

std::optional<SteadyTime> JobHost::next_wake() const {
  const SteadyTime clock = context_.loop.now();
  if (loader_.has_pieces()) return clock;
  std::optional<SteadyTime> next = commits_.next_batch();
  if (const auto answer = loader_.next_answer()) next = next ? std::min(*next, *answer) : *answer;
  if (context_.in_fleet() && !table_.empty() && context_.lease_holds()) {
    const SteadyTime at = clock + (context_.fleet.lease_end - context_.loop.boot_now());
    next = next ? std::min(*next, at) : at;
  }
  const std::optional<TimePoint> deadline = deadlines_.next();
  if (deadline && !context_.draining) {
    const Duration left = *deadline - context_.time.now(clock);
    const SteadyTime at = clock + std::clamp(left, Duration::zero(), JobTime::kTurnInterval);
    next = next ? std::min(*next, at) : at;
  }
  return next;
}

void JobHost::drain() {
  context_.draining = true;
  context_.time.stand_still(context_.loop.now());
}

void JobHost::drop(const JobRef& slot, const Failure& reason) {
  if (slot->dropped) return;
  table_.remove(slot);
  loader_.note_dropped(*slot);
  deadlines_.remove(slot);
  attachments_.end_all(*slot, reason);
  JobMoves::end(*slot, reason);
}

void JobHost::lose_engine(const std::string& why, bool rolled_back) {
  const std::uint64_t generation = context_.engine->generation;
  engine_lost(why);
  context_.shell.lose_engine(generation, why, rolled_back);
}

void JobHost::engine_lost(const std::string& why) {
  loader_.give_up_all("the engine is being reopened: " + why);
  commits_.engine_lost();
  context_.engine.reset();
}

void JobHost::retire(JobNumber number) {
  if (const JobRef slot = table_.find(number)) {
    drop(slot, failure(Code::session_expired, "the daemon has removed this run"));
  }
  loader_.note_gone(number);
}

void JobHost::forget() {
  table_.forget();
  loader_.forget();
  moves_.forget();
  deadlines_.clear();
  replies_.forget();
  commits_.forget();
}

}  // namespace c10dd::core
