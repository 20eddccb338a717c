// SPDX-License-Identifier: Apache-2.0
// How the daemon gets jobs and loses them, as daemon/shard/shard_jobs.cc does. Loading is in
// daemon_load.cc.
#include "tests/sim/daemon.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {
Failure Daemon::unavailable(std::string detail) {
  Failure reason = failure(Code::unavailable, std::move(detail));
  reason.retry_after = std::chrono::milliseconds(100);
  return reason;
}

core::Quotas Daemon::quotas() const {
  core::Quotas quotas;
  quotas.session_expiry = swarm_.session_expiry;
  if (swarm_.history > 0) quotas.history_changes = swarm_.history;
  return quotas;
}

void Daemon::start() {
  world_.note("daemon.start", number_);
  // Sessions that are not attached here count from now on; only another daemon can have some.
  for (auto& [id, facts] : records_.sessions) {
    if (!facts.attached() || records_.takeovers == 0) facts.is_here(world_.now(), false);
  }
  const bool adopted = adopt();
  C10DD_ASSERT(adopted);
}

bool Daemon::adopt() {
  constexpr JobNumber kNumber = core::Directory::kNumber;
  store::Engine& engine = disk_.engine();
  const store::Claim claim = *engine.claim(kNumber);
  auto directory = std::make_unique<core::Directory>(claim.revision);
  Result<void> restored;
  const Result<void> read = engine.load(kNumber, [&](const Row& row) {
    if (restored) restored = directory->restore(row);
  });
  if (!read || !restored) {
    world_.violated("restore", "the directory of jobs cannot be read");
    return false;
  }
  core::Effects effects = directory->resume(world_.random.next(), false, job_now());
  if (!effects.rows.empty()) {
    const store::JobBatch batch{kNumber, claim.epoch, claim.revision, effects.revision,
                                std::move(effects.rows)};
    C10DD_ASSERT(engine.commit(std::span(&batch, 1)).front() == store::Outcome::durable);
  }
  directory_ = std::move(directory);
  queue_ = std::make_shared<DiskQueue>(world_, disk_);
  return true;
}

void Daemon::refuse(const ConnectionRef& connection, std::uint32_t channel, std::uint64_t sequence,
                    Failure reason) {
  core::Reply reply;
  reply.sequence = sequence;
  reply.op = Hello::op.code;
  reply.answer = std::move(reason);
  deliver({connection, channel, 0}, reply, Stamp{});
}

void Daemon::hello(const ConnectionRef& connection, std::uint32_t channel, std::uint64_t sequence,
                   Hello hello, OnOpen on_open) {
  if (draining_) {
    return refuse(connection, channel, sequence, unavailable("the daemon is shutting down"));
  }
  Failure refused;
  const SlotRef slot = slot_of(hello, refused);
  if (!slot) return refuse(connection, channel, sequence, std::move(refused));
  if (slot->serving) return attach(slot, connection, channel, sequence, hello, on_open);
  slot->when_loaded.push_back([=, this, hello = std::move(hello)] {
    if (slot->serving) return attach(slot, connection, channel, sequence, hello, on_open);
    refuse(connection, channel, sequence, unavailable("the job could not be loaded"));
  });
}

Daemon::SlotRef Daemon::slot_of(const Hello& hello, Failure& refused) {
  if (!queue_) {
    refused = unavailable("the engine is not open");
    return nullptr;
  }
  const auto known = by_name_.find({hello.job, hello.run});
  if (known != by_name_.end()) return known->second;
  core::Effects effects;
  const Revision before = directory_->revision();
  const Result<JobNumber> number = directory_->open(hello.job, hello.run, effects);
  if (!number) {
    refused = number.error();
    return nullptr;
  }
  auto slot = std::make_shared<Slot>();
  slot->name = hello.job;
  slot->number = *number;
  by_name_[{hello.job, hello.run}] = slot;
  jobs_[slot->number] = slot;
  load(slot, std::move(effects.rows), before);
  return slot;
}

void Daemon::attach(const SlotRef& slot, const ConnectionRef& connection, std::uint32_t channel,
                    std::uint64_t sequence, const Hello& hello, const OnOpen& on_open) {
  const auto older = slot->attached.find(hello.session);
  if (older != slot->attached.end()) {
    const Slot::Attachment attachment = older->second;
    slot->attached.erase(older);
    slot->signs[hello.session].closed = job_now();
    if (!planted(Plant::disconnect_not_told)) {
      perform(slot, slot->job->disconnect(hello.session, job_now()));
    }
    if (attachment.connection != connection || attachment.channel != channel) {
      end_session(attachment, failure(Code::session_superseded,
                                      "the session was opened again on another connection"));
    }
  }
  core::Origin from;
  from.session = hello.session;
  from.connection = connection->link->number;
  SessionFacts& facts = records_.sessions[hello.session];
  facts.client = static_cast<std::uint32_t>(hello.pid);
  Hello heard = hello;
  if (planted(Plant::rollback_not_noticed)) heard.seen = {};
  core::Effects effects = slot->job->apply(from, {sequence, 0, 0, 0}, heard, job_now());
  if (effects.replies.front().answer) {
    slot->attached[hello.session] = {connection, channel, ++attachments_};
    slot->signs[hello.session] = {job_now(), {}};
    facts.is_here(world_.now(), true);
    on_open(slot);
  } else {
    const Failure reason = effects.replies.front().answer.error();
    facts.replaced = facts.replaced || reason.code == Code::session_replaced;
    facts.ended = facts.ended || facts.replaced || reason.code == Code::session_expired;
    if (reason.code == Code::session_expired && records_.takeovers == 0 &&
        facts.longest_away(world_.now()) < swarm_.session_expiry * 94 / 100) {
      world_.violated("lives", "a session has expired that was not away long enough");
    }
    core::Reply& reply = effects.replies.front();
    reply.kind = OpKind::read;
    reply.attachment = ++attachments_;
    slot->refused[reply.attachment] = {connection, channel, sequence};
  }
  perform(slot, std::move(effects));
}

void Daemon::drop(const SlotRef& slot, const Failure& reason) {
  if (std::exchange(slot->dropped, true)) return;
  world_.note("job.drop", slot->number, 0, name_of(reason.code));
  slot->serving = false;
  jobs_.erase(slot->number);
  std::erase_if(by_name_, [&](const auto& entry) { return entry.second == slot; });
  for (const auto& [session, attachment] : std::exchange(slot->attached, {})) {
    records_.sessions[session].is_here(world_.now(), false);
    end_session(attachment, reason);
  }
  for (const auto& [attachment, to] : std::exchange(slot->refused, {})) {
    refuse(to.connection, to.channel, to.sequence, reason);
  }
}

void Daemon::lose_engine(const std::string& why) {
  if (!queue_) return;
  world_.note("engine.lost", number_);
  ++generation_;
  const auto jobs = jobs_;
  for (const auto& [number, slot] : jobs) {
    drop(slot, unavailable("the engine is being opened again: " + why));
    for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  }
  round_in_flight_ = false;
  committing_.clear();
  confirming_.clear();
  queue_->die();
  queue_.reset();
  directory_.reset();
  const Duration delay =
      world_.random.between(std::chrono::milliseconds(100), std::chrono::seconds(2));
  world_.after(delay, [this, weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !dead()) post([this] { static_cast<void>(adopt()); });
  });
}

}  // namespace c10dd::sim
