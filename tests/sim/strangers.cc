// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/strangers.h"

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;

constexpr const char* kJob = "strangers";
constexpr std::size_t kEndpointNames = 8;

std::string text_of(const core::Directory::NamedRun& run) {
  return run.job + "/" + run.run + "=" + std::to_string(run.number) + " ";
}

}  // namespace

void Strangers::begin() {
  if (stopped_) return;
  if (random_.chance(1)) place_ = random_.below(fleet_.size());
  if (random_.chance(1)) disk_.forget_changes();
  const std::shared_ptr<Daemon>& daemon = fleet_[place_ % fleet_.size()];
  if (!daemon->dead()) act(daemon);
  world_.after(random_.skewed(milliseconds(1), milliseconds(60)), [this] { begin(); });
}

void Strangers::act(const std::shared_ptr<Daemon>& daemon) {
  const auto ignore = [](const auto&) {};
  const std::string endpoint = "e" + std::to_string(random_.below(kEndpointNames));
  if (random_.chance(50)) return connect(daemon);
  if (random_.chance(50)) return daemon->endpoint_in_use(kJob, endpoint, random_.chance(50));
  if (random_.chance(60)) {
    const LeaseEndpoint request{endpoint, "", std::chrono::seconds(5), 0};
    return daemon->lease_endpoint(kJob, request, ignore);
  }
  daemon->release_endpoint(kJob, endpoint, ignore);
}

/// Names a new job, and leaves before its hello.
void Strangers::connect(const std::shared_ptr<Daemon>& daemon) {
  Shard& shard = daemon->first_shard();
  const std::string job = "stranger" + std::to_string(++jobs_);
  const auto left = [this, daemon, job](const Result<core::JobLocation>& location) {
    if (location) return daemon->directory().report_idle(*location, true);
    const Code code = location.error().code;
    if (code == Code::unavailable || code == Code::quota_exceeded) return;
    world_.violated("strangers", job + ": " + location.error().detail);
  };
  shard.post([daemon, job, left, &shard] {
    if (!daemon->dead()) daemon->directory().locate(job, "", {"10.0.0.1"}, shard, left);
  });
}

std::string Strangers::unsettled() const {
  core::Directory engine(0);
  const auto found = disk_.memory().jobs.find(core::Directory::kNumber);
  if (found == disk_.memory().jobs.end()) return "";
  for (const auto& [key, value] : found->second.rows) {
    if (!engine.restore({Row::Kind::put, key, value})) return "the engine has a damaged row";
  }
  std::string wanted;
  for (const auto& run : engine.entries()) wanted += text_of(run);
  for (const auto& daemon : fleet_) {
    if (daemon->dead() || !daemon->serves()) continue;
    std::string has;
    for (const auto& run : daemon->directory().runs()) has += text_of(run);
    const std::string who = "daemon " + std::to_string(daemon->number());
    if (has != wanted) return who + " has the runs " + has + ", the engine has " + wanted;
    const Result<const core::Endpoints*> endpoints = daemon->directory().endpoints();
    if (endpoints && (*endpoints)->all() != engine.endpoints().all()) {
      return who + " has other endpoints than the engine";
    }
  }
  return "";
}

}  // namespace c10dd::sim
