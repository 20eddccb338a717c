// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/job_table.h"

#include <algorithm>

#include "daemon/core/host/commit_gate.h"
#include "daemon/core/job/job.h"
#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

JobReport report_on(const JobSlot& slot, SteadyTime now, TimePoint job_time) {
  const Diagnosis& diagnosis = slot.job->diagnosis();
  const bool running = diagnosis.kind == Diagnosis::Kind::none;
  const std::optional<Diagnoses::Ended>& last = slot.job->last_stuck();
  return {.name = slot.name,
          .run = slot.run,
          .number = slot.number,
          .revision = slot.job->revision(),
          .stats = slot.job->stats(),
          .idle = slot.trainers == 0 ? now - slot.quiet_since : Duration{0},
          .diagnosis = diagnosis,
          .diagnosed = running ? Duration{0} : job_time - diagnosis.since,
          .last_stuck = last ? last->diagnosis : Diagnosis{},
          .last_ended = last ? job_time - last->at : Duration{0}};
}

}  // namespace

JobRef JobTable::find(JobNumber number) const {
  const auto found = slots_.find(number);
  return found == slots_.end() ? nullptr : found->second;
}

JobRef JobTable::find(const std::string& job, const std::string& run) const {
  const auto found = by_name_.find({job, run});
  return found == by_name_.end() ? nullptr : found->second;
}

// ---- reports -----------------------------------------------------------------------------------

std::vector<JobReport> JobTable::reports() const {
  std::vector<JobReport> all;
  for (const auto& [number, slot] : slots_) {
    if (slot->serving) all.push_back(report_on(*slot, context_.loop.now(), context_.now()));
  }
  return all;
}

LoadReport JobTable::load_of(const JobSlot& slot) const {
  return {slot.name,
          slot.run,
          slot.number,
          slot.rows_restored,
          slot.bytes_restored,
          slot.rows_stored,
          context_.loop.now() - slot.load_began};
}

std::vector<LoadReport> JobTable::loads() const {
  std::vector<LoadReport> all;
  for (const auto& [number, slot] : slots_) {
    if (!slot->serving && !slot->damaged_until) all.push_back(load_of(*slot));
  }
  return all;
}

std::vector<JobNumber> JobTable::numbers_of(std::string_view job) const {
  std::vector<JobNumber> all;
  for (const auto& [number, slot] : slots_) {
    if (slot->serving && slot->name == job) all.push_back(number);
  }
  return all;
}

std::vector<std::pair<std::string, std::size_t>> JobTable::fleeting_in(std::string_view job) const {
  std::vector<std::pair<std::string, std::size_t>> all;
  for (const auto& [number, slot] : slots_) {
    if (!slot->serving || slot->name != job) continue;
    const auto count = std::ranges::count_if(slot->attached, [](const auto& entry) {
      const Origin& from = entry.second->from;
      return from.fleeting && from.connection != 0;  // a RunClaim has no connection
    });
    if (count > 0) all.emplace_back(slot->run, static_cast<std::size_t>(count));
  }
  return all;
}

std::vector<RunReport> JobTable::runs_of(std::string_view job) const {
  std::vector<RunReport> all;
  for (const auto& [number, slot] : slots_) {
    if (!slot->serving || slot->name != job) continue;
    const JobReport report = report_on(*slot, context_.loop.now(), context_.now());
    all.push_back({report, slot->job->view(context_.now())});
  }
  return all;
}

std::size_t JobTable::unfinished() const {
  std::size_t held = 0;
  for (const auto& [number, slot] : slots_) {
    if (slot->serving && !planted(Planted::drain_drops)) {
      held += slot->gate->held() + (slot->is_volatile ? 0 : slot->rows.size());
    }
  }
  return held;
}

// ---- which jobs are in use ---------------------------------------------------------------------

void JobTable::use(JobSlot& slot, std::uint64_t lookup) {
  slot.lookup = std::max(slot.lookup, lookup);
  slot.in_use = true;
  if (std::exchange(slot.idle, false)) context_.shell.report(&slot, JobCounted{true});
}

void JobTable::report_idle(JobSlot& slot, const JobStats& stats) {
  const bool away_counts = !planted(Planted::away_is_idle);
  if (!slot.in_use || (away_counts ? stats.sessions_known : stats.sessions) > 0) return;
  slot.in_use = false;
  if (slot.is_volatile) return;  // PlainRuns says when it ends
  context_.directory.report_idle(
      {&context_.host, slot.number, context_.engine->generation, slot.lookup}, slot.job->empty());
}

void JobTable::end_series(JobNumber number) {
  const JobRef slot = find(number);
  if (!slot || slot->in_use || !slot->serving) return;
  if (std::exchange(slot->idle, true)) return;
  context_.shell.report(slot.get(), JobCounted{false});
}

std::size_t JobTable::close(JobNumber number) {
  const JobRef slot = find(number);
  if (!slot) return 0;
  const std::size_t connected =
      slot->serving ? slot->job->stats().sessions : slot->when_loaded.size() + slot->told_to_retry;
  if (connected == 0) slot->in_use = false;
  return connected;
}

void JobTable::keep(JobNumber number) {
  const JobRef slot = find(number);
  if (!slot || !slot->serving) return;
  slot->in_use = true;
  touch(slot);
}

std::uint64_t JobTable::end_volatile(JobNumber number) {
  const JobRef slot = find(number);
  if (!slot) return 0;
  slot->in_use = false;
  return slot->bytes;
}

// ---- which jobs there are ----------------------------------------------------------------------

JobRef JobTable::add(const JobLocation& location, const std::string& job, const std::string& run) {
  const auto slot = std::make_shared<JobSlot>(context_.host, job, run, location.number);
  slot->quiet_since = context_.loop.now();
  slots_[location.number] = slot;
  by_name_[{slot->name, slot->run}] = slot;
  if (!planted(Planted::entry_ignored)) slot->entry = location.entry;
  return slot;
}

void JobTable::remove(const JobRef& slot) {
  slot->dropped = true;
  const bool counted = std::exchange(slot->serving, false) && !slot->idle;
  if (counted) context_.shell.report(slot.get(), JobCounted{false});
  slots_.erase(slot->number);
  const auto named = by_name_.find({slot->name, slot->run});
  if (named != by_name_.end() && named->second == slot) by_name_.erase(named);
  const auto bytes = static_cast<std::int64_t>(std::exchange(slot->bytes, 0));
  if (!planted(Planted::bytes_kept)) context_.growth.memory().add_stored(-bytes);
}

void JobTable::count_bytes(JobSlot& slot, const JobStats& stats) {
  const std::size_t bytes = stats.memory();
  if (bytes == slot.bytes) return;
  context_.growth.memory().add_stored(static_cast<std::int64_t>(bytes) -
                                      static_cast<std::int64_t>(slot.bytes));
  slot.bytes = bytes;
}

void JobTable::forget() {
  // A job and its connections own each other. Clearing these containers of the slot ends the cycle.
  for (const auto& [number, slot] : slots_) {
    for (const auto& [session, attachment] : slot->attached) attachment->sink = nullptr;
    slot->attached.clear();
    slot->trainers = 0;
    for (const auto& [key, refused] : slot->refused) refused.to->sink = nullptr;
    slot->refused.clear();
    slot->when_loaded.clear();
  }
  slots_.clear();
  by_name_.clear();
  touched_.clear();
}

}  // namespace c10dd::core
