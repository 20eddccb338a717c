// SPDX-License-Identifier: Apache-2.0
// How the shard gets jobs and loses them, and how sessions come and go. Loading is in
// shard_load.cc.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "daemon/config/version.h"
#include "daemon/shard/remote_sink.h"
#include "daemon/shard/shard.h"
#include "protocol/wording.h"

namespace c10dd::daemon {

void Shard::engine_opened(const OpenEngine& engine) { engine_ = engine; }

void Shard::engine_lost(const std::string& why) {
  const auto jobs = jobs_;
  for (const auto& [number, slot] : jobs) {
    slot->load_failure = "the engine is being opened again: " + why;
    drop(slot, unavailable(slot->load_failure));
    for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  }
  round_in_flight_ = false;
  committing_.clear();
  confirming_.clear();
  pace_ = {};
  engine_.commit.reset();
}

void Shard::refuse(const Greeting& greeting, Failure reason) {
  core::Reply reply;
  reply.sequence = greeting.sequence;
  reply.op = Hello::op.code;
  reply.answer = std::move(reason);
  greeting.sink->deliver(greeting.channel, reply, Stamp{});
  to_flush_.push_back(greeting.sink);
}

void Shard::hello(Greeting greeting) {
  const auto known = by_name_.find({greeting.hello.job, greeting.hello.run});
  const bool open = known != by_name_.end() && known->second->serving && known->second->occupied;
  if (open) return attach(known->second, greeting);
  const std::string job = greeting.hello.job;
  const std::string run = greeting.hello.run;
  auto located = [this, greeting = std::move(greeting)](Result<Place> place) mutable {
    if (!place) return refuse(greeting, place.error());
    Shard& owner = *place->shard;
    if (&owner == this) return arrive(*place, std::move(greeting));
    greeting.sink = std::make_shared<RemoteSink>(greeting.sink, loop_.get_executor());
    greeting.on_open = [this, on_open = std::move(greeting.on_open)](const JobRef& slot) {
      asio::post(loop_, [on_open, slot] { on_open(slot); });
    };
    asio::post(owner.loop(), [&owner, place = *place, greeting = std::move(greeting)]() mutable {
      owner.arrive(place, std::move(greeting));
    });
  };
  host_.locate(job, run, loop_, std::move(located));
}

/// A job that belongs here and has somebody on the way, now being loaded if it is new.
JobRef Shard::slot_of(const Place& place, const std::string& job, const std::string& run) {
  JobRef& slot = jobs_[place.number];
  if (!slot) {
    slot = std::make_shared<JobSlot>(*this, job, run, place.number);
    by_name_[{slot->name, slot->run}] = slot;
    load(slot);
  }
  slot->grant = std::max(slot->grant, place.grant);
  slot->occupied = true;
  if (std::exchange(slot->resting, false)) metrics_.job_loaded(slot->name);
  return slot;
}

void Shard::visit(const Place& place, const std::string& job, const std::string& run) {
  if (!engine_.commit || place.generation != engine_.generation) return;
  const JobRef slot = slot_of(place, job, run);
  if (slot->serving) touch(slot);
}

/// A hello whose job belongs here.
void Shard::arrive(const Place& place, Greeting greeting) {
  if (!engine_.commit || place.generation != engine_.generation) {
    return refuse(greeting, unavailable("the engine is being opened again"));
  }
  const JobRef slot = slot_of(place, greeting.hello.job, greeting.hello.run);
  if (slot->serving) return attach(slot, greeting);
  if (slot->damaged_until) {
    if (std::chrono::steady_clock::now() < *slot->damaged_until) return turn_away(slot, greeting);
    slot->damaged_until.reset();
    load(slot);
  }
  slot->when_loaded.push_back([this, slot, greeting = std::move(greeting)] {
    if (slot->serving) return attach(slot, greeting);
    turn_away(slot, greeting);
  });
}

/// The directory is told that nobody came in.
void Shard::turn_away(const JobRef& slot, const Greeting& greeting) {
  refuse(greeting,
         unavailable("job \"" + slot->name + "\" could not be loaded: " + slot->load_failure));
  host_.vacated({this, slot->number, engine_.generation, slot->grant}, false);
}

void Shard::attach(const JobRef& slot, const Greeting& greeting) {
  const Hello& hello = greeting.hello;
  const auto older = slot->attached.find(hello.session);
  if (older != slot->attached.end()) {
    const JobSlot::Attachment attachment = older->second;
    slot->attached.erase(older);
    perform(slot, slot->job->disconnect(hello.session, time_.now()));
    const bool same = attachment.sink->connection() == greeting.sink->connection() &&
                      attachment.channel == greeting.channel;
    if (!same) {
      attachment.sink->end_session(
          attachment.channel,
          failure(Code::session_superseded, "the session was opened again on another connection"));
    }
  }
  core::Origin from;
  from.session = hello.session;
  from.connection = greeting.connection;
  core::Effects effects = slot->job->apply(from, {greeting.sequence, 0, 0, 0}, hello, time_.now());
  if (effects.replies.front().answer) {
    std::get<Welcome>(*effects.replies.front().answer).daemon = kVersion;
    slot->attached[hello.session] = {greeting.sink, greeting.channel, ++slot->attachments};
    greeting.on_open(slot);
  } else {
    // From the state that it shows, a stranger to the job could be told wrong: on a shared engine
    // only the owner may say that a client has seen more than there is.
    core::Reply& reply = effects.replies.front();
    reply.kind = OpKind::read;
    reply.attachment = ++slot->attachments;
    slot->refused[reply.attachment] = {greeting.sink, greeting.channel, greeting.sequence};
  }
  perform(slot, std::move(effects));
}

/// Tells the directory when the last session has ended. Until a hello has come by way of the
/// directory again nobody is let in, so it may retire the run.
void Shard::watch_vacancy(const JobRef& slot) {
  if (!slot->occupied || slot->job->stats().sessions_known > 0) return;
  slot->occupied = false;
  host_.vacated({this, slot->number, engine_.generation, slot->grant}, slot->job->empty());
}

void Shard::rest_job(JobNumber number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second->occupied || !found->second->serving) return;
  if (!std::exchange(found->second->resting, true)) metrics_.remove_job(found->second->name);
}

void Shard::keep_job(JobNumber number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || !found->second->serving) return;
  found->second->occupied = true;
  touch(found->second);
}

std::size_t Shard::close_job(JobNumber number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return 0;
  JobSlot& slot = *found->second;
  const std::size_t connected = slot.serving ? slot.job->stats().sessions : slot.when_loaded.size();
  if (connected == 0) slot.occupied = false;
  return connected;
}

void Shard::retire(JobNumber number) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end()) return;
  const JobRef slot = found->second;
  drop(slot, failure(Code::session_expired, "the run has ended and was retired"));
}

/// Gives a job up; its connections are told and come again. `slot` is the caller's own reference:
/// the one in jobs_ ends here.
void Shard::drop(const JobRef& slot, const Failure& reason) {
  if (std::exchange(slot->dropped, true)) return;
  const bool counted = std::exchange(slot->serving, false) && !slot->resting;
  if (counted) metrics_.remove_job(slot->name);
  jobs_.erase(slot->number);
  by_name_.erase({slot->name, slot->run});
  growth_.add_bytes(-static_cast<std::int64_t>(std::exchange(slot->bytes, 0)));
  if (slot->deadline) deadlines_.erase({*std::exchange(slot->deadline, {}), slot});
  for (const auto& [session, attachment] : std::exchange(slot->attached, {})) {
    attachment.sink->end_session(attachment.channel, reason);
  }
  for (const auto& [attachment, to] : std::exchange(slot->refused, {})) {
    refuse({to.sink, to.channel, to.sequence, 0, {}, {}}, reason);
  }
}

}  // namespace c10dd::daemon
