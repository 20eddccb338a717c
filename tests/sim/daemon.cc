// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/daemon.h"

#include <algorithm>

#include "daemon/core/directory/directory_rows.h"
#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "tests/sim/plants.h"

namespace c10dd::sim {
namespace {

constexpr std::uint64_t kMuchRoom = std::uint64_t{1} << 40;
constexpr std::uint64_t kReserve = 1000;
constexpr std::uint64_t kMinimum = 100;
constexpr Duration kLookAgain = std::chrono::milliseconds(10);

}  // namespace

Daemon::Daemon(World& world, const Swarm& swarm, Disk& disk, Records& records, DriftingClock clock,
               std::uint64_t number, unsigned place)
    : world_(world),
      swarm_(swarm),
      disk_(disk),
      records_(records),
      number_(number),
      place_(place),
      growth_(kMuchRoom),
      engine_(disk.engine_of(number)),
      link_([&disk] { return Result<std::unique_ptr<store::Fleet>>(disk.fleet()); }) {
  growth_.watch("the disk", kReserve, kMinimum);
  growth_.set_free(kMuchRoom);
  for (unsigned i = 0; i < swarm.shards; ++i) {
    shards_.push_back(std::make_shared<Shard>(*this, clock, i == 0));
  }
  core::DirectoryHost::Shell& shell = *this;
  core::VolatileRuns::Settings settings;
  settings.first += number << 32;
  directory_ = std::make_unique<core::DirectoryHost>(first(), shell, settings);
  directory_->serve_endpoints(*this);
  for (const auto& shard : shards_) shard->start(*directory_);
}

core::Quotas Daemon::quotas() const {
  core::Quotas quotas;
  quotas.session_expiry = swarm_.session_expiry;
  if (swarm_.history > 0) quotas.history_changes = swarm_.history;
  return quotas;
}

void Daemon::start(bool accepts) {
  world_.note("daemon.start", number_);
  // The absence of sessions counts from now on for this daemon. Only after a takeover may sessions
  // still be attached to another daemon.
  for (auto& [id, facts] : records_.sessions) {
    if (!facts.attached() || records_.takeovers == 0) facts.is_here(world_.now(), false);
  }
  if (swarm_.fleet()) join_fleet(accepts);
  const bool adopted = adopt(accepted_);
  C10DD_ASSERT(adopted);
  if (swarm_.fleet()) beat_later();
}

bool Daemon::adopt(const core::AcceptedLoss& loss) {
  core::Directory::Limits limits;
  limits.run_grace = swarm_.run_grace;
  auto read =
      core::read_directory(*engine_, limits, world_.random.next(), directory_->job_time(), loss);
  if (!read) {
    world_.violated("restore", "the directory of jobs cannot be read");
    return false;
  }
  queue_ = std::make_shared<DiskQueue>(world_, disk_, engine_);
  intact_ = std::make_shared<bool>(true);
  precondition_ = read->directory->precondition();
  if (!loss.why.empty()) {
    static_cast<void>(link_.fleet()->accept_rollback(precondition_.value));
    member_->watch().accept(precondition_.value);
  }
  const core::EngineState engine{
      ++generation_, read->directory->incarnation(),           swarm_.shared,
      false,         {precondition_.key, precondition_.value}, swarm_.fleet()};
  directory_->opened(std::move(read->directory), engine.generation);
  if (member_) member_->engine_opened();
  for (const auto& shard : shards_) {
    shard->dispatch([shard, engine, queue = queue_, intact = intact_] {
      shard->engine_opened(engine, queue, intact);
    });
  }
  return true;
}

void Daemon::open_volatile(const std::string& job, const std::string& run,
                           std::function<void(JobNumber)> then) {
  first().post([this, job, run, then = std::move(then)] {
    const Result<JobNumber> number = directory_->open_volatile(job, run, "10.0.0.1");
    if (number) return then(*number);
    world_.violated("trainers", number.error().detail);
  });
}

// ---- endpoints ---------------------------------------------------------------------------------

void Daemon::lease_endpoint(const std::string& job, const LeaseEndpoint& request,
                            std::function<void(Result<EndpointLease>)> then) {
  first().post([this, job, request, then = std::move(then)] {
    directory_->lease_endpoint(job, request, first(), then);
  });
}

void Daemon::release_endpoint(const std::string& job, const std::string& name,
                              std::function<void(Result<void>)> then) {
  first().post([this, job, name, then = std::move(then)] {
    directory_->release_endpoint({job, name}, then);
  });
}

void Daemon::endpoint_in_use(const std::string& job, const std::string& name, bool in_use) {
  first().post([this, self = shared_from_this(), job, name, in_use] {
    if (in_use) used_.insert({job, name});
    if (!in_use) used_.erase({job, name});
    core::Endpoint endpoint;
    endpoint.job = job;
    endpoint.name = name;
    if (!dead_) directory_->endpoint_in_use(endpoint, in_use);
  });
}

/// Chooses a port that hardly any endpoint has had before, so that one that was lost does not come
/// back to the same port.
Result<std::uint16_t> Daemon::open(const core::Endpoint&, const core::Endpoints& leased) {
  std::uint16_t port = 0;
  while (port == 0 || leased.has_port(port) || ports_.contains(port)) {
    port = static_cast<std::uint16_t>(number_ * 997 + ++opened_);
  }
  ports_.insert(port);
  return port;
}

void Daemon::close(const core::Endpoint& endpoint, std::string_view how) {
  world_.note("endpoint.closed", endpoint.port, 0, how);
  ports_.erase(endpoint.port);
}

void Daemon::restore(const std::vector<core::Endpoint>& leased) {
  ports_.clear();
  for (const core::Endpoint& endpoint : leased) ports_.insert(endpoint.port);
}

// ---- connections -------------------------------------------------------------------------------

void Daemon::accept(const LinkRef& link) { world_.random.pick(shards_)->accept(link); }

void Daemon::pause(Duration how_long) {
  note_trouble(how_long);
  for (const auto& shard : shards_) shard->pause(how_long);
}

void Daemon::resume() {
  for (const auto& shard : shards_) shard->resume();
}

void Daemon::die(bool power_lost) {
  if (std::exchange(dead_, true)) return;
  note_trouble(std::chrono::hours(1'000));
  world_.note(power_lost ? "daemon.power_cut" : "daemon.kill", number_);
  records_.deaths.push_back(world_.now());
  if (queue_) queue_->die();
  for (const auto& shard : shards_) shard->die(power_lost);
}

void Daemon::disk_short_for(Duration how_long) {
  growth_.set_free(world_.random.chance(50) ? kReserve - 1 : kMinimum - 1);
  world_.after(how_long, [this, self = shared_from_this()] { growth_.set_free(kMuchRoom); });
}

void Daemon::heard_of(const SessionId& session) {
  for (const auto& shard : shards_) {
    shard->dispatch([shard, session] { shard->note_sign(session); });
  }
}

// ---- the directory's side of the engine --------------------------------------------------------

void Daemon::write(core::DirectoryHost::DirectoryBatch change,
                   std::function<void(core::DirectoryHost::Written)> then) {
  using Written = core::DirectoryHost::Written;
  queue_->post([this, self = shared_from_this(), change = std::move(change), then = std::move(then),
                intact = intact_, g = generation_](store::Engine* engine) {
    const bool was_intact = *intact;
    Written written;
    if (was_intact && engine != nullptr) written = core::write_directory(*engine, change);
    if (then) first().post([then, written] { then(written); });
    if (written.outcome != Written::Outcome::lost || !was_intact) return;
    *intact = false;
    report_lost(g, "a change to the job directory was not committed");
  });
}

void Daemon::read(Revision known, std::function<void(std::optional<core::DirectoryNews>)> then) {
  core::Directory::Limits limits;
  limits.run_grace = swarm_.run_grace;
  const std::size_t piece = 1 + known % 4;
  read_on(std::make_shared<core::DirectoryReading>(limits, known, piece), std::move(then));
}

/// Makes the next step of a reading, as GroupCommit::post_steps() does.
void Daemon::read_on(const std::shared_ptr<core::DirectoryReading>& reading,
                     std::function<void(std::optional<core::DirectoryNews>)> then) {
  queue_->post([this, self = shared_from_this(), reading, then = std::move(then),
                g = generation_](store::Engine* engine) {
    auto news = std::make_shared<Result<std::optional<core::DirectoryNews>>>(
        engine == nullptr ? failure(Code::unavailable, "the engine is lost")
                          : reading->step(*engine));
    if (*news && !**news) return read_on(reading, then);
    if (!*news && engine != nullptr && !swarm_.loses) {
      world_.violated("strangers", "the directory cannot be read: " + news->error().detail);
    }
    if (!*news) report_lost(g, "the directory of jobs cannot be read: " + news->error().detail);
    first().post([then, news] { then(*news ? std::move(**news) : std::nullopt); });
  });
}

void Daemon::forget(std::vector<JobNumber> jobs, std::function<void(bool)> then) {
  queue_->post([this, self = shared_from_this(), jobs = std::move(jobs),
                then = std::move(then)](store::Engine* engine) {
    bool done = engine != nullptr;
    for (const JobNumber job : jobs) {
      const Row mark = core::Directory::mark_of(job);
      done = done && engine->forget(job, {mark.key, mark.value});
    }
    first().post([then, done] { then(done); });
  });
}

void Daemon::struck_out(const core::Directory::NamedRun& entry, std::string_view how) {
  world_.note("job.struck_out", entry.number, 0, how);
}

void Daemon::report_lost(std::uint64_t generation, const std::string& why, bool rolled_back) {
  first().dispatch([this, generation, why, rolled_back] {
    if (generation == generation_ && directory_->is_open()) lose(why, rolled_back);
  });
}

void Daemon::lose(const std::string& why, bool rolled_back) {
  world_.note("engine.lost", number_);
  if (swarm_.untroubled) world_.violated("strangers", "a daemon has lost its engine: " + why);
  note_trouble(std::chrono::seconds(10));
  directory_->lost();
  link_.close();
  if (member_) member_->engine_lost(rolled_back ? why : "");
  to_let_go_ = shards_.size();
  for (const auto& shard : shards_) {
    shard->post([this, shard, why] {
      shard->engine_lost(why);
      first().post([this] {
        if (--to_let_go_ > 0) return;
        queue_->die();
        queue_.reset();
        reopen_later();
      });
    });
  }
}

void Daemon::reopen_later() {
  const Duration delay =
      world_.random.between(std::chrono::milliseconds(100), std::chrono::seconds(2));
  world_.after(delay, [this, self = shared_from_this()] {
    if (dead_) return;
    first().post([this] {
      if (member_ && !member_->may_open()) return reopen_later();
      if (member_) engine_ = disk_.engine_of(number_);
      static_cast<void>(adopt());
    });
  });
}

// ---- the end -----------------------------------------------------------------------------------

void Daemon::drain(Duration timeout, std::function<void()> closed, std::function<void()> ended) {
  world_.note("daemon.drain", number_);
  first().post([this, timeout, closed = std::move(closed), ended = std::move(ended)]() mutable {
    if (std::exchange(draining_, true)) return;
    if (member_) member_->drain();
    closed();
    for (const auto& shard : shards_) shard->post([shard] { shard->host().drain(); });
    end_when_finished(world_.now() + timeout, std::move(ended));
  });
}

void Daemon::end_when_finished(TimePoint deadline, std::function<void()> ended) {
  const auto unfinished = std::make_shared<std::vector<std::size_t>>();
  const auto told = [this, deadline, ended = std::move(ended), unfinished] {
    if (unfinished->size() < shards_.size()) return;
    const bool finished = drain_.finished(*unfinished);
    if (finished) check_drained();
    if (finished || world_.now() >= deadline) {
      if (member_) leave_fleet();
      die(false);
      return ended();
    }
    world_.after(kLookAgain, [this, self = shared_from_this(), deadline, ended] {
      if (dead_) return;
      forgive_absence();
      end_when_finished(deadline, ended);
    });
  };
  for (const auto& shard : shards_) {
    shard->post([this, shard, unfinished, told] {
      const std::size_t left = shard->host().jobs().unfinished();
      first().post([unfinished, told, left] {
        unfinished->push_back(left);
        told();
      });
    });
  }
}

/// Checks that a drained daemon holds no reply and no row.
void Daemon::check_drained() {
  for (const auto& shard : shards_) {
    for (const auto& [number, slot] : shard->host().jobs()) {
      const bool rows = !slot->rows.empty() && !slot->is_volatile;
      if (!slot->serving || (!rows && slot->gate->held() == 0)) continue;
      world_.violated("drain", slot->name + ": the daemon ends with " +
                                   std::to_string(slot->gate->held()) + " answers and " +
                                   std::to_string(slot->rows.size()) + " rows");
    }
  }
}

/// Marks absent sessions as present: the daemon refuses connections from now on, so no session may
/// expire for its absence.
void Daemon::forgive_absence() {
  for (auto& [id, facts] : records_.sessions) {
    if (!facts.attached()) facts.is_here(world_.now(), true);
  }
}

std::string Daemon::unsettled() const {
  std::string text;
  if (!directory_->is_open()) text += "engine not open; ";
  for (const auto& shard : shards_) text += shard->unsettled();
  return text;
}

std::pair<std::uint64_t, std::uint64_t> Daemon::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) {
    for (const auto& [number, slot] : shard->host().jobs()) {
      if (!slot->serving) continue;
      sum += slot->job->stats().memory();
    }
  }
  return {sum, growth_.memory().stored()};
}

std::pair<std::uint64_t, std::uint64_t> Daemon::charged() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) {
    for (const auto& [number, slot] : shard->host().jobs()) {
      sum += slot->charge.bytes();
      if (slot->job) sum += slot->job->charged();
      for (const auto& [session, attachment] : slot->attached) {
        sum += attachment->credential.bytes();
      }
    }
  }
  return {sum, growth_.memory().held()};
}

const core::Job* Daemon::job(const std::string& name) const {
  for (const auto& shard : shards_) {
    for (const auto& [number, slot] : shard->host().jobs()) {
      if (slot->name == name && slot->serving) return slot->job.get();
    }
  }
  return nullptr;
}

}  // namespace c10dd::sim
