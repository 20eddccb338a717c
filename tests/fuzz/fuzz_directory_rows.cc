// SPDX-License-Identifier: Apache-2.0
// Any rows as those of the directory of jobs, then openings, closings, leases and time: damaged
// rows are refused; numbers are unique, names too; what the directory stores it reads again as the
// same.
#include <map>
#include <set>

#include "daemon/core/directory/directory.h"
#include "tests/fuzz/draw.h"
#include "tests/fuzz/target.h"

namespace {

using c10dd::Bytes;
using c10dd::core::Directory;
using c10dd::fuzz::Draw;
using c10dd::fuzz::Input;
using Rows = std::map<Bytes, Bytes>;

void keep(const c10dd::core::Effects& effects, c10dd::Revision before, Rows& rows) {
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

void lease(Directory& directory, Input& in, c10dd::TimePoint now, Rows& rows) {
  const c10dd::Revision before = directory.revision();
  Draw draw(in);
  std::string job;
  c10dd::LeaseEndpoint request;
  draw.fill(job);
  draw.fill(request);
  auto endpoint = directory.endpoints().check(job, request);
  if (!endpoint) return;
  if (endpoint->port == 0) endpoint->port = static_cast<std::uint16_t>(1 + in.byte());
  const auto* known = directory.endpoints().find({job, request.name});
  if (known == nullptr && directory.endpoints().has_port(endpoint->port)) return;
  c10dd::core::Effects effects;
  const auto leased = directory.lease_endpoint(*endpoint, now, effects);
  keep(effects, before, rows);
  C10DD_ASSERT(!leased || *directory.endpoints().find({job, request.name}) == *endpoint);
}

void step(Directory& directory, Input& in, c10dd::TimePoint& now, Rows& rows) {
  const c10dd::Revision before = directory.revision();
  Draw draw(in);
  std::string job;
  std::string run;
  c10dd::JobNumber number = 0;
  switch (in.below(8)) {
    case 0: {
      draw.fill(job);
      draw.fill(run);
      c10dd::core::Effects effects;
      const bool known = directory.find(job, run).has_value();
      const auto opened = directory.open(job, run, effects);
      keep(effects, before, rows);
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
    case 3:
      return lease(directory, in, now, rows);
    case 4: {
      draw.fill(job);
      draw.fill(run);
      c10dd::core::Effects effects;
      directory.release_endpoint({job, run}, now, effects);
      return keep(effects, before, rows);
    }
    case 5:
      draw.fill(job);
      draw.fill(run);
      return directory.set_endpoint_in_use({job, run}, in.byte() % 2 == 0, now);
    case 6: {
      now += std::chrono::seconds(in.byte());
      c10dd::core::Effects effects;
      for (const auto& endpoint : directory.expire_endpoints(now, false, effects)) {
        C10DD_ASSERT(!directory.endpoints().has_port(endpoint.port));
      }
      keep(effects, before, rows);
      const auto next = directory.endpoints().next_deadline();
      C10DD_ASSERT(next.value_or(c10dd::TimePoint::max()) > now);
      return;
    }
    default: {
      now += std::chrono::seconds(in.byte());
      const Directory::Retired retired = directory.tick(now);
      keep(retired.effects, before, rows);
      for (const Directory::NamedRun& entry : retired.entries) {
        C10DD_ASSERT(!directory.endpoints().names_run(entry.job, entry.run));
      }
      C10DD_ASSERT(directory.next_deadline().value_or(c10dd::TimePoint::max()) > now);
    }
  }
}

}  // namespace

C10DD_FUZZ(directory_rows) {
  Input in(data, size);
  Rows rows;
  for (std::size_t n = in.below(16); n > 0; --n) rows[Bytes(in.text())] = in.text();
  Directory::Limits limits;
  limits.jobs = 8;
  limits.endpoints = 4;
  Directory directory(in.byte(), limits);
  if (!restore(directory, rows)) return 0;
  c10dd::TimePoint now;
  const c10dd::Revision before = directory.revision();
  keep(directory.resume(in.byte(), in.byte() == 1, now), before, rows);
  while (!in.empty()) step(directory, in, now, rows);
  Directory again(directory.revision(), limits);
  C10DD_ASSERT(restore(again, rows));
  C10DD_ASSERT(again.resume(1, false, now).rows.empty());
  C10DD_ASSERT(again.incarnation() == directory.incarnation());
  C10DD_ASSERT(jobs_of(again) == jobs_of(directory));
  C10DD_ASSERT(again.endpoints().all() == directory.endpoints().all());
  return 0;
}
