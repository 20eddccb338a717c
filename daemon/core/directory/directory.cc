// SPDX-License-Identifier: Apache-2.0
// Rows: key 'i' holds the incarnation, and key 'n' holds the next job number. Key 'j' + job + run
// holds the number of that run. Key 'm' + number marks a job that was retired, and whose own rows
// are still to be erased. Key 'e' begins the row of an endpoint, see endpoints.cc.
#include "daemon/core/directory/directory.h"

#include "daemon/core/row_key.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/names.h"

namespace c10dd::core {
namespace {

Failure damaged_row() { return failure(Code::malformed, "damaged row in the job directory"); }

Bytes number_value(std::uint64_t n) { return RowKey('n').number(n).take(); }
Bytes name_key(const std::pair<std::string, std::string>& name) {
  return RowKey('j').text(name.first).rest(name.second).take();
}

}  // namespace

Result<void> check_run_name(const std::string& job, const std::string& run) {
  if (Result<void> good = check_name("job", job); !good) return good;
  return check_name_or_none("run", run);
}

Result<void> Directory::restore(const Row& row) {
  if (Endpoints::owns(row)) return endpoints_.restore(row);
  RowKeyReader key(row.key);
  RowKeyReader value(row.value);
  const std::uint64_t number = value.number();
  bool known = true;
  if (row.key == "i") {
    incarnation_ = number;
  } else if (row.key == "n") {
    next_ = std::max(next_, number);
  } else if (row.key.starts_with('m')) {
    static_cast<void>(key.number());
    marks_.insert(number);
  } else if (row.key.starts_with('j')) {
    Name name;
    name.first = key.text();
    name.second = key.rest();
    names_[number] = name;
    numbers_[std::move(name)] = number;
    next_ = std::max(next_, number + 1);
  } else {
    known = false;
  }
  if (!known || !value.complete() || !key.complete()) return damaged_row();
  return {};
}

Row Directory::precondition() const { return {Row::Kind::put, "i", number_value(incarnation_)}; }

Effects Directory::resume(std::uint64_t random, bool renew, TimePoint now) {
  Effects out;
  if (incarnation_ == 0 || renew) {
    incarnation_ = random == 0 ? 1 : random;
    ++revision_;
    out.rows.push_back(precondition());
  }
  for (const auto& [number, name] : names_) {
    if (name.second.empty()) continue;
    lease(number, now);
    not_reopened_.insert(number);
  }
  endpoints_.resume(now);
  out.revision = revision_;
  return out;
}

std::optional<JobNumber> Directory::find(const std::string& job, const std::string& run) const {
  const auto it = numbers_.find({job, run});
  if (it == numbers_.end()) return std::nullopt;
  return it->second;
}

Result<JobNumber> Directory::open(const std::string& job, const std::string& run, Effects& out) {
  out.revision = revision_;
  if (const auto known = find(job, run)) {
    mark_in_use(*known);
    return *known;
  }
  if (Result<void> good = check_run_name(job, run); !good) return good.error();
  if (numbers_.size() >= limits_.jobs) {
    return failure(
        Code::quota_exceeded,
        "too many jobs: {} with this one, limit {}; c10ddctl jobs lists them, and c10ddctl rm NAME "
        "removes one that nobody uses",
        numbers_.size() + 1, limits_.jobs);
  }
  const JobNumber number = next_++;
  const Name name{job, run};
  numbers_[name] = number;
  names_[number] = name;
  out.rows.push_back({Row::Kind::put, name_key(name), number_value(number)});
  out.rows.push_back({Row::Kind::put, "n", number_value(next_)});
  out.revision = ++revision_;
  return number;
}

void Directory::mark_in_use(JobNumber number) {
  retirements_.erase(number);
  not_reopened_.erase(number);
  empty_.erase(number);
  named_.erase(number);
}

void Directory::mark_idle(JobNumber number, bool empty, TimePoint now) {
  if (!names_.contains(number)) return;
  lease(number, now);
  if (empty) empty_.insert(number);
}

/// Starts the grace period of a job. A grace period that has already begun starts again.
void Directory::lease(JobNumber number, TimePoint now) {
  mark_in_use(number);
  retirements_.set(number, now + limits_.run_grace);
}

Directory::NamedRun Directory::entry(JobNumber number) const {
  const Name& name = names_.at(number);
  return {name.first, name.second, number};
}

/// Removes a job. Adds the job to out.entries, and the erasure of its row to out.effects.
void Directory::strike(JobNumber number, Retired& out) {
  mark_in_use(number);
  out.entries.push_back(entry(number));
  const auto name = names_.extract(number);
  numbers_.erase(name.mapped());
  out.effects.rows.push_back({Row::Kind::erase, name_key(name.mapped()), {}});
}

Directory::Retired Directory::tick(TimePoint now) {
  Retired out = due(now);
  for (const NamedRun& over : std::exchange(out.entries, {})) strike(over.number, out);
  if (!out.entries.empty()) ++revision_;
  out.effects.revision = revision_;
  return out;
}

Directory::Retired Directory::due(TimePoint now) {
  Retired out;
  while (const auto due = retirements_.take_due(now)) {
    const JobNumber number = *due;
    if (const Name& name = names_.at(number); endpoints_.names_run(name.first, name.second)) {
      named_.insert(number);
      continue;
    }
    const bool not_reopened = not_reopened_.contains(number);
    const bool kept = names_.at(number).second.empty() && !empty_.contains(number);
    mark_in_use(number);
    if (!not_reopened && !kept) {
      out.entries.push_back(entry(number));
    } else {
      (not_reopened ? out.not_reopened : out.idle).push_back(entry(number));
    }
  }
  return out;
}

// ---- several daemons ---------------------------------------------------------------------------

Row Directory::mark_of(JobNumber number) {
  return {Row::Kind::put, RowKey('m').number(number).take(), number_value(number)};
}

Row Directory::entry_row(JobNumber number) const {
  const auto name = names_.find(number);
  if (name == names_.end()) return {};
  return {Row::Kind::put, name_key(name->second), number_value(number)};
}

Directory::Retired Directory::retire(const std::vector<JobNumber>& numbers) {
  return marked(remove(numbers));
}

Directory::Retired Directory::retire_all(const std::string& job, const std::vector<JobNumber>& runs,
                                         std::vector<Endpoint>& removed) {
  return marked(remove(job, runs, removed));
}

/// Adds a mark for each job that was removed.
Directory::Retired Directory::marked(Retired out) {
  for (const NamedRun& entry : out.entries) {
    marks_.insert(entry.number);
    out.effects.rows.push_back(mark_of(entry.number));
  }
  return out;
}

void Directory::mark_nameless(const std::vector<JobNumber>& numbers, Effects& out) {
  if (numbers.empty()) return;
  for (const JobNumber number : numbers) {
    marks_.insert(number);
    next_ = std::max(next_, number + 1);
    out.rows.push_back(mark_of(number));
  }
  out.rows.push_back({Row::Kind::put, "n", number_value(next_)});
  out.revision = ++revision_;
}

void Directory::forget_marks(const std::vector<JobNumber>& numbers, Effects& out) {
  for (const JobNumber number : numbers) {
    if (marks_.erase(number) == 0) continue;
    out.rows.push_back({Row::Kind::erase, mark_of(number).key, {}});
  }
  finish(out);
}

void Directory::mark_elsewhere(JobNumber number, TimePoint now) {
  const auto name = names_.find(number);
  if (name == names_.end()) return;
  mark_in_use(number);
  if (name->second.second.empty()) return;  // a job without a run is kept anyway
  lease(number, now);
  not_reopened_.insert(number);
}

Result<Directory::Followed> Directory::follow(const Rows& rows, Revision revision, TimePoint now) {
  Followed followed;
  std::map<JobNumber, Name> removed;
  std::set<JobNumber> added;
  for (const RowView& row : rows) {
    Result<void> taken;
    if (Endpoints::owns(row)) {
      const Result<bool> changed = endpoints_.follow(row, now);
      if (!changed) return changed.error();
      followed.endpoints = followed.endpoints || *changed;
    } else if (row.key.starts_with('j')) {
      taken = follow_name(row, removed, added);
    } else {
      taken = follow_row(row);
    }
    if (!taken) return taken.error();
  }
  revision_ = revision;
  for (const auto& [number, name] : removed) {
    followed.removed.push_back({name.first, name.second, number});
    mark_in_use(number);
  }
  for (const JobNumber number : added) mark_elsewhere(number, now);
  return followed;
}

/// Takes the row of a name. A job that is removed and added again is neither.
Result<void> Directory::follow_name(const RowView& row, std::map<JobNumber, Name>& removed,
                                    std::set<JobNumber>& added) {
  RowKeyReader key(row.key);
  RowKeyReader value(row.value);
  Name name;
  name.first = key.text();
  name.second = key.rest();
  const bool put = row.kind == Row::Kind::put;
  const JobNumber number = put ? value.number() : 0;
  if (!key.complete() || (put && !value.complete())) return damaged_row();
  const auto known = numbers_.find(name);
  if (known != numbers_.end() && known->second != number) {
    if (added.erase(known->second) == 0) removed[known->second] = name;
    names_.erase(known->second);
    numbers_.erase(known);
  }
  if (!put || numbers_.contains(name)) return {};
  next_ = std::max(next_, number + 1);
  numbers_[name] = number;
  names_[number] = std::move(name);
  if (removed.erase(number) == 0) added.insert(number);
  return {};
}

/// Takes a row of another kind.
Result<void> Directory::follow_row(const RowView& row) {
  RowKeyReader key(row.key);
  RowKeyReader value(row.value);
  if (row.kind == Row::Kind::erase && row.key.starts_with('m')) {
    marks_.erase(key.number());
    return key.complete() ? Result<void>() : damaged_row();
  }
  if (row.kind != Row::Kind::put) return damaged_row();
  if (row.key != "n") return restore(row);
  next_ = value.number();
  return value.complete() ? Result<void>() : damaged_row();
}

Rows Directory::rows() const {
  Rows rows;
  rows.push_back(precondition());
  rows.push_back({Row::Kind::put, "n", number_value(next_)});
  for (const auto& [number, name] : names_) rows.push_back(entry_row(number));
  for (const JobNumber number : marks_) rows.push_back(mark_of(number));
  endpoints_.append_rows(rows);
  return rows;
}

// ---- removal -----------------------------------------------------------------------------------

Directory::Retired Directory::remove(const std::vector<JobNumber>& numbers) {
  Retired out;
  for (const JobNumber number : numbers) {
    if (names_.contains(number)) strike(number, out);
  }
  if (!out.entries.empty()) ++revision_;
  out.effects.revision = revision_;
  return out;
}

Directory::Retired Directory::remove(const std::string& job, const std::vector<JobNumber>& runs,
                                     std::vector<Endpoint>& removed) {
  const Revision before = revision_;
  Retired out = remove(runs);
  for (const Endpoint& endpoint : endpoints_.of_job(job)) {
    removed.push_back(endpoint);
    endpoints_.release({job, endpoint.name}, out.effects.rows);
  }
  revision_ = before;
  finish(out.effects);
  return out;
}

// ---- endpoints ---------------------------------------------------------------------------------

/// Raises the revision if there are rows.
void Directory::finish(Effects& out) {
  if (!out.rows.empty()) ++revision_;
  out.revision = revision_;
}

Result<void> Directory::lease_endpoint(const Endpoint& endpoint, TimePoint now, Effects& out) {
  const Revision before = revision_;
  if (!endpoint.run.empty() && !find(endpoint.job, endpoint.run)) {
    const Result<JobNumber> number = open(endpoint.job, endpoint.run, out);
    if (!number) return number.error();
    mark_idle(*number, true, now);
  }
  endpoints_.put(endpoint, now, out.rows);
  revision_ = before;
  finish(out);
  return {};
}

std::optional<Endpoint> Directory::release_endpoint(const Endpoints::Name& name, TimePoint now,
                                                    Effects& out) {
  const std::optional<Endpoint> endpoint = endpoints_.release(name, out.rows);
  if (endpoint) endpoint_gone(*endpoint, now);
  finish(out);
  return endpoint;
}

std::vector<Endpoint> Directory::expire_endpoints(TimePoint now, bool renews, Effects& out) {
  std::vector<Endpoint> expired;
  while (renews && endpoints_.renew_used(now, out.rows)) {
  }
  while (const std::optional<Endpoint> endpoint = endpoints_.expire(now, out.rows)) {
    endpoint_gone(*endpoint, now);
    expired.push_back(*endpoint);
  }
  finish(out);
  return expired;
}

/// Starts the grace of the run that an endpoint has named, if nobody uses it.
void Directory::endpoint_gone(const Endpoint& endpoint, TimePoint now) {
  const std::optional<JobNumber> number = find(endpoint.job, endpoint.run);
  if (!number || endpoint.run.empty()) return;
  if (named_.erase(*number) == 0 && !retirements_.contains(*number)) return;
  retirements_.set(*number, now + limits_.run_grace);
}

// ---- queries -----------------------------------------------------------------------------------

std::vector<Directory::NamedRun> Directory::entries() const {
  std::vector<NamedRun> entries;
  for (const auto& [number, name] : names_) entries.push_back(entry(number));
  return entries;
}

std::vector<Directory::NamedRun> Directory::entries(const std::string& job) const {
  std::vector<NamedRun> entries;
  for (auto it = numbers_.lower_bound({job, {}}); it != numbers_.end() && it->first.first == job;
       ++it) {
    entries.push_back(entry(it->second));
  }
  return entries;
}

}  // namespace c10dd::core
