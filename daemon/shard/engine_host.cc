// SPDX-License-Identifier: Apache-2.0
// When the engine fails nobody is told "failed": the jobs stop being served on all shards, the
// engine is closed and opened again, and retries resolve what is unknown.
#include "daemon/shard/engine_host.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <random>

#include "daemon/shard/event_log.h"
#include "daemon/shard/shards.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr std::chrono::milliseconds kReopenMin{100};
constexpr std::chrono::milliseconds kReopenMax{2000};
constexpr std::chrono::seconds kWatchInterval{1};
constexpr std::chrono::seconds kCommitAge{5};  // with an older one the daemon is not ready
constexpr Duration kRetryAfter = std::chrono::milliseconds(100);
constexpr JobNumber kDirectory = core::Directory::kNumber;

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

core::Directory::Limits limits_of(const Options& options) {
  core::Directory::Limits limits;
  limits.jobs = options.max_jobs;
  limits.run_grace = options.run_grace;
  return limits;
}

/// Erases the rows of jobs in the commit that strikes them out of the directory.
bool commit(store::Engine& engine, store::JobBatch directory,
            const std::vector<JobNumber>& erased) {
  std::vector<store::JobBatch> batches;
  for (const JobNumber number : erased) {
    const Result<store::Claim> claim = engine.claim(number);
    if (!claim) return false;
    batches.push_back({number,
                       claim->epoch,
                       claim->revision,
                       claim->revision + 1,
                       {{Row::Kind::erase_prefix, {}, {}}}});
  }
  // The directory has one owner per engine today: claiming it again fences nobody else.
  const Result<store::Claim> owner = engine.claim(kDirectory);
  if (!owner) return false;
  directory.epoch = owner->epoch;
  batches.push_back(std::move(directory));
  const std::vector<store::Outcome> outcomes = engine.commit(batches);
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [](store::Outcome outcome) { return outcome == store::Outcome::durable; });
}

/// Claims and reads the directory; its incarnation is durable afterwards.
Result<std::unique_ptr<core::Directory>> read_directory(store::Engine& engine,
                                                        const core::Directory::Limits& limits,
                                                        TimePoint now) {
  Result<store::Claim> claim = engine.claim(kDirectory);
  if (!claim) return claim.error();
  auto directory = std::make_unique<core::Directory>(claim->revision, limits);
  Result<void> restored;
  Result<void> loaded = engine.load(kDirectory, [&](const Row& row) {
    if (restored) restored = directory->restore(row);
  });
  if (!loaded) return loaded.error();
  if (!restored) return restored.error();
  core::Effects effects = directory->resume(random_number(), !engine.rolled_back().empty(), now);
  if (effects.rows.empty()) return directory;
  const store::JobBatch batch{kDirectory, claim->epoch, claim->revision, effects.revision,
                              std::move(effects.rows)};
  if (engine.commit(std::span(&batch, 1)).front() != store::Outcome::durable) {
    return failure(Code::unavailable, "the engine did not take the directory of jobs");
  }
  if (!engine.rolled_back().empty()) {
    spdlog::warn("event=state_rolled_back engine={} incarnation={:016x} reason={}", engine.name(),
                 directory->incarnation(), quoted(engine.rolled_back()));
    engine.renewed();
  }
  return directory;
}

}  // namespace

store::OpenOptions open_options(const Options& options) {
  const auto warn = [](std::string_view line) {
    spdlog::warn("event=engine_warning detail={}", quoted(printable(line, 512)));
  };
  return {.durability = options.durability, .warn = warn};
}

Failure unavailable(std::string detail) {
  Failure reason = failure(Code::unavailable, std::move(detail));
  reason.retry_after = kRetryAfter;
  return reason;
}

EngineHost::EngineHost(asio::io_context& loop, Metrics& metrics, const Options& options,
                       std::function<void()> on_failed)
    : loop_(loop),
      metrics_(metrics),
      options_(options),
      on_failed_(std::move(on_failed)),
      grace_timer_(loop),
      watch_timer_(loop),
      reopen_timer_(loop) {}

EngineHost::~EngineHost() = default;

Result<EngineHost::Opened> EngineHost::with_directory(std::unique_ptr<store::Engine> engine,
                                                      const Options& options, TimePoint now) {
  auto directory = read_directory(*engine, limits_of(options), now);
  if (!directory) return directory.error();
  return Opened{std::make_shared<store::GroupCommit>(std::move(engine)), std::move(*directory)};
}

Result<void> EngineHost::adopt(std::unique_ptr<store::Engine> engine, Shards& shards) {
  shards_ = &shards;
  engine_name_ = engine->name();
  durability_name_ = engine->durability();
  Result<Opened> opened = with_directory(std::move(engine), options_, time_.now());
  if (!opened) return opened.error();
  take(std::move(*opened));
  watch_commits();
  return {};
}

void EngineHost::take(Opened opened) {
  directory_ = std::move(opened.directory);
  const store::Engine& engine = opened.commit->engine();
  ++engine_.generation;
  engine_.incarnation = directory_->incarnation();
  engine_.shared = engine.shared();
  engine_.is_volatile = engine_name_ == "memory";
  engine_.intact = std::make_shared<std::atomic<bool>>(true);
  engine_.commit = std::move(opened.commit);
  lost_.clear();
  damage_ = engine.damage();
  if (!damage_.empty()) {
    spdlog::error("event=state_damaged engine={} detail={}", engine_name_, quoted(damage_));
  }
  grants_.clear();
  metrics_.engine_up(true);
  shards_->each([opened = engine_](Shard& shard) { shard.engine_opened(opened); });
}

void EngineHost::close() {
  opener_.join();
  engine_.commit.reset();
}

std::string EngineHost::not_ready() const {
  if (!lost_.empty()) return "engine " + engine_name_ + " is not open: " + lost_;
  const auto age = std::chrono::floor<std::chrono::seconds>(commit_age());
  if (age < kCommitAge) return {};
  return "engine " + engine_name_ + ": a commit has not ended for " + std::to_string(age.count()) +
         " s, limit " + std::to_string(kCommitAge.count()) +
         " s; look at the disk or the server that it writes to";
}

Duration EngineHost::commit_age() const {
  return engine_.commit ? engine_.commit->oldest() : Duration{0};
}

/// For the log; whoever asks not_ready() need not wait for it.
void EngineHost::watch_commits() {
  const std::string why = lost_.empty() ? not_ready() : "";
  const bool stuck = !why.empty();
  if (stuck != std::exchange(stuck_, stuck)) {
    if (stuck) {
      spdlog::error("event=commit_stuck reason={}", quoted(why));
    } else {
      spdlog::info("event=commit_went_on engine={}", engine_name_);
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

Result<JobNumber> EngineHost::number_of(const std::string& job, const std::string& run) {
  if (!directory_) return unavailable(not_ready());
  core::Effects effects;
  const Revision before = directory_->revision();
  const Result<JobNumber> number = directory_->open(job, run, effects);
  if (number && !effects.rows.empty()) {
    write_directory(std::move(effects.rows), before, effects.revision, {});
  }
  return number;
}

Result<Shard*> EngineHost::shard_of(const std::string& job, const std::string& run) {
  std::optional<JobNumber> known;
  if (directory_) known = directory_->find(job, run);
  if (known) return &shards_->of(*known);
  const Result<JobNumber> number = number_of(job, run);
  if (!number) return number.error();
  directory_->vacate(*number, true, time_.now());  // until somebody has really come
  return &shards_->of(*number);
}

Result<Place> EngineHost::locate(const std::string& job, const std::string& run) {
  const Result<JobNumber> number = number_of(job, run);
  if (!number) return number.error();
  return Place{&shards_->of(*number), *number, engine_.generation, ++grants_[*number]};
}

void EngineHost::locate(const std::string& job, const std::string& run, asio::io_context& back,
                        std::function<void(Result<Place>)> then) {
  asio::dispatch(loop_, [this, job, run, &back, then = std::move(then)]() mutable {
    asio::dispatch(back, [then = std::move(then), place = locate(job, run)] { then(place); });
  });
}

/// In order with the claims and loads that depend on it.
void EngineHost::write_directory(std::vector<Row> rows, Revision from, Revision to,
                                 std::vector<JobNumber> erased, std::function<void(bool)> then) {
  engine_.commit->post([this, intact = engine_.intact, generation = engine_.generation,
                        batch = store::JobBatch{kDirectory, 0, from, to, std::move(rows)},
                        erased = std::move(erased), then = std::move(then)](store::Engine& engine) {
    const bool was_intact = *intact;
    const bool durable = was_intact && commit(engine, batch, erased);
    if (then) asio::post(loop_, [then, durable] { then(durable); });
    if (durable || !was_intact) return;
    *intact = false;
    report_lost(generation, "a change of the directory of jobs was not taken");
  });
}

// ---- runs --------------------------------------------------------------------------------------

void EngineHost::vacated(const Place& place, bool empty) {
  asio::dispatch(loop_, [this, place, empty] {
    const bool current = directory_ && place.generation == engine_.generation;
    if (current && grants_[place.number] == place.grant) {
      directory_->vacate(place.number, empty, time_.now());
    }
  });
}

void EngineHost::end_turn() {
  const TimePoint now = time_.end_turn();
  if (!directory_) return;
  const auto next = directory_->next_deadline();
  if (next && *next <= now) retire();
  arm_timer();
}

void EngineHost::retire() {
  const Revision before = directory_->revision();
  core::Directory::Retired retired = directory_->tick(time_.now());
  for (const auto& [job, run, number] : retired.unvisited) {
    Shard& shard = shards_->of(number);
    const Place place{&shard, number, engine_.generation, ++grants_[number]};
    asio::post(shard.loop(),
               [&shard, place, job = job, run = run] { shard.visit(place, job, run); });
  }
  for (const auto& [job, run, number] : retired.idle) {
    Shard& shard = shards_->of(number);
    asio::post(shard.loop(), [&shard, number = number] { shard.rest_job(number); });
  }
  if (!retired.entries.empty()) let_go(std::move(retired), before, "retired");
}

/// Jobs that were struck out: their shards forget them, their rows go.
void EngineHost::let_go(core::Directory::Retired retired, Revision before, std::string_view event,
                        std::function<void(bool)> then) {
  std::vector<JobNumber> numbers;
  for (const auto& [job, run, number] : retired.entries) {
    spdlog::info("event={}_{} number={} job={} run={}", run.empty() ? "job" : "run", event, number,
                 job, run);
    numbers.push_back(number);
    grants_.erase(number);
    Shard& shard = shards_->of(number);
    asio::post(shard.loop(), [&shard, number = number] { shard.retire(number); });
  }
  write_directory(std::move(retired.effects.rows), before, retired.effects.revision,
                  std::move(numbers), std::move(then));
}

/// A job that is to be removed, while its shards are asked who is connected.
struct EngineHost::Removal {
  std::string job;
  std::vector<JobNumber> numbers;
  std::vector<std::uint64_t> grants;  ///< by number, from before the shards were asked
  std::size_t connected = 0;
  std::size_t to_ask = 0;
  std::function<void(Result<void>)> then;
};

void EngineHost::remove(const std::string& job, std::function<void(Result<void>)> then) {
  if (!directory_) return then(unavailable(not_ready()));
  const auto removal = std::make_shared<Removal>();
  removal->job = job;
  removal->then = std::move(then);
  for (const core::Directory::Entry& entry : directory_->entries(job)) {
    removal->numbers.push_back(entry.number);
    removal->grants.push_back(grants_[entry.number]);
  }
  if (removal->numbers.empty()) {
    return removal->then(failure(Code::not_found, "no job \"" + printable(job, 128) + "\""));
  }
  removal->to_ask = removal->numbers.size();
  for (const JobNumber number : removal->numbers) {
    Shard& shard = shards_->of(number);
    asio::post(shard.loop(), [this, &shard, number, removal] {
      asio::post(loop_, [this, removal, connected = shard.close_job(number)] {
        removal->connected += connected;
        if (--removal->to_ask == 0) remove(removal);
      });
    });
  }
}

/// From here on a hello has to ask the directory: whoever did meanwhile has a newer grant.
void EngineHost::remove(const std::shared_ptr<Removal>& removal) {
  if (!directory_) return removal->then(unavailable(not_ready()));
  bool on_the_way = false;
  for (std::size_t i = 0; i < removal->numbers.size(); ++i) {
    on_the_way = on_the_way || grants_[removal->numbers[i]] != removal->grants[i];
  }
  if (removal->connected > 0 || on_the_way) {
    for (const JobNumber number : removal->numbers) {
      Shard& shard = shards_->of(number);
      asio::post(shard.loop(), [&shard, number] { shard.keep_job(number); });
    }
    return removal->then(failure(
        Code::unavailable,
        "job \"" + printable(removal->job, 128) + "\" is in use: " +
            (removal->connected > 0 ? std::to_string(removal->connected) + " sessions are connected"
                                    : std::string("a client is connecting")) +
            "; end its processes first"));
  }
  const Revision before = directory_->revision();
  let_go(directory_->remove(removal->numbers), before, "removed", [removal](bool durable) {
    if (durable) return removal->then(Result<void>());
    removal->then(unavailable("the engine was lost; whether the job is removed is not known"));
  });
}

void EngineHost::arm_timer() {
  const auto next = directory_->next_deadline();
  if (!next || grace_timer_set_) return;
  grace_timer_set_ = true;
  grace_timer_.expires_after(
      std::clamp(*next - time_.now(), Duration::zero(), JobTime::kTurnInterval));
  grace_timer_.async_wait([this](const boost::system::error_code&) { grace_timer_set_ = false; });
}

// ---- disk --------------------------------------------------------------------------------------

void EngineHost::relieve(std::function<void(bool)> then) {
  if (!directory_) return;
  engine_.commit->post([this, then = std::move(then)](store::Engine& engine) {
    asio::post(loop_, [then, had_room = engine.relieve()] { then(had_room); });
  });
}

std::uint64_t EngineHost::room_to_tidy() const {
  return engine_.commit ? engine_.commit->engine().room_to_tidy() : 0;
}

void EngineHost::checkpoint(const std::string& path, std::function<void(Result<void>)> then) {
  if (!directory_) return then(unavailable(not_ready()));
  engine_.commit->checkpoint(path, [this, path, then = std::move(then)](const Result<void>& done) {
    log_checkpoint(path, done);
    asio::post(loop_, [then, done] { then(done); });
  });
}

// ---- losing the engine
// ---------------------------------------------------------------------------

void EngineHost::report_lost(std::uint64_t generation, const std::string& why) {
  asio::dispatch(loop_, [this, generation, why] {
    if (generation == engine_.generation && lost_.empty()) lose(why);
  });
}

void EngineHost::lose(const std::string& why) {
  lost_ = why;
  spdlog::error("event=engine_lost engine={} reason={}", engine_name_, quoted(why));
  metrics_.engine_up(false);
  directory_.reset();
  const auto lose = [why](Shard& shard) {
    shard.engine_lost(why);
    return true;
  };
  shards_->ask<bool>(lose, [this](const std::vector<bool>&) {
    // Nobody else has it now: the engine is closed, which waits for the checkpoint under way.
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
    asio::post(opener_, [this, now = time_.now()] {
      asio::post(loop_, [this, opened = open_again(options_, acknowledged_, now)]() mutable {
        reopened(std::move(opened));
      });
    });
  });
}

Result<EngineHost::Opened> EngineHost::open_again(const Options& options,
                                                  std::shared_ptr<const store::Mark> acknowledged,
                                                  TimePoint now) try {
  store::OpenOptions how = open_options(options);
  how.acknowledged = std::move(acknowledged);
  Result<std::unique_ptr<store::Engine>> engine = store::open_engine(options.engine, how);
  if (!engine) return engine.error();
  return with_directory(std::move(*engine), options, now);
} catch (const std::exception& failed) {  // no memory, no thread: there may be some later
  return unavailable(failed.what());
}

void EngineHost::reopened(Result<Opened> opened) {
  if (opened) {
    take(std::move(*opened));
    spdlog::info("event=engine_reopened engine={}", engine_name_);
    return;
  }
  const Failure& why = opened.error();
  lost_ = why.code == Code::unavailable ? why.detail
                                        : std::string(name_of(why.code)) + ": " + why.detail;
  spdlog::warn("event=engine_reopen_failed engine={} reason={}", engine_name_, quoted(lost_));
  on_failed_();
  reopen_delay_ = std::min(reopen_delay_ * 2, kReopenMax);
  reopen_later();
}

}  // namespace c10dd::daemon
