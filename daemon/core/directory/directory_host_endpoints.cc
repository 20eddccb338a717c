// SPDX-License-Identifier: Apache-2.0
// Leases, releases and ends endpoints: the directory changes its rows, the shell its listeners.
#include "daemon/core/directory/directory_host.h"
#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

using Batch = DirectoryHost::DirectoryBatch;

Failure engine_lost(std::string_view what) {
  return unavailable(
      format("the engine was lost; the endpoint may or may not {}; try again", what));
}

}  // namespace

void DirectoryHost::serve_endpoints(EndpointPorts& ports) {
  ports_ = &ports;
  restore_endpoints();
}

/// Makes the listeners those of the rows, and learns which endpoints have connections.
void DirectoryHost::restore_endpoints() {
  if (!directory_ || ports_ == nullptr || draining_) return;
  const std::vector<Endpoint> leased = directory_->endpoints().all();
  ports_->restore(leased);
  for (const Endpoint& endpoint : leased) endpoint_in_use(endpoint, ports_->in_use(endpoint));
}

Result<const Endpoints*> DirectoryHost::endpoints() const {
  if (!directory_) return closed();
  return &directory_->endpoints();
}

void DirectoryHost::lease_endpoint(const std::string& job, const LeaseEndpoint& request,
                                   HostLoop& back,
                                   std::function<void(Result<EndpointLease>)> then) {
  loop_.dispatch([this, job, request, &back, then = std::move(then)]() mutable {
    lease(job, request, [&back, then = std::move(then)](Result<EndpointLease> leased) mutable {
      back.dispatch([then = std::move(then), leased = std::move(leased)] { then(leased); });
    });
  });
}

void DirectoryHost::lease(const std::string& job, const LeaseEndpoint& request,
                          std::function<void(Result<EndpointLease>)> then) {
  if (draining_) return then(unavailable("the daemon is shutting down"));
  if (!directory_) return then(closed());
  struct Lease {
    std::optional<Endpoint> opened;  ///< the listener that was opened for it
    Result<EndpointLease> result = EndpointLease{};
  };
  const auto lease = std::make_shared<Lease>();
  const auto withdraw = [this, lease] {
    if (lease->opened) ports_->close(*std::exchange(lease->opened, {}), "withdrawn");
  };
  const auto decide = [this, job, request, lease, withdraw]() -> Batch {
    Result<Endpoint> endpoint = directory_->endpoints().check(job, request);
    const bool is_new = endpoint && endpoint->port == 0;
    // Decided again: another daemon has changed the directory, and may have leased the endpoint or
    // its port. The listener was closed when the change was undone.
    withdraw();
    if (is_new) {
      const Result<std::uint16_t> port = ports_->open(*endpoint, directory_->endpoints());
      if (!port) endpoint = port.error();
      if (port) endpoint->port = *port;
      if (port) lease->opened = *endpoint;
    }
    Effects effects;
    const Revision before = directory_->revision();
    Result<void> leased = endpoint ? Result<void>() : endpoint.error();
    if (leased) leased = directory_->lease_endpoint(*endpoint, job_time(), effects);
    if (!leased) {
      withdraw();
      lease->result = leased.error();
      return {};
    }
    lease->result = EndpointLease{ports_->host(), endpoint->port, endpoint->ttl};
    return {before, effects.revision, std::move(effects.rows), {}};
  };
  const auto reply = [then = std::move(then), lease](const Written& written) {
    if (lease->result && !written.durable()) return then(engine_lost("have been leased"));
    then(lease->result);
  };
  if (planted(Planted::lease_told_early)) {
    change({decide, {}});
    return reply({Written::Outcome::durable});
  }
  change({decide, reply});
}

void DirectoryHost::release_endpoint(const Endpoints::Name& name,
                                     std::function<void(Result<void>)> then) {
  if (!directory_) return then(closed());
  const auto known = std::make_shared<bool>(false);
  const auto decide = [this, name, known]() -> Batch {
    Effects effects;
    const Revision before = directory_->revision();
    const auto endpoint = directory_->release_endpoint(name, job_time(), effects);
    if (!endpoint) return {};
    *known = true;
    ports_->close(*endpoint, "released");
    return {before, effects.revision, std::move(effects.rows), {}};
  };
  change({decide, [name, known, then = std::move(then)](const Written& written) {
            if (!*known) {
              return then(failure(Code::not_found, "unknown endpoint \"{}\" of job \"{}\"",
                                  printable(name.second, limits::kNameShown),
                                  printable(name.first, limits::kNameShown)));
            }
            if (!written.durable()) return then(engine_lost("have been released"));
            then(Result<void>());
          }});
}

void DirectoryHost::endpoint_in_use(const Endpoint& endpoint, bool in_use) {
  if (!directory_) return;
  directory_->set_endpoint_in_use({endpoint.job, endpoint.name}, in_use, job_time());
}

std::optional<TimePoint> DirectoryHost::next_expiry() const {
  if (!directory_ || draining_ || expiring_) return std::nullopt;
  const Endpoints& endpoints = directory_->endpoints();
  if (endpoints.size() == 0) return std::nullopt;
  const auto expiry = endpoints.next_deadline();
  const auto renewal = fleet_ ? endpoints.next_renewal() : std::nullopt;
  if (!expiry || !renewal) return expiry ? expiry : renewal;
  return std::min(*expiry, *renewal);
}

/// Ends the endpoints whose ttl is over, and in a fleet renews those that have connections here.
void DirectoryHost::expire_endpoints() {
  expiring_ = true;
  change({[this]() -> Batch {
            Effects effects;
            const Revision before = directory_->revision();
            const bool renews = fleet_.has_value();
            for (const Endpoint& endpoint :
                 directory_->expire_endpoints(job_time(), renews, effects)) {
              ports_->close(endpoint, "expired");
            }
            return {before, effects.revision, std::move(effects.rows), {}};
          },
          [this](const Written&) { expiring_ = false; }});
}

}  // namespace c10dd::core
