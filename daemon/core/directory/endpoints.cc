// SPDX-License-Identifier: Apache-2.0
// Rows: key 'e' + job + name holds an EndpointRow.
#include "daemon/core/directory/endpoints.h"

#include <algorithm>
#include <boost/describe/class.hpp>
#include <utility>

#include "daemon/core/directory/directory.h"
#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "daemon/core/torch/plain_runs.h"
#include "protocol/format.h"
#include "protocol/names.h"
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

Failure damaged_endpoint() { return failure(Code::malformed, "damaged endpoint row"); }

std::optional<Endpoints::Name> name_of(std::string_view row_key) {
  RowKeyReader key(row_key);
  Endpoints::Name name;
  name.first = key.text();
  name.second = key.rest();
  if (!key.complete() || name.first.empty() || name.second.empty()) return std::nullopt;
  return name;
}

/// Returns the endpoint of a row; nothing if the row is damaged.
std::optional<Endpoint> endpoint_of(std::string_view row_key, std::string_view row_value) {
  const std::optional<Endpoints::Name> name = name_of(row_key);
  const Result<EndpointRow> value = wire::decode<EndpointRow>(row_value);
  if (!name || !value || value->port == 0 || !check_endpoint_ttl(value->ttl)) return std::nullopt;
  return Endpoint{name->first, name->second,      value->port,    value->run,
                  value->ttl,  value->world_size, value->renewals};
}

Row row_of(const Endpoint& endpoint) {
  const EndpointRow value{endpoint.port, endpoint.run, endpoint.ttl, endpoint.world_size,
                          endpoint.renewals};
  return {Row::Kind::put, key_of({endpoint.job, endpoint.name}), wire::encode(value)};
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
                 "an endpoint cannot use run \"{}\": only the daemon creates runs with such names; "
                 "choose another name, or leave out the run",
                 shown(request.run));
}

}  // namespace

Result<void> check_endpoint_ttl(Duration ttl) {
  if (ttl >= limits::kEndpointTtlMin && ttl <= limits::kEndpointTtlMax) return {};
  const auto seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  return failure(Code::invalid_argument, "the ttl of an endpoint cannot be {} s; use {} to {} s",
                 seconds(ttl), seconds(limits::kEndpointTtlMin), seconds(limits::kEndpointTtlMax));
}

Result<void> check_endpoint_world_size(std::int64_t world_size) {
  if (world_size >= 0 && world_size <= limits::kWorldSize) return {};
  return failure(Code::invalid_argument,
                 "the world size of an endpoint cannot be {}; use 1 to {}, or leave it out",
                 world_size, limits::kWorldSize);
}

Result<void> Endpoints::restore(const Row& row) {
  const std::optional<Endpoint> endpoint = endpoint_of(row.key, row.value);
  if (!endpoint || has_port(endpoint->port) || find({endpoint->job, endpoint->name}) != nullptr) {
    return damaged_endpoint();
  }
  if (!planted(Planted::endpoint_forgotten)) place(*endpoint);
  return {};
}

void Endpoints::resume(TimePoint now) {
  for (const auto& [name, endpoint] : endpoints_) {
    renewed_[name] = now;
    start_ttl(name, now);
  }
}

Result<Endpoint> Endpoints::check(const std::string& job, const LeaseEndpoint& request) const {
  if (find({job, request.name}) == nullptr) {
    if (Result<void> good = check_names(job, request); !good) return good.error();
  }
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

Result<bool> Endpoints::follow(const RowView& row, TimePoint now) {
  const std::optional<Name> name = name_of(row.key);
  if (!name) return damaged_endpoint();
  if (row.kind == Row::Kind::erase) {
    const bool known = find(*name) != nullptr;
    if (known) displace(*name);
    return known;
  }
  const std::optional<Endpoint> endpoint = endpoint_of(row.key, row.value);
  if (row.kind != Row::Kind::put || !endpoint) return damaged_endpoint();
  const Endpoint* const known = find(*name);
  if (known != nullptr && *known == *endpoint) return false;
  const bool in_use = in_use_.contains(*name);
  if (known != nullptr) displace(*name);
  place(*endpoint);
  renewed_[*name] = now;
  if (in_use) {
    set_in_use(*name, true, now);
  } else {
    start_ttl(*name, now);
  }
  return true;
}

void Endpoints::append_rows(Rows& rows) const {
  for (const auto& [name, endpoint] : endpoints_) rows.push_back(row_of(endpoint));
}

/// Adds an endpoint. A port that another one has had is its own from now on: the row by which the
/// other one has given it up may follow.
void Endpoints::place(const Endpoint& endpoint) {
  const Name name{endpoint.job, endpoint.name};
  ports_[endpoint.port] = name;
  if (!endpoint.run.empty()) ++runs_[{endpoint.job, endpoint.run}];
  endpoints_[name] = endpoint;
}

void Endpoints::displace(const Name& name) {
  const auto node = endpoints_.extract(name);
  const Endpoint& endpoint = node.mapped();
  const auto port = ports_.find(endpoint.port);
  if (port != ports_.end() && port->second == name) ports_.erase(port);
  const auto run = runs_.find({endpoint.job, endpoint.run});
  if (run != runs_.end() && --run->second == 0) runs_.erase(run);
  deadlines_.erase(name);
  renewals_.erase(name);
  renewed_.erase(name);
  in_use_.erase(name);
}

void Endpoints::put(const Endpoint& endpoint, TimePoint now, Rows& rows) {
  const Name name{endpoint.job, endpoint.name};
  if (endpoints_.contains(name)) {
    endpoints_[name] = endpoint;
  } else {
    C10DD_ASSERT(endpoint.port != 0 && !has_port(endpoint.port));
    place(endpoint);
  }
  renewed_[name] = now;
  if (!in_use_.contains(name)) start_ttl(name, now);
  rows.push_back(row_of(endpoint));
}

std::optional<Endpoint> Endpoints::release(const Name& name, Rows& rows) {
  const Endpoint* const known = find(name);
  if (known == nullptr) return std::nullopt;
  Endpoint endpoint = *known;
  displace(name);
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
  } else {
    if (in_use_.erase(name) == 0) return;
    start_ttl(name, now);
  }
  if (renewals_.contains(name)) return;
  renewals_.set(name, std::max(now, renewed_[name] + endpoints_.at(name).ttl / 2));
}

bool Endpoints::renew_used(TimePoint now, Rows& rows) {
  const std::optional<Name> due = renewals_.take_due(now);
  if (!due) return false;
  Endpoint& endpoint = endpoints_.at(*due);
  ++endpoint.renewals;
  renewed_[*due] = now;
  rows.push_back(row_of(endpoint));
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
