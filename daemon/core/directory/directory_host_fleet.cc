// SPDX-License-Identifier: Apache-2.0
// Changes of a directory that several daemons share, and the owners of jobs.
#include "daemon/core/directory/directory_host.h"

#include <algorithm>
#include <cstddef>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

using Batch = DirectoryHost::DirectoryBatch;

/// How many jobs leave the directory, or are erased, in one step: for each the engine is asked, and
/// meanwhile the commits of the other jobs wait.
constexpr std::size_t kJobsAtOnce = 64;

/// How many changes are written together at most.
constexpr std::size_t kChangesAtOnce = 256;

/// How often other daemons may overtake a change before it asks for a turn. The first times are
/// cheap, and often the other daemon has made what was to be changed: ranks of one new job that
/// come through two daemons.
constexpr int kOvertakenAtMost = 2;

/// Returns the items in parts of kJobsAtOnce.
template <class T>
std::vector<std::vector<T>> in_parts(const std::vector<T>& all) {
  std::vector<std::vector<T>> parts;
  for (std::size_t at = 0; at < all.size(); at += kJobsAtOnce) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t size = std::min(kJobsAtOnce, all.size() - at);
    parts.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(size));
  }
  return parts;
}

std::vector<JobNumber> numbers_of(const std::vector<Directory::NamedRun>& entries) {
  std::vector<JobNumber> numbers;
  for (const Directory::NamedRun& entry : entries) numbers.push_back(entry.number);
  return numbers;
}

}  // namespace

void DirectoryHost::heard(const store::FleetReading& reading) {
  fleet_->read(reading.daemons, loop_.now());
  if (directory_ && reading.directory > directory_->revision()) found_gone();
}

void DirectoryHost::decide_claim(const store::Holder& holder, HostLoop& back,
                                 std::function<void(ClaimDecision)> then) {
  loop_.dispatch([this, holder, &back, then = std::move(then)] {
    const ClaimDecision decision = fleet_ ? fleet_->decide_claim(holder) : ClaimDecision{};
    back.dispatch([then, decision] { then(decision); });
  });
}

void DirectoryHost::note_dropped(JobNumber job) {
  loop_.dispatch([this, job] {
    if (directory_) directory_->mark_elsewhere(job, job_time());
  });
}

void DirectoryHost::found_gone() {
  loop_.dispatch([this] {
    behind_ = true;
    next_change();
  });
}

void DirectoryHost::after_changes(std::function<void()> then) {
  if (!directory_ || !fleet_) return then();
  followers_.push_back(std::move(then));
  next_change();
}

std::vector<Directory::NamedRun> DirectoryHost::runs() const {
  return directory_ ? directory_->entries() : std::vector<NamedRun>();
}

std::vector<Directory::NamedRun> DirectoryHost::runs(const std::string& job) const {
  return directory_ ? directory_->entries(job) : std::vector<NamedRun>();
}

void DirectoryHost::serve(const NamedRun& run, std::function<void(Result<void>)> then) {
  if (!directory_) return then(closed());
  if (draining_) return then(unavailable("the daemon is shutting down"));
  if (directory_->find(run.job, run.run) != run.number) {
    return then(failure(Code::not_found, "run \"{}\" of job \"{}\" does not exist any more",
                        printable(run.run, limits::kNameShown),
                        printable(run.job, limits::kNameShown)));
  }
  directory_->mark_in_use(run.number);
  const JobLocation location = location_of(run.number);
  JobHost& host = *location.host;
  host.loop().post([this, &host, location, run, then = std::move(then)] {
    host.serve(location, run.job, run.run, [this, then](const Result<JobRef>& served) {
      loop_.post([then, done = served ? Result<void>() : served.error()] { then(done); });
    });
  });
}

// ---- changes -----------------------------------------------------------------------------------

/// Makes a change. Without other daemons, makes it at once: who uses it later finds it committed.
void DirectoryHost::change(Change change) {
  if (fleet_) {
    changes_.push_back(std::move(change));
    return next_change();
  }
  Batch batch = change.decide();
  if (!batch.rows.empty()) return shell_.write(std::move(batch), std::move(change.then));
  if (change.then) change.then({Written::Outcome::durable});
}

void DirectoryHost::next_change() {
  if (busy_ || !directory_) return;
  if (behind_) return follow();
  for (const auto& then : std::exchange(followers_, {})) then();
  if (busy_ || changes_.empty() || !directory_) return;
  busy_ = true;
  decide();
  if (decided_.rows.empty()) return changed({Written::Outcome::durable});
  shell_.write(decided_, [this, generation = generation_](const Written& written) {
    if (directory_ && generation == generation_) changed(written);
  });
}

/// Decides the changes that are to be written next, as one batch.
void DirectoryHost::decide() {
  decided_ = changes_.front().decide();
  decided_.turn = overtaken_ >= kOvertakenAtMost;
  together_ = 1;
  if (changes_.front().alone) return;
  while (together_ < std::min(changes_.size(), kChangesAtOnce) && !changes_[together_].alone) {
    Batch next = changes_[together_++].decide();
    if (next.rows.empty()) continue;
    if (decided_.rows.empty()) decided_.from = next.from;
    decided_.to = next.to;
    for (const RowView& row : next.rows) decided_.rows.add(row.kind, row.key, row.value);
  }
}

/// Ends the changes under way, or follows those by which another daemon was faster and then decides
/// again.
void DirectoryHost::changed(const Written& result) {
  if (result.outcome == Written::Outcome::lost) return;  // lost() follows, and ends all changes
  if (result.durable()) {
    mirror_.apply(decided_.rows);
  } else {
    undo();
  }
  decided_ = {};
  if (!directory_) return;
  if (result.outcome == Written::Outcome::moved) {
    ++overtaken_;
    return follow();
  }
  overtaken_ = 0;
  const auto end = changes_.begin() + static_cast<std::ptrdiff_t>(std::exchange(together_, 0));
  std::vector<Change> made(std::make_move_iterator(changes_.begin()), std::make_move_iterator(end));
  changes_.erase(changes_.begin(), end);
  const std::uint64_t generation = generation_;
  for (const Change& change : made) {
    if (change.then) change.then(result);
  }
  if (!directory_ || generation != generation_) return;
  busy_ = false;
  next_change();
}

/// Undoes changes that were decided, but not made. No host knows the jobs that they have added.
void DirectoryHost::undo() {
  const Result<Directory::Followed> done =
      directory_->follow(mirror_.undo(decided_.rows), decided_.from, job_time());
  if (!done) return shell_.directory_damaged(done.error());
  if (done->endpoints) restore_endpoints();
}

void DirectoryHost::follow() {
  busy_ = true;
  behind_ = false;
  shell_.read(directory_->revision(),
              [this, generation = generation_](std::optional<DirectoryNews> news) {
                if (directory_ && news && generation == generation_) followed(std::move(*news));
              });
}

void DirectoryHost::followed(DirectoryNews news) {
  const Rows rows = news.whole ? mirror_.difference(*news.whole) : std::move(news.changes);
  mirror_.apply(rows);
  take(rows, news.revision);
  if (!directory_) return;
  busy_ = false;
  next_change();
}

/// Makes the directory that of another revision.
void DirectoryHost::take(const Rows& rows, Revision revision) {
  const Result<Directory::Followed> done = directory_->follow(rows, revision, job_time());
  if (!done) return shell_.directory_damaged(done.error());
  for (const NamedRun& gone : done->removed) lookups_.erase(gone.number);
  drop_runs(done->removed, {});
  if (done->endpoints) restore_endpoints();
}

/// Makes the hosts drop these runs, then calls `then` on the loop.
void DirectoryHost::drop_runs(const std::vector<NamedRun>& runs,
                              const std::function<void()>& then) {
  const auto left = std::make_shared<std::size_t>(runs.size());
  for (const NamedRun& run : runs) {
    JobHost& host = shell_.host_of(run.number);
    host.loop().post([this, &host, number = run.number, left, then] {
      host.retire(number);
      loop_.post([left, then] {
        if (--*left == 0 && then) then();
      });
    });
  }
}

// ---- jobs --------------------------------------------------------------------------------------

/// Gives a new run a number. The number is told when it is durable: until then another daemon may
/// give it to another run.
void DirectoryHost::locate_new(const std::string& job, const std::string& run,
                               const JobAsker& asker,
                               std::function<void(Result<JobLocation>)> then) {
  const auto number = std::make_shared<Result<JobNumber>>(closed());
  change({[this, job, run, asker, number]() -> Batch {
            Effects effects;
            const Revision before = directory_->revision();
            *number = number_of(job, run, asker, effects);
            return {before, effects.revision, std::move(effects.rows), {}};
          },
          [this, number, then = std::move(then)](const Written& written) {
            if (!number->has_value()) return then(number->error());
            if (!written.durable()) return then(closed());
            then(location_of(**number));
          }});
}

/// As locate_new(), when the client may make another job.
void DirectoryHost::locate_paced(const std::string& job, const std::string& run,
                                 const JobAsker& asker,
                                 std::function<void(Result<JobLocation>)> then) {
  const std::string& client = asker.client;
  const TimePoint now = job_time();
  const std::optional<TimePoint> when = client.empty() ? now : pace_.next(client, now);
  if (!when) {
    return then(
        unavailable(format("{} creates more than {} new jobs per second, and too many are "
                           "waiting; create fewer jobs, or use one job with several runs",
                           client, limits::kNewJobsPerSecond)));
  }
  if (*when <= now) return locate_new(job, run, asker, std::move(then));
  paced_.emplace(*when, [this, job, run, asker, then = std::move(then)] {
    directory_ ? locate_new(job, run, asker, then) : then(closed());
  });
}

void DirectoryHost::locate_due(TimePoint now) {
  while (!paced_.empty() && paced_.begin()->first <= now) {
    const auto due = paced_.extract(paced_.begin());
    due.mapped()();
  }
}

/// Retires the runs whose grace is over, and which this daemon owns.
void DirectoryHost::retire_shared(const std::vector<NamedRun>& over) {
  if (over.size() > kJobsAtOnce) {
    for (const std::vector<NamedRun>& part : in_parts(over)) retire_shared(part);
    return;
  }
  struct Retirement {
    std::map<JobNumber, std::uint64_t> numbers;  ///< with the lookup number when it was due
    std::vector<NamedRun> entries;
  };
  const auto retirement = std::make_shared<Retirement>();
  for (const NamedRun& run : over) retirement->numbers[run.number] = lookups_[run.number];
  const auto decide = [this, retirement]() -> Batch {
    std::vector<JobNumber> numbers;
    for (const auto& [number, lookup] : retirement->numbers) {
      if (lookups_[number] == lookup) numbers.push_back(number);  // no hello came meanwhile
    }
    const Revision before = directory_->revision();
    Directory::Retired retired = directory_->retire(numbers);
    retirement->entries = std::move(retired.entries);
    return {before, retired.effects.revision, std::move(retired.effects.rows),
            numbers_of(retirement->entries)};
  };
  const auto then = [this, retirement](const Written& written) {
    for (const JobNumber held : written.held) retirement->numbers.erase(held);
    if (written.outcome == Written::Outcome::held) {
      std::vector<NamedRun> mine;
      for (const NamedRun& entry : retirement->entries) {
        if (retirement->numbers.contains(entry.number)) mine.push_back(entry);
      }
      if (!mine.empty()) retire_shared(mine);
      return;
    }
    if (!written.durable()) return;
    for (const NamedRun& entry : retirement->entries) {
      shell_.struck_out(entry, "retired");
      lookups_.erase(entry.number);
    }
    drop_runs(retirement->entries,
              [this, retirement] { erase_marked(numbers_of(retirement->entries)); });
  };
  change({decide, then, true});
}

void DirectoryHost::remove_shared(const std::string& job, const std::vector<JobNumber>& numbers,
                                  std::function<void(Result<void>)> then) {
  const auto entries = std::make_shared<std::vector<NamedRun>>();
  const auto decide = [this, job, numbers, entries]() -> Batch {
    const Revision before = directory_->revision();
    std::vector<Endpoint> endpoints;
    Directory::Retired retired = directory_->retire_all(job, numbers, endpoints);
    for (const Endpoint& endpoint : endpoints) ports_->close(endpoint, "released");
    *entries = std::move(retired.entries);
    return {before, retired.effects.revision, std::move(retired.effects.rows),
            numbers_of(*entries)};
  };
  change({decide,
          [this, job, entries, then = std::move(then)](const Written& written) {
            if (written.outcome == Written::Outcome::held) {
              return then(failure(Code::not_owner,
                                  "other daemons serve runs of job \"{}\"; end the processes "
                                  "of these runs first, then remove the job there",
                                  printable(job, limits::kNameShown)));
            }
            if (!written.durable()) {
              return then(
                  unavailable("the engine was lost; the job may or may not have been removed"));
            }
            for (const NamedRun& entry : *entries) {
              shell_.struck_out(entry, "removed");
              lookups_.erase(entry.number);
            }
            drop_runs(*entries, [this, entries] { erase_marked(numbers_of(*entries)); });
            then(Result<void>());
          },
          true});
}

/// Erases what the engine keeps of marked jobs, then their marks.
void DirectoryHost::erase_marked(const std::vector<JobNumber>& numbers) {
  if (numbers.empty() || !directory_) return;
  if (numbers.size() > kJobsAtOnce) {
    for (const std::vector<JobNumber>& part : in_parts(numbers)) erase_marked(part);
    return;
  }
  shell_.forget(numbers, [this, numbers](bool done) {
    if (!done || !directory_) return;
    change({[this, numbers]() -> Batch {
              Effects effects;
              const Revision before = directory_->revision();
              directory_->forget_marks(numbers, effects);
              return {before, effects.revision, std::move(effects.rows), {}};
            },
            {}});
  });
}

}  // namespace c10dd::core
