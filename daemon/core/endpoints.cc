// SPDX-License-Identifier: Apache-2.0
// Rows: key 'e' + job + name holds an EndpointRow.
#include "daemon/core/endpoints.h"

#include <boost/describe/class.hpp>
#include <utility>

#include "daemon/core/directory.h"
#include "daemon/core/plain_runs.h"
#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

/// The value of a row. New fields are appended at the end.
struct EndpointRow {
  std::uint16_t port = 0;
  std::string run;
  Duration ttl{0};
  std::uint32_t world_size = 0;
  std::uint32_t renewals = 0;
};
BOOST_DESCRIBE_STRUCT(EndpointRow, (), (port, run, ttl, world_size, renewals))

Bytes key_of(const Endpoints::Name& name) {
  return RowKey('e').text(name.first).rest(name.second).take();
}

std::string shown(const std::string& name) { return printable(name, limits::kNameShown); }
std::string shown_run(const std::string& run) {
  return run.empty() ? "no run" : "run \"" + shown(run) + '"';
}

Result<void> check_names(const std::string& job, const LeaseEndpoint& request) {
  if (Result<void> good = check_run_name(job, request.run); !good) return good;
  if (Result<void> good = check_name("endpoint", request.name); !good) return good;
  if (!is_plain_name(request.run)) return {};
  return failure(Code::invalid_argument,
                 "run \"{}\" cannot be named by an endpoint: only the daemon makes runs with such "
                 "names; choose another name, or name no run",
                 shown(request.run));
}

}  // namespace

Result<void> check_endpoint_ttl(Duration ttl) {
  if (ttl >= limits::kEndpointTtlMin && ttl <= limits::kEndpointTtlMax) return {};
  const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  return failure(Code::invalid_argument, "ttl of an endpoint is {} s; use {} to {} s", seconds(ttl),
                 seconds(limits::kEndpointTtlMin), seconds(limits::kEndpointTtlMax));
}

Result<void> check_endpoint_world_size(std::int64_t world_size) {
  if (world_size >= 0 && world_size <= limits::kWorldSize) return {};
  return failure(Code::invalid_argument,
                 "world size of an endpoint is {}; use 1 to {}, or none if it is not known",
                 world_size, limits::kWorldSize);
}

Result<void> Endpoints::restore(const Row& row) {
  RowKeyReader key(row.key);
  Name name;
  name.first = key.text();
  name.second = key.rest();
  const Result<EndpointRow> value = wire::decode<EndpointRow>(row.value);
  const bool good = key.complete() && !name.first.empty() && !name.second.empty() && value &&
                    value->port != 0 && !has_port(value->port) && check_endpoint_ttl(value->ttl) &&
                    !endpoints_.contains(name);
  if (!good) return failure(Code::malformed, "damaged row of an endpoint");
  if (planted(Planted::endpoint_forgotten)) return {};
  ports_[value->port] = name;
  if (!value->run.empty()) ++runs_[{name.first, value->run}];
  endpoints_[name] = {name.first, name.second,       value->port,    value->run,
                      value->ttl, value->world_size, value->renewals};
  return {};
}

void Endpoints::resume(TimePoint now) {
  for (const auto& [name, endpoint] : endpoints_) start_ttl(name, now);
}

Result<Endpoint> Endpoints::check(const std::string& job, const LeaseEndpoint& request) const {
  if (Result<void> good = check_names(job, request); !good) return good.error();
  const Duration ttl = request.ttl == Duration::zero() ? limits::kEndpointTtl : request.ttl;
  if (Result<void> good = check_endpoint_ttl(ttl); !good) return good.error();
  const Result<void> sized = check_endpoint_world_size(request.world_size);
  if (!sized) return sized.error();
  Endpoint endpoint{job, request.name, 0, request.run, ttl, request.world_size};
  if (const Endpoint* known = find({job, request.name})) {
    if (known->run != request.run) {
      return failure(Code::invalid_argument,
                     "endpoint \"{}\" of job \"{}\" is leased for {}, not for {}; release it "
                     "first, or choose another name",
                     shown(request.name), shown(job), shown_run(known->run),
                     shown_run(request.run));
    }
    endpoint.port = known->port;
    endpoint.renewals = known->renewals + 1;
  } else if (size() >= most_) {
    return failure(Code::quota_exceeded,
                   "too many endpoints: {} with this one, limit {}; release some", size() + 1,
                   most_);
  }
  return endpoint;
}

void Endpoints::become(const Endpoints& other, TimePoint now) {
  const auto before = std::exchange(endpoints_, other.endpoints_);
  ports_ = other.ports_;
  runs_ = other.runs_;
  for (const auto& [name, endpoint] : before) {
    if (endpoints_.contains(name)) continue;
    in_use_.erase(name);
    deadlines_.erase(name);
    renewals_.erase(name);
  }
  for (const auto& [name, endpoint] : endpoints_) {
    const auto known = before.find(name);
    const bool same = known != before.end() && known->second == endpoint;
    if (!same && !in_use_.contains(name)) start_ttl(name, now);
  }
}

void Endpoints::put(const Endpoint& endpoint, TimePoint now, Rows& rows) {
  const Name name{endpoint.job, endpoint.name};
  if (!endpoints_.contains(name)) {
    C10DD_ASSERT(endpoint.port != 0 && !has_port(endpoint.port));
    ports_[endpoint.port] = name;
    if (!endpoint.run.empty()) ++runs_[{endpoint.job, endpoint.run}];
  }
  endpoints_[name] = endpoint;
  if (!in_use_.contains(name)) start_ttl(name, now);
  const EndpointRow value{endpoint.port, endpoint.run, endpoint.ttl, endpoint.world_size,
                          endpoint.renewals};
  rows.push_back({Row::Kind::put, key_of(name), wire::encode(value)});
}

std::optional<Endpoint> Endpoints::release(const Name& name, Rows& rows) {
  auto node = endpoints_.extract(name);
  if (node.empty()) return std::nullopt;
  Endpoint endpoint = std::move(node.mapped());
  ports_.erase(endpoint.port);
  deadlines_.erase(name);
  renewals_.erase(name);
  in_use_.erase(name);
  const auto run = runs_.find({endpoint.job, endpoint.run});
  if (run != runs_.end() && --run->second == 0) runs_.erase(run);
  rows.push_back({Row::Kind::erase, key_of(name), {}});
  return endpoint;
}

std::optional<Endpoint> Endpoints::expire(TimePoint now, Rows& rows) {
  const std::optional<Name> due = deadlines_.take_due(now);
  if (!due) return std::nullopt;
  return release(*due, rows);
}

void Endpoints::set_in_use(const Name& name, bool in_use, TimePoint now) {
  if (!endpoints_.contains(name)) return;
  if (in_use) {
    if (!in_use_.insert(name).second) return;
    deadlines_.erase(name);
    renewals_.set(name, now);
  } else if (in_use_.erase(name) > 0) {
    start_ttl(name, now);
    renewals_.set(name, now);
  }
}

bool Endpoints::renew_used(TimePoint now, Rows& rows) {
  const std::optional<Name> due = renewals_.take_due(now);
  if (!due) return false;
  Endpoint endpoint = endpoints_.at(*due);
  ++endpoint.renewals;
  put(endpoint, now, rows);
  if (in_use_.contains(*due)) renewals_.set(*due, now + endpoint.ttl / 2);
  return true;
}

void Endpoints::start_ttl(const Name& name, TimePoint now) {
  deadlines_.set(name, now + endpoints_.at(name).ttl);
}

const Endpoint* Endpoints::find(const Name& name) const {
  const auto found = endpoints_.find(name);
  return found == endpoints_.end() ? nullptr : &found->second;
}

bool Endpoints::names_run(const std::string& job, const std::string& run) const {
  return runs_.contains({job, run});
}

std::optional<std::uint32_t> Endpoints::world_size(const std::string& job,
                                                   const std::string& run) const {
  std::set<std::uint32_t> sizes;
  for (const Endpoint& endpoint : of_job(job)) {
    if (endpoint.run == run && endpoint.world_size > 0) sizes.insert(endpoint.world_size);
  }
  if (sizes.size() != 1) return std::nullopt;
  return *sizes.begin();
}

std::vector<Endpoint> Endpoints::all() const {
  std::vector<Endpoint> all;
  for (const auto& [name, endpoint] : endpoints_) all.push_back(endpoint);
  return all;
}

std::vector<Endpoint> Endpoints::of_job(const std::string& job) const {
  std::vector<Endpoint> some;
  for (auto it = endpoints_.lower_bound({job, {}});
       it != endpoints_.end() && it->first.first == job; ++it) {
    some.push_back(it->second);
  }
  return some;
}

}  // namespace c10dd::core
