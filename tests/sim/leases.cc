// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/leases.h"

#include <set>

namespace c10dd::sim {
namespace {

constexpr const char* kJob = "leased";
constexpr std::size_t kNames = 6;

std::string run_of(const std::string& name) { return name < "e3" ? "run-" + name : ""; }

}  // namespace

void Leases::act_later() {
  const Duration pause =
      random_.between(std::chrono::milliseconds(20), std::chrono::milliseconds(800));
  world_.after(pause, [this] {
    if (stopped_) return;
    act();
    act_later();
  });
}

void Leases::act() {
  const std::string name = "e" + std::to_string(random_.below(kNames));
  random_.chance(70) ? lease(name) : release(name);
}

void Leases::lease(const std::string& name) {
  const std::shared_ptr<Daemon> daemon = daemon_();
  const LeaseEndpoint request{name, run_of(name), limits::kEndpointTtlMax, 4};
  Known& endpoint = known_[name];
  endpoint.released = false;
  const std::uint64_t number = endpoint.asked = ++requests_;
  daemon->lease_endpoint(kJob, request, [this, name, number](const Result<EndpointLease>& lease) {
    Known& its = known_[name];
    if (!lease) {
      if (lease.error().code != Code::unavailable) violated(name + ": " + lease.error().detail);
      return;
    }
    if (its.port && *its.port != lease->port) {
      violated(name + " has port " + std::to_string(lease->port) + ", but was told " +
               std::to_string(*its.port));
    }
    if (its.asked == number) its.port = lease->port;
  });
}

void Leases::release(const std::string& name) {
  const std::shared_ptr<Daemon> daemon = daemon_();
  Known& endpoint = known_[name];
  const bool is_known = endpoint.port.has_value();
  endpoint.port.reset();
  const std::uint64_t number = endpoint.asked = ++requests_;
  daemon->release_endpoint(kJob, name, [this, name, number, is_known](const Result<void>& done) {
    Known& its = known_[name];
    if (!done && done.error().code == Code::not_found && is_known) violated(name + " is not there");
    if (done && its.asked == number) its.released = true;
  });
}

void Leases::check() {
  const std::shared_ptr<Daemon> daemon = daemon_();
  const Result<const core::Endpoints*> endpoints = daemon->directory().endpoints();
  if (daemon->dead() || !endpoints) return;
  for (const auto& [name, known] : known_) {
    const core::Endpoint* const endpoint = (*endpoints)->find({kJob, name});
    if (known.port && (endpoint == nullptr || endpoint->port != *known.port)) {
      violated(name + " has lost its port " + std::to_string(*known.port));
    }
    if (known.released && endpoint != nullptr) violated(name + " was released, and is back");
  }
  std::set<std::uint16_t> ports;
  for (const core::Endpoint& endpoint : (*endpoints)->all()) {
    if (!ports.insert(endpoint.port).second) violated("two endpoints have one port");
    if (!daemon->listens(endpoint.port)) violated(endpoint.name + " is not listened on");
  }
}

}  // namespace c10dd::sim
