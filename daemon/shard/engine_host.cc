// SPDX-License-Identifier: Apache-2.0
// After a failure of the engine, all shards drop their jobs, and the engine is closed and opened
// again. Clients then repeat the requests whose outcome is unknown.
#include "daemon/shard/engine_host.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>

#include "daemon/core/directory/directory_rows.h"
#include "daemon/shard/caused_log.h"
#include "daemon/shard/event_log.h"
#include "daemon/shard/log_line.h"
#include "daemon/shard/shards.h"
#include "protocol/format.h"
#include "protocol/random.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::milliseconds kReopenMin{100};
constexpr std::chrono::milliseconds kReopenMax{2000};
constexpr std::chrono::seconds kWatchInterval{1};
constexpr std::chrono::seconds kCommitAge{5};  // if a commit takes longer, the daemon is not ready

core::Directory::Limits limits_of(const Options& options) {
  core::Directory::Limits limits;
  limits.jobs = options.max_jobs;
  limits.run_grace = options.run_grace;
  return limits;
}

/// The number of the first volatile run is random, so that a client can tell this process from the
/// one before.
core::VolatileRuns::Settings volatile_settings(const Options& options) {
  return {core::VolatileRuns::kFirst + (random_number() >> 2), options.max_jobs, options.run_grace};
}

}  // namespace

store::OpenOptions open_options(const Options& options) {
  const auto warn = [](std::string_view line) {
    log_warn("event=engine_warning detail={}", Sentence{printable(line, 512)});
  };
  return {.durability = options.durability, .redis_ca = options.redis_ca, .warn = warn};
}

EngineHost::EngineHost(Loop& loop, Metrics& metrics, const Options& options,
                       std::function<void()> on_failed)
    : loop_(loop),
      metrics_(metrics),
      options_(options),
      on_failed_(std::move(on_failed)),
      directory_(loop, *this, volatile_settings(options)),
      grace_timer_(loop),
      watch_timer_(loop),
      reopen_timer_(loop) {}

EngineHost::~EngineHost() = default;

Result<EngineHost::Opened> EngineHost::with_directory(std::unique_ptr<store::Engine> engine,
                                                      const Options& options, TimePoint now,
                                                      const core::AcceptedLoss& loss) {
  auto read = core::read_directory(*engine, limits_of(options), random_number(), now, loss);
  if (!read) return read.error();
  if (!read->rolled_back.empty()) {
    log_warn("event=state_rolled_back engine={} incarnation={:016x} reason={}", engine->name(),
             read->directory->incarnation(), Sentence{read->rolled_back});
  }
  return Opened{std::make_shared<store::GroupCommit>(std::move(engine)),
                std::move(read->directory)};
}

Result<void> EngineHost::adopt(std::unique_ptr<store::Engine> engine, Shards& shards) {
  shards_ = &shards;
  engine_name_ = engine->name();
  durability_name_ = engine->durability();
  const Result<core::AcceptedLoss> loss = accepted_loss(*engine);
  if (!loss) return loss.error();
  Result<Opened> opened = with_directory(std::move(engine), options_, directory_.job_time(), *loss);
  if (!opened) return opened.error();
  if (fleet_ && !loss->why.empty()) {
    Result<void> told = fleet_->accept_loss(opened->directory->precondition().value);
    if (!told) return told;
  }
  take(std::move(*opened));
  watch_commits();
  return {};
}

/// Returns what the state of a shared engine has lost, if the options accept it.
Result<core::AcceptedLoss> EngineHost::accepted_loss(store::Engine& engine) const {
  core::AcceptedLoss loss;
  if (!fleet_) return loss;
  loss.why = fleet_->accepted_loss();
  Result<std::vector<JobNumber>> nameless = core::nameless_jobs(engine, limits_of(options_));
  if (!nameless) return nameless.error();
  if (nameless->empty()) return loss;
  const std::string what = format("{} jobs have no name in the job directory, among them number {}",
                                  nameless->size(), nameless->front());
  if (!options_.accept_rollback) {
    return failure(Code::state_rolled_back, "{}: {}; {}", store::without_password(options_.engine),
                   what, core::rollback_remedy());
  }
  if (loss.why.empty()) loss.why = what;
  loss.nameless = std::move(*nameless);
  return loss;
}

Result<void> EngineHost::join_fleet(std::vector<std::string> addresses) {
  fleet_ = std::make_unique<FleetHost>(
      loop_, options_, std::move(addresses), directory_,
      FleetHost::Engine{
          [this] { return commit_age(); },
          [this] { return std::string(engine_.commit ? engine_.commit->engine().server() : ""); },
          [this](const std::string& why) { report_lost(engine_.state.generation, why); },
          [this] { return engine_.state.precondition.value; },
          [this](const std::string& durability) {
            durability_name_ = durability;
            metrics_.durability(durability);
          }});
  return fleet_->join();
}

void EngineHost::start_fleet() {
  if (fleet_) fleet_->start(*shards_);
}

void EngineHost::drain() {
  directory_.drain();
  if (fleet_) fleet_->drain();
}

void EngineHost::take(Opened opened) {
  const store::Engine& engine = opened.commit->engine();
  ++engine_.state.generation;
  engine_.state.incarnation = opened.directory->incarnation();
  Row precondition = opened.directory->precondition();
  engine_.state.precondition = {std::move(precondition.key), std::move(precondition.value)};
  durability_name_ = engine.durability();
  metrics_.durability(durability_name_);
  engine_.state.shared = engine.shared();
  engine_.state.is_volatile = engine_name_ == "memory";
  engine_.state.in_fleet = fleet_ != nullptr;
  engine_.intact = std::make_shared<std::atomic<bool>>(true);
  engine_.commit = std::move(opened.commit);
  directory_.opened(std::move(opened.directory), engine_.state.generation);
  if (fleet_) fleet_->engine_opened();
  lost_.clear();
  damage_ = engine.damage();
  if (!damage_.empty()) {
    log_error("event=state_damaged engine={} detail={}", engine_name_, Sentence{damage_});
  }
  metrics_.engine_up(true);
  const core::FleetNews news = fleet_ ? fleet_->news() : core::FleetNews{};
  shards_->each([opened = engine_, news](Shard& shard) {
    shard.host().heard_from_fleet(news);
    shard.engine_opened(opened);
  });
}

void EngineHost::close() {
  opener_.join();
  engine_.commit.reset();  // commits what is left
  if (fleet_) fleet_->leave();
}

std::string EngineHost::not_ready() const {
  if (fleet_ && !fleet_->rolled_back().empty()) return fleet_->not_ready();
  if (!lost_.empty()) {
    const std::string cause = fleet_ ? fleet_->link_failure() : "";
    return format("engine {} is not open: {}{}{}", engine_name_, lost_, cause.empty() ? "" : "; ",
                  cause);
  }
  const std::string stuck = stuck_commit();
  return stuck.empty() && fleet_ ? fleet_->not_ready() : stuck;
}

/// Returns the age of a commit that takes too long, as a text for users, or an empty text.
std::string EngineHost::stuck_commit() const {
  const auto age = std::chrono::floor<std::chrono::seconds>(commit_age());
  if (age < kCommitAge) return {};
  return format(
      "engine {}: a commit has been running for {} s, limit {} s; check the disk or server that "
      "the engine writes to",
      engine_name_, age.count(), kCommitAge.count());
}

std::optional<Duration> EngineHost::lease_left() const {
  if (!fleet_) return std::nullopt;
  return fleet_->news().lease_end - loop_.boot_now();
}

Duration EngineHost::commit_age() const {
  return engine_.commit ? engine_.commit->oldest() : Duration{0};
}

/// Checks once per second whether a commit is stuck, and logs each change of the result.
/// not_ready() does not depend on this check.
void EngineHost::watch_commits() {
  const std::string why = lost_.empty() ? stuck_commit() : "";
  const bool stuck = !why.empty();
  if (stuck != std::exchange(stuck_, stuck)) {
    if (stuck) {
      log_error("event=commit_stuck reason={}", Sentence{why});
    } else {
      log_info("event=commit_went_on engine={}", engine_name_);
    }
  }
  watch_timer_.expires_after(kWatchInterval);
  watch_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) watch_commits();
  });
}

void EngineHost::report_damage(const std::string& what) {
  asio::dispatch(loop_, [this, what] { damage_ = what; });
}

// ---- the directory -----------------------------------------------------------------------------

Result<Shard*> EngineHost::shard_of(const std::string& job, const std::string& run,
                                    const core::JobAsker& asker) {
  const Result<JobNumber> number = directory_.expect(job, run, asker);
  if (!number) return number.error();
  return &shards_->of(*number);
}

core::JobHost& EngineHost::host_of(JobNumber number) { return shards_->of(number).host(); }

void EngineHost::write(core::DirectoryHost::DirectoryBatch change,
                       std::function<void(core::DirectoryHost::Written)> then) {
  using Written = core::DirectoryHost::Written;
  engine_.commit->post([this, intact = engine_.intact, generation = engine_.state.generation,
                        change = std::move(change), then = std::move(then)](store::Engine& engine) {
    // Once a change has failed, later changes must not be committed, because the revisions would
    // then have a gap.
    const bool was_intact = *intact;
    const Written written = was_intact ? core::write_directory(engine, change) : Written{};
    if (then) asio::post(loop_, [then, written] { then(written); });
    if (written.outcome != Written::Outcome::lost || !was_intact) return;
    *intact = false;
    report_lost(generation, "a change to the job directory was not committed");
  });
}

void EngineHost::read(Revision known,
                      std::function<void(std::optional<core::DirectoryNews>)> then) {
  const auto reading = std::make_shared<core::DirectoryReading>(limits_of(options_), known);
  engine_.commit->post_steps([this, generation = engine_.state.generation, reading,
                              then = std::move(then)](store::Engine& engine) {
    auto news = std::make_shared<Result<std::optional<core::DirectoryNews>>>(reading->step(engine));
    if (*news && !**news) return true;
    if (!*news) report_lost(generation, news->error().detail);
    asio::post(loop_, [then, news] { then(*news ? std::move(**news) : std::nullopt); });
    return false;
  });
}

void EngineHost::directory_damaged(const Failure& why) {
  report_lost(engine_.state.generation, why.detail);
}

void EngineHost::forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) {
  engine_.commit->post(
      [this, jobs = std::move(jobs), then = std::move(then)](store::Engine& engine) {
        bool done = true;
        for (const JobNumber job : jobs) {
          const Row mark = core::Directory::mark_of(job);
          done = done && engine.forget(job, {mark.key, mark.value});
        }
        asio::post(loop_, [then, done] { then(done); });
      });
}

void EngineHost::struck_out(const core::Directory::NamedRun& entry, std::string_view how) {
  constexpr const char* kLine = "event={}_{} number={} job={} run={}";
  const char* const what = entry.run.empty() ? "job" : "run";
  log_caused("", LogLevel::info, kLine, what, how, entry.number, entry.job, entry.run);
}

void EngineHost::end_turn() {
  directory_.end_turn();
  arm_timer();
}

void EngineHost::arm_timer() {
  if (grace_timer_set_) return;
  const auto next = directory_.next_wake();
  if (!next) return;
  grace_timer_set_ = true;
  grace_timer_.expires_at(*next);
  grace_timer_.async_wait([this](const boost::system::error_code&) { grace_timer_set_ = false; });
}

// ---- disk --------------------------------------------------------------------------------------

void EngineHost::relieve(std::function<void(bool)> then) {
  if (!directory_.is_open()) return;
  engine_.commit->post([this, then = std::move(then)](store::Engine& engine) {
    asio::post(loop_, [then, had_room = engine.relieve()] { then(had_room); });
  });
}

std::uint64_t EngineHost::room_to_tidy() const {
  return engine_.commit ? engine_.commit->engine().room_to_tidy() : 0;
}

void EngineHost::checkpoint(const std::string& path, std::function<void(Result<void>)> then) {
  if (!directory_.is_open()) return then(core::unavailable(not_ready()));
  engine_.commit->checkpoint(path, [this, path, then = std::move(then)](const Result<void>& done) {
    log_checkpoint(path, done);
    asio::post(loop_, [then, done] { then(done); });
  });
}

// ---- losing the engine -------------------------------------------------------------------------

void EngineHost::report_lost(std::uint64_t generation, const std::string& why, bool rolled_back) {
  asio::dispatch(loop_, [this, generation, why, rolled_back] {
    if (generation == engine_.state.generation && lost_.empty()) lose(why, rolled_back);
  });
}

void EngineHost::lose(const std::string& why, bool rolled_back) {
  lost_ = why;
  log_error("event=engine_lost engine={} reason={}", engine_name_, Sentence{why});
  metrics_.engine_up(false);
  directory_.lost();
  if (fleet_) fleet_->engine_lost(rolled_back ? why : "");
  const auto drop_jobs = [why](Shard& shard) {
    shard.engine_lost(why);
    return true;
  };
  shards_->ask<bool>(drop_jobs, [this](const std::vector<bool>&) {
    // No shard refers to the engine any more. The engine is closed on the thread opener_, because
    // closing blocks while a checkpoint is being written.
    asio::post(opener_, [this, commit = std::move(engine_.commit)]() mutable {
      acknowledged_ = commit->engine().acknowledged();
      commit.reset();
    });
    on_failed_();
    reopen_delay_ = kReopenMin;
    reopen_later();
  });
}

void EngineHost::reopen_later() {
  reopen_timer_.expires_after(reopen_delay_);
  reopen_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    if (fleet_ && !fleet_->may_open()) return reopen_later();
    asio::post(opener_, [this, now = directory_.job_time()] {
      asio::post(loop_, [this, opened = open_again(options_, acknowledged_, now)]() mutable {
        reopened(std::move(opened));
      });
    });
  });
}

Result<EngineHost::Opened> EngineHost::open_again(
    const Options& options, std::shared_ptr<const store::HighWaterMark> acknowledged,
    TimePoint now) try {
  store::OpenOptions how = open_options(options);
  how.acknowledged = std::move(acknowledged);
  Result<std::unique_ptr<store::Engine>> engine = store::open_engine(options.engine, how);
  if (!engine) return engine.error();
  return with_directory(std::move(*engine), options, now);
} catch (const std::exception& failed) {  // out of memory or threads; another try may succeed
  return core::unavailable(failed.what());
}

void EngineHost::reopened(Result<Opened> opened) {
  if (opened) {
    take(std::move(*opened));
    log_info("event=engine_reopened engine={}", engine_name_);
    return;
  }
  const Failure& why = opened.error();
  lost_ = why.detail;
  if (why.code != Code::unavailable) lost_ = format("{}: {}", name_of(why.code), why.detail);
  log_warn("event=engine_reopen_failed engine={} reason={}", engine_name_, Sentence{lost_});
  on_failed_();
  reopen_delay_ = std::min(reopen_delay_ * 2, kReopenMax);
  reopen_later();
}

}  // namespace c10dd::daemon
