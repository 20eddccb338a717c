// SPDX-License-Identifier: Apache-2.0
// How the shard gets jobs and loses them: names to numbers, claims, loading, sessions coming and
// going, and what happens when the engine fails (nobody is told "failed": the jobs stop being
// served, the engine is opened again, and retries resolve what is unknown).
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <random>

#include "daemon/shard.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::milliseconds kReopenMin{100};
constexpr std::chrono::milliseconds kReopenMax{2000};
constexpr Duration kRetryAfter = std::chrono::milliseconds(100);

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Failure unavailable(std::string detail) {
  Failure reason = failure(Code::unavailable, std::move(detail));
  reason.retry_after = kRetryAfter;
  return reason;
}

/// Claims and reads the directory; its incarnation is durable afterwards.
Result<std::unique_ptr<core::Directory>> read_directory(store::Engine& engine) {
  constexpr JobNumber kNumber = core::Directory::kNumber;
  Result<store::Claim> claim = engine.claim(kNumber);
  if (!claim) return claim.error();
  auto directory = std::make_unique<core::Directory>(claim->revision);
  Result<void> restored;
  Result<void> loaded = engine.load(kNumber, [&](const Row& row) {
    if (restored) restored = directory->restore(row);
  });
  if (!loaded) return loaded.error();
  if (!restored) return restored.error();
  core::Effects effects = directory->resume(random_number());
  if (effects.rows.empty()) return directory;
  const store::JobBatch batch{kNumber, claim->epoch, claim->revision, effects.revision,
                              std::move(effects.rows)};
  if (engine.commit(std::span(&batch, 1)).front() != store::Outcome::durable) {
    return failure(Code::unavailable, "the engine did not take the directory of jobs");
  }
  return directory;
}

}  // namespace

Result<void> Shard::adopt(std::unique_ptr<store::Engine> engine) {
  engine_name_ = engine->name();
  durability_name_ = engine->durability();
  shared_ = engine->shared();
  volatile_ = durability_name_ == "none" && !shared_;
  Result<std::unique_ptr<core::Directory>> directory = read_directory(*engine);
  if (!directory) return directory.error();
  directory_ = std::move(*directory);
  commit_ = std::make_unique<store::GroupCommit>(std::move(engine));
  lost_.clear();
  metrics_.engine_up(true);
  return {};
}

std::string Shard::not_ready() const {
  return lost_.empty() ? std::string() : "engine " + engine_name_ + " is not open: " + lost_;
}

void Shard::refuse(const std::shared_ptr<AnswerSink>& sink, std::uint32_t channel,
                   std::uint64_t sequence, Failure reason) {
  core::Reply reply;
  reply.sequence = sequence;
  reply.op = Hello::op.code;
  reply.answer = std::move(reason);
  sink->deliver(channel, reply, Stamp{});
  to_flush_.push_back(sink);
}

void Shard::hello(std::shared_ptr<AnswerSink> sink, std::uint32_t channel, std::uint64_t sequence,
                  Hello hello, std::function<void(JobRef)> on_open) {
  Failure refused;
  const JobRef slot = slot_of(hello, refused);
  if (!slot) return refuse(sink, channel, sequence, std::move(refused));
  if (slot->serving) return attach(slot, std::move(sink), channel, sequence, hello, on_open);
  slot->when_loaded.push_back([=, this, hello = std::move(hello)] {
    if (slot->serving) return attach(slot, sink, channel, sequence, hello, on_open);
    refuse(sink, channel, sequence, unavailable("job \"" + slot->name + "\" could not be loaded"));
  });
}

/// The job of a hello, being loaded if it is new here; null with the reason when refused.
JobRef Shard::slot_of(const Hello& hello, Failure& refused) {
  if (!commit_) {
    refused = unavailable(not_ready());
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
  auto slot = std::make_shared<JobSlot>();
  slot->name = hello.job;
  slot->number = *number;
  by_name_[{hello.job, hello.run}] = slot;
  jobs_[slot->number] = slot;
  load(slot, std::move(effects.rows), before);
  return slot;
}

/// On the commit thread: the directory's new row, the claim, the rows. Then back here.
void Shard::load(const JobRef& slot, std::vector<Row> directory_rows, Revision directory_from) {
  const auto work = [this, slot, g = generation_, rows = std::move(directory_rows),
                     directory_from](store::Engine& engine) {
    std::vector<Row> loaded_rows;
    Result<store::Claim> claim = failure(Code::unavailable, "the directory row was not taken");
    bool named = rows.empty();
    if (!named) {
      // The directory has one owner per engine today: claiming it again fences nobody else.
      const Result<store::Claim> owner = engine.claim(core::Directory::kNumber);
      const store::JobBatch batch{core::Directory::kNumber, owner ? owner->epoch : 0,
                                  directory_from, directory_from + 1, rows};
      named = owner && engine.commit(std::span(&batch, 1)).front() == store::Outcome::durable;
    }
    if (named) claim = engine.claim(slot->number);
    if (claim) {
      const Result<void> loaded =
          engine.load(slot->number, [&](Row row) { loaded_rows.push_back(std::move(row)); });
      if (!loaded) claim = loaded.error();
    }
    asio::post(loop_, [this, slot, g, claim, rows = std::move(loaded_rows)]() mutable {
      if (g == generation_) loaded(slot, std::move(claim), std::move(rows));
    });
  };
  commit_->post(work);
}

void Shard::loaded(const JobRef& slot, Result<store::Claim> claim, std::vector<Row> rows) {
  Result<void> good;
  if (claim) {
    const Stamp start{directory_->incarnation(), claim->epoch, claim->revision};
    slot->epoch = claim->epoch;
    slot->handed_over = claim->revision;
    slot->job = std::make_unique<core::Job>(slot->number, start);
    slot->gate = std::make_unique<core::CommitGate>(start, shared_);
    for (const Row& row : rows) {
      if (good) good = slot->job->restore(row);
    }
    if (good) good = slot->job->resume(now());
  } else {
    good = claim.error();
  }
  if (good) {
    slot->serving = true;
    spdlog::info("event=job_loaded job={} number={} rows={} epoch={}", slot->name, slot->number,
                 rows.size(), slot->epoch);
  } else {
    spdlog::error("event=job_load_failed job={} reason=\"{}\"", slot->name, good.error().detail);
  }
  for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  if (!good) drop(slot, good.error());
  if (claim.has_error() && claim.error().code == Code::unavailable) {
    lose_engine(claim.error().detail);
  }
}

void Shard::attach(const JobRef& slot, std::shared_ptr<AnswerSink> sink, std::uint32_t channel,
                   std::uint64_t sequence, const Hello& hello,
                   std::function<void(JobRef)> on_open) {
  const auto older = slot->attached.find(hello.session);
  if (older != slot->attached.end()) {
    const JobSlot::Attachment attachment = older->second;
    slot->attached.erase(older);
    perform(slot, slot->job->disconnect(hello.session, now()));
    if (attachment.sink != sink || attachment.channel != channel) {
      attachment.sink->end_session(
          attachment.channel,
          failure(Code::session_superseded, "the session was opened again on another connection"));
    }
  }
  core::Origin from;
  from.session = hello.session;
  core::Effects effects = slot->job->apply(from, {sequence, 0, 0, 0}, hello, now());
  const bool opened = effects.replies.front().answer.has_value();
  if (opened) {
    slot->attached[hello.session] = {sink, channel};
    on_open(slot);
    perform(slot, std::move(effects));
  } else {
    refuse(sink, channel, sequence, effects.replies.front().answer.error());
  }
}

/// Gives a job up; its connections are told and come again.
void Shard::drop(const JobRef& slot, const Failure& reason) {
  if (std::exchange(slot->dropped, true)) return;
  slot->serving = false;
  jobs_.erase(slot->number);
  std::erase_if(by_name_, [&](const auto& entry) { return entry.second == slot; });
  for (const auto& [session, attachment] : std::exchange(slot->attached, {})) {
    attachment.sink->end_session(attachment.channel, reason);
  }
  const auto same_name = by_name_.lower_bound({slot->name, ""});
  if (same_name == by_name_.end() || same_name->first.first != slot->name) {
    metrics_.remove_job(slot->name);
  }
  touch(slot);
}

void Shard::lose_engine(const std::string& why) {
  if (!lost_.empty()) return;
  lost_ = why;
  ++generation_;
  spdlog::error("event=engine_lost engine={} reason=\"{}\"", engine_name_, why);
  metrics_.engine_up(false);
  const auto jobs = jobs_;
  for (const auto& [number, slot] : jobs) {
    drop(slot, unavailable("the engine is being opened again: " + why));
    for (const auto& then : std::exchange(slot->when_loaded, {})) then();
  }
  round_in_flight_ = false;
  committing_.clear();
  confirming_.clear();
  commit_.reset();
  directory_.reset();
  reopen_delay_ = kReopenMin;
  reopen_later();
}

void Shard::reopen_later() {
  reopen_timer_.expires_after(reopen_delay_);
  reopen_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    Result<std::unique_ptr<store::Engine>> engine = store::open_engine(engine_url_, durability_);
    const Result<void> opened = engine ? adopt(std::move(*engine)) : engine.error();
    if (opened) {
      spdlog::info("event=engine_reopened engine={}", engine_name_);
      return;
    }
    lost_ = opened.error().detail;
    spdlog::warn("event=engine_reopen_failed engine={} reason=\"{}\"", engine_name_, lost_);
    reopen_delay_ = std::min(reopen_delay_ * 2, kReopenMax);
    reopen_later();
  });
}

}  // namespace c10dd::daemon
