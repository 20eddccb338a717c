// SPDX-License-Identifier: Apache-2.0
// Implements lookups, idle reports, and the retirement and removal of jobs.
#include "daemon/core/directory/directory_host.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "daemon/core/torch/plain_runs.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

/// Returns the failure of a viewer that names a run which does not exist.
Failure not_made(const std::string& job, const std::string& run) {
  const std::string what = "job \"" + printable(job, limits::kNameShown) + "\"";
  return failure(
      Code::not_found,
      "{} does not exist, and a viewer cannot create it; connect after its first trainer",
      run.empty() ? what : "run \"" + printable(run, limits::kNameShown) + "\" of " + what);
}

}  // namespace

void DirectoryHost::opened(std::unique_ptr<Directory> directory, std::uint64_t generation) {
  directory_ = std::move(directory);
  generation_ = generation;
  lookups_.clear();
  expiring_ = false;
  restore_endpoints();
  if (fleet_) mirror_.begin(*directory_);
  if (fleet_) erase_marked({directory_->marks().begin(), directory_->marks().end()});
}

void DirectoryHost::lost() {
  directory_.reset();
  busy_ = behind_ = false;
  decided_ = {};
  together_ = 0;
  overtaken_ = 0;
  for (const Change& change : std::exchange(changes_, {})) {
    if (change.then) change.then({});
  }
  for (const auto& then : std::exchange(followers_, {})) then();
}

void DirectoryHost::end_volatile(const std::string& job, const std::string& run) {
  const auto number = volatile_runs_.end(job, run, job_time());
  if (!number) return;
  JobHost& host = shell_.host_of(*number);
  host.loop().dispatch([this, &host, number = *number] {
    loop_.dispatch([this, number, bytes = host.jobs().end_volatile(number)] {
      volatile_runs_.weigh(number, bytes);
    });
  });
}

/// Returns the number of a run. If the run is new and the asker may make it, gives it a number,
/// with a row in `effects`.
Result<JobNumber> DirectoryHost::number_of(const std::string& job, const std::string& run,
                                           const JobAsker& asker, Effects& effects) {
  if (const auto live = volatile_runs_.find(job, run)) return *live;
  if (!directory_) return closed();
  const bool is_new = !directory_->find(job, run);
  if (is_new && is_plain_name(run)) {
    return failure(Code::not_found,
                   "run \"{}\" of job \"{}\" does not exist or has ended, and only the daemon can "
                   "create a run with such a name; choose another name",
                   printable(run, limits::kNameShown), printable(job, limits::kNameShown));
  }
  if (is_new && !asker.may_make) return not_made(job, run);
  if (is_new) {
    const MemoryLedger& memory = shell_.host_of(VolatileRuns::kFirst).growth().memory();
    const AccountRef account = memory.account(new_jobs_of(asker.principal));
    if (auto full = memory.allowance(*account).refuses(JobSlot::kBytes, "a new job")) return *full;
  }
  return directory_->open(job, run, effects);
}

/// As above, and commits the row. In a fleet, the run must be known: see locate_new().
Result<JobNumber> DirectoryHost::number_of(const std::string& job, const std::string& run,
                                           const JobAsker& asker) {
  Effects effects;
  const Revision before = directory_ ? directory_->revision() : 0;
  const Result<JobNumber> number = number_of(job, run, asker, effects);
  if (number && !effects.rows.empty()) {
    C10DD_ASSERT(!fleet_);
    shell_.write({before, effects.revision, std::move(effects.rows), {}}, {});
  }
  return number;
}

Result<JobNumber> DirectoryHost::expect(const std::string& job, const std::string& run,
                                        const JobAsker& asker) {
  if (const auto live = volatile_runs_.find(job, run)) return *live;
  std::optional<JobNumber> known;
  if (directory_) known = directory_->find(job, run);
  if (known) return *known;
  if (fleet_) return unavailable("the run is new: it has no number before its first hello");
  const Result<JobNumber> number = number_of(job, run, asker);
  // Until the hello arrives, the job counts as idle. If the client disconnects first, the job is
  // retired.
  if (number) directory_->mark_idle(*number, true, job_time());
  return number;
}

JobLocation DirectoryHost::location_of(JobNumber number) {
  JobLocation location{&shell_.host_of(number), number, generation_, ++lookups_[number], {}};
  if (fleet_ && directory_) {
    Row entry = directory_->entry_row(number);
    location.entry = {std::move(entry.key), std::move(entry.value)};
  }
  return location;
}

/// Returns where a run is, or would be, that nobody begins to use.
JobLocation DirectoryHost::location_of_idle(JobNumber number) {
  return {&shell_.host_of(number), number, generation_, 0, {}};
}

Result<JobLocation> DirectoryHost::locate(const std::string& job, const std::string& run,
                                          const JobAsker& asker) {
  const Result<JobNumber> number = number_of(job, run, asker);
  if (!number) return number.error();
  return location_of(*number);
}

void DirectoryHost::locate(const std::string& job, const std::string& run, const JobAsker& asker,
                           HostLoop& back, std::function<void(Result<JobLocation>)> then) {
  loop_.dispatch([this, job, run, asker, &back, then = std::move(then)] {
    const auto answer = [&back, then](const Result<JobLocation>& location) {
      back.dispatch([then, location] { then(location); });
    };
    if (!fleet_ && directory_ && asker.looks && !volatile_runs_.find(job, run)) {
      if (const auto known = directory_->find(job, run)) return answer(location_of_idle(*known));
    }
    if (!fleet_ || !directory_ || volatile_runs_.find(job, run))
      return answer(locate(job, run, asker));
    const std::optional<JobNumber> known = directory_->find(job, run);
    if (known && asker.looks && mirror_.has(directory_->entry_row(*known)))
      return answer(location_of_idle(*known));
    if (!known && asker.may_make) return locate_paced(job, run, asker, answer);
    // A change under way may have given the run a number that another daemon gives to another run.
    if (known && !mirror_.has(directory_->entry_row(*known)))
      return locate_new(job, run, asker, answer);
    answer(locate(job, run, asker));
  });
}

void DirectoryHost::report_idle(const JobLocation& location, bool empty) {
  loop_.dispatch([this, location, empty] {
    const bool current = directory_ && location.generation == generation_;
    if (!current) return;
    const bool newest = lookups_[location.number] == location.lookup;
    if (newest || planted(Planted::late_hello_retired)) {
      directory_->mark_idle(location.number, empty, job_time());
    }
  });
}

// ---- retirement --------------------------------------------------------------------------------

void DirectoryHost::end_turn() {
  const TimePoint now = time_.end_turn(loop_.now());
  if (volatile_runs_.next_deadline()) retire_volatile(now);
  locate_due(now);
  if (!directory_) return;
  const auto next = directory_->next_deadline();
  if (next && *next <= now) retire();
  if (next_expiry().value_or(TimePoint::max()) <= now) expire_endpoints();
}

std::optional<SteadyTime> DirectoryHost::next_wake() const {
  const auto durable = directory_ ? directory_->next_deadline() : std::nullopt;
  const auto in_memory = volatile_runs_.next_deadline();
  const auto expiry = next_expiry();
  if (!durable && !in_memory && !expiry && paced_.empty()) return std::nullopt;
  const TimePoint never = TimePoint::max();
  const TimePoint paced = paced_.empty() ? never : paced_.begin()->first;
  const TimePoint next =
      std::min({durable.value_or(never), in_memory.value_or(never), expiry.value_or(never), paced});
  const SteadyTime clock = loop_.now();
  return clock + std::clamp(next - time_.now(clock), Duration::zero(), JobTime::kTurnInterval);
}

void DirectoryHost::retire() {
  const Revision before = directory_->revision();
  Directory::Retired retired = fleet_ ? directory_->due(job_time()) : directory_->tick(job_time());
  for (const auto& [job, run, number] : retired.not_reopened) {
    const JobLocation location = location_of(number);
    JobHost& host = *location.host;
    host.loop().post([&host, location, job = job, run = run] { host.probe(location, job, run); });
  }
  for (const auto& [job, run, number] : retired.idle) {
    JobHost& host = shell_.host_of(number);
    host.loop().post([&host, number = number] { host.jobs().end_series(number); });
  }
  if (retired.entries.empty()) return;
  if (fleet_) return retire_shared(retired.entries);
  strike_out(std::move(retired), before, "retired");
}

/// While the memory is nearly full, retires one run before its time in each turn.
void DirectoryHost::retire_volatile(TimePoint now) {
  if (shell_.host_of(VolatileRuns::kFirst).growth().is_nearly_full()) volatile_runs_.make_room();
  for (const Directory::NamedRun& entry : volatile_runs_.tick(now)) {
    shell_.struck_out(entry, "retired");
    lookups_.erase(entry.number);
    JobHost& host = shell_.host_of(entry.number);
    host.loop().post([&host, number = entry.number] { host.retire(number); });
  }
}

/// Makes the hosts drop the retired or removed jobs, and commits the removal of the jobs' rows.
void DirectoryHost::strike_out(Directory::Retired retired, Revision before, std::string_view how,
                               std::function<void(bool)> then) {
  DirectoryBatch batch{.from = before,
                       .to = retired.effects.revision,
                       .rows = std::move(retired.effects.rows),
                       .erased = {}};
  for (const Directory::NamedRun& entry : retired.entries) {
    shell_.struck_out(entry, how);
    batch.erased.push_back(entry.number);
    lookups_.erase(entry.number);
    JobHost& host = shell_.host_of(entry.number);
    host.loop().post([&host, number = entry.number] { host.retire(number); });
  }
  shell_.write(std::move(batch), [then = std::move(then)](const Written& written) {
    if (then) then(written.durable());
  });
}

// ---- removal -----------------------------------------------------------------------------------

/// A removal in progress. It waits until the hosts of the job's runs have reported how many
/// sessions are connected.
struct DirectoryHost::Removal {
  std::string name;                    ///< of the job
  std::string job;                     ///< the same, printable
  std::vector<JobNumber> numbers;      ///< of its runs
  std::vector<std::uint64_t> lookups;  ///< lookup number of each run when the removal began
  std::size_t connected = 0;           ///< sum of the connected sessions, so far
  std::size_t to_ask = 0;              ///< hosts that have not replied
  std::function<void(Result<void>)> then;
};

void DirectoryHost::remove(const std::string& job, std::function<void(Result<void>)> then) {
  if (!directory_) return then(closed());
  const auto removal = std::make_shared<Removal>();
  removal->name = job;
  removal->job = printable(job, limits::kNameShown);
  removal->then = std::move(then);
  for (const Directory::NamedRun& entry : directory_->entries(job)) {
    removal->numbers.push_back(entry.number);
    removal->lookups.push_back(lookups_[entry.number]);
  }
  const std::size_t in_memory = volatile_runs_.live(job).size();
  if (in_memory > 0) {
    return removal->then(
        failure(Code::unavailable,
                "job \"{}\" is in use: {} of its runs are in memory only; end their "
                "processes first",
                removal->job, in_memory));
  }
  if (removal->numbers.empty()) {
    if (!directory_->endpoints().of_job(job).empty()) return finish(removal);
    return removal->then(failure(Code::not_found, "unknown job \"{}\"", removal->job));
  }
  removal->to_ask = removal->numbers.size();
  for (const JobNumber number : removal->numbers) {
    JobHost& host = shell_.host_of(number);
    host.loop().post([this, &host, number, removal] {
      loop_.post([this, removal, connected = host.jobs().close(number)] {
        removal->connected += connected;
        if (--removal->to_ask == 0) finish(removal);
      });
    });
  }
}

/// Removes the job, unless a session is connected or connecting. After JobTable::close(), every
/// hello must ask the directory, and the answer raises the lookup number of the run. If the lookup
/// number of a run has changed, a client is connecting.
void DirectoryHost::finish(const std::shared_ptr<Removal>& removal) {
  if (!directory_) return removal->then(closed());
  bool connecting = false;
  for (std::size_t i = 0; i < removal->numbers.size(); ++i) {
    connecting = connecting || lookups_[removal->numbers[i]] != removal->lookups[i];
  }
  if (removal->connected > 0 || connecting) {
    for (const JobNumber number : removal->numbers) {
      JobHost& host = shell_.host_of(number);
      host.loop().post([&host, number] { host.jobs().keep(number); });
    }
    const std::string evidence = removal->connected > 0
                                     ? format("{} sessions are connected", removal->connected)
                                     : "a client is connecting";
    return removal->then(failure(Code::unavailable,
                                 "job \"{}\" is in use: {}; end its processes first", removal->job,
                                 evidence));
  }
  if (fleet_) return remove_shared(removal->name, removal->numbers, removal->then);
  const Revision before = directory_->revision();
  std::vector<Endpoint> endpoints;
  Directory::Retired retired = directory_->remove(removal->name, removal->numbers, endpoints);
  for (const Endpoint& endpoint : endpoints) ports_->close(endpoint, "released");
  strike_out(std::move(retired), before, "removed", [removal](bool durable) {
    if (durable) return removal->then(Result<void>());
    removal->then(unavailable("the engine was lost; the job may or may not have been removed"));
  });
}

}  // namespace c10dd::core
