// SPDX-License-Identifier: Apache-2.0
// Any rows as those of the directory of jobs, then openings, closings and time: damaged rows are
// refused; numbers are unique, names too; what the directory stores it reads again as the same.
#include <map>
#include <set>

#include "daemon/core/directory.h"
#include "tests/fuzz/draw.h"

namespace {

using c10dd::Bytes;
using c10dd::core::Directory;
using c10dd::fuzz::Draw;
using c10dd::fuzz::Input;
using Rows = std::map<Bytes, Bytes>;

void store(const c10dd::core::Effects& effects, c10dd::Revision before, Rows& rows) {
  C10DD_ASSERT(effects.revision == before + (effects.rows.empty() ? 0 : 1));
  for (const c10dd::Row& row : effects.rows) {
    if (row.kind == c10dd::Row::Kind::put) {
      rows[row.key] = row.value;
    } else {
      C10DD_ASSERT(rows.erase(row.key) == 1);
    }
  }
}

bool restore(Directory& directory, const Rows& rows) {
  for (const auto& [key, value] : rows) {
    if (!directory.restore({c10dd::Row::Kind::put, key, value})) return false;
  }
  return true;
}

std::map<c10dd::JobNumber, std::pair<std::string, std::string>> jobs_of(
    const Directory& directory) {
  std::map<c10dd::JobNumber, std::pair<std::string, std::string>> jobs;
  std::set<std::pair<std::string, std::string>> names;
  for (const Directory::NamedRun& entry : directory.entries()) {
    C10DD_ASSERT(entry.number != Directory::kNumber);
    C10DD_ASSERT(jobs.emplace(entry.number, std::pair(entry.job, entry.run)).second);
    C10DD_ASSERT(names.emplace(entry.job, entry.run).second);
    C10DD_ASSERT(directory.find(entry.job, entry.run) == entry.number);
  }
  return jobs;
}

void step(Directory& directory, Input& in, c10dd::TimePoint& now, Rows& rows) {
  const c10dd::Revision before = directory.revision();
  Draw draw(in);
  std::string job;
  std::string run;
  c10dd::JobNumber number = 0;
  switch (in.below(4)) {
    case 0: {
      draw.fill(job);
      draw.fill(run);
      c10dd::core::Effects effects;
      const bool known = directory.find(job, run).has_value();
      const auto opened = directory.open(job, run, effects);
      store(effects, before, rows);
      C10DD_ASSERT(opened.has_value() == directory.find(job, run).has_value());
      C10DD_ASSERT(!known || effects.rows.empty());
      return;
    }
    case 1:
      draw.fill(number);
      return directory.mark_in_use(number);
    case 2:
      draw.fill(number);
      return directory.mark_idle(number, in.byte() == 0, now);
    default: {
      now += std::chrono::seconds(in.byte());
      store(directory.tick(now).effects, before, rows);
      C10DD_ASSERT(directory.next_deadline().value_or(c10dd::TimePoint::max()) > now);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, size);
  Rows rows;
  for (std::size_t n = in.below(16); n > 0; --n) rows[Bytes(in.text())] = in.text();
  Directory::Limits limits;
  limits.jobs = 8;
  Directory directory(in.byte(), limits);
  if (!restore(directory, rows)) return 0;
  c10dd::TimePoint now;
  const c10dd::Revision before = directory.revision();
  store(directory.resume(in.byte(), in.byte() == 1, now), before, rows);
  while (!in.empty()) step(directory, in, now, rows);
  Directory again(directory.revision(), limits);
  C10DD_ASSERT(restore(again, rows));
  C10DD_ASSERT(again.resume(1, false, now).rows.empty());
  C10DD_ASSERT(again.incarnation() == directory.incarnation());
  C10DD_ASSERT(jobs_of(again) == jobs_of(directory));
  return 0;
}
