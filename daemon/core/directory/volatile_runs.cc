// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/directory/volatile_runs.h"

#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

Directory::NamedRun named(JobNumber number, std::pair<std::string, std::string> name) {
  return {std::move(name.first), std::move(name.second), number};
}

}  // namespace

Result<JobNumber> VolatileRuns::open(const std::string& job, const std::string& run,
                                     const std::string& address) {
  if (const auto known = find(job, run)) return *known;
  if (Result<void> good = check_run_name(job, run); !good) return good.error();
  if (auto refused = refusal(address)) return std::move(*refused);
  if (live_.size() + ended_.size() >= settings_.runs) make_room();
  enter({job, run}, next_, address);
  return next_++;
}

/// Returns why there is no place for one more live run of this address, if there is none.
std::optional<Failure> VolatileRuns::refusal(const std::string& address) const {
  std::size_t runs = live_.size();
  if (planted(Planted::ended_run_kept)) runs += ended_.size();
  if (runs >= settings_.runs) {
    return failure(Code::quota_exceeded,
                   "too many in-memory runs: {} with this one, limit {}; end some, or lease "
                   "endpoints with a run",
                   runs + 1, settings_.runs);
  }
  const std::size_t most = settings_.runs - settings_.runs / 2;
  const auto known = by_address_.find(address);
  const std::size_t here = known == by_address_.end() ? 0 : known->second;
  if (here < most) return std::nullopt;
  return failure(
      Code::quota_exceeded,
      "too many in-memory runs from {}: {} with this one, limit {} (half of all); end some, "
      "or lease endpoints with a run",
      address, here + 1, most);
}

void VolatileRuns::enter(Name name, JobNumber number, const std::string& address) {
  live_[std::move(name)] = {number, address};
  ++by_address_[address];
}

std::optional<JobNumber> VolatileRuns::find(const std::string& job, const std::string& run) const {
  const auto it = live_.find({job, run});
  if (it == live_.end()) return std::nullopt;
  return it->second.number;
}

std::optional<JobNumber> VolatileRuns::end(const std::string& job, const std::string& run,
                                           TimePoint now) {
  auto node = live_.extract({job, run});
  if (node.empty()) return std::nullopt;
  const JobNumber number = node.mapped().number;
  const auto counted = by_address_.find(node.mapped().address);
  if (--counted->second == 0) by_address_.erase(counted);
  newest_ended_[node.key()] = number;
  ended_[number].name = std::move(node.key());
  retirements_.set(number, now + settings_.grace);
  bound_ended();
  return number;
}

std::optional<JobNumber> VolatileRuns::resume(const std::string& job, const std::string& run,
                                              const std::string& address) {
  const auto newest = newest_ended_.find({job, run});
  if (newest == newest_ended_.end()) return std::nullopt;
  const JobNumber number = newest->second;
  retirements_.erase(number);
  enter(take_ended(number).name, number, address);
  return number;
}

void VolatileRuns::weigh(JobNumber number, std::uint64_t bytes) {
  const auto found = ended_.find(number);
  if (found == ended_.end()) return;
  ended_bytes_ += bytes - std::exchange(found->second.bytes, bytes);
  bound_ended();
}

/// The newest stays whatever its size: its clients may come back.
void VolatileRuns::bound_ended() {
  while (ended_.size() > settings_.ended ||
         (ended_.size() > 1 && ended_bytes_ > settings_.ended_bytes)) {
    make_room();
  }
}

void VolatileRuns::make_room() {
  const auto oldest = retirements_.take_due(TimePoint::max());
  if (oldest) over_.push_back(named(*oldest, take_ended(*oldest).name));
}

/// Takes a run that has ended out of all lists but retirements_.
VolatileRuns::Ended VolatileRuns::take_ended(JobNumber number) {
  auto node = ended_.extract(number);
  ended_bytes_ -= node.mapped().bytes;
  const auto newest = newest_ended_.find(node.mapped().name);
  if (newest != newest_ended_.end() && newest->second == number) newest_ended_.erase(newest);
  return std::move(node.mapped());
}

std::vector<Directory::NamedRun> VolatileRuns::tick(TimePoint now) {
  while (retirements_.next().value_or(TimePoint::max()) <= now) make_room();
  return std::exchange(over_, {});
}

std::optional<TimePoint> VolatileRuns::next_deadline() const {
  return over_.empty() ? retirements_.next() : TimePoint();
}

std::vector<Directory::NamedRun> VolatileRuns::live(const std::string& job) const {
  std::vector<Directory::NamedRun> entries;
  for (auto it = live_.lower_bound({job, {}}); it != live_.end() && it->first.first == job; ++it) {
    entries.push_back({it->first.first, it->first.second, it->second.number});
  }
  return entries;
}

}  // namespace c10dd::core
