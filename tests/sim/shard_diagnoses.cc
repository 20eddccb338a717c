// SPDX-License-Identifier: Apache-2.0
// No run is called stuck because of processes that are connected and heard of. What a diagnosis
// says is compared with the frames that have arrived at the daemon, in its own job time.
#include <algorithm>
#include <string>
#include <variant>

#include "daemon/core/waiting/missing.h"
#include "tests/sim/daemon.h"
#include "tests/sim/shard.h"

namespace c10dd::sim {
namespace {

bool is_host_of(const std::string& host, std::uint32_t client) {
  return host == "host" + std::to_string(client) || host == "node" + std::to_string(client);
}

}  // namespace

/// Returns whether all sessions of a host in the job are connected, and have sent a frame.
bool Shard::is_well(const Watched& watched, const std::string& host) const {
  bool any = false;
  for (const auto& [session, signs] : watched.signs) {
    if (!is_host_of(host, daemon_.records().sessions[session].client)) continue;
    if (!watched.attached.contains(session) || signs.closed || !signs.frame) return false;
    if (host_->job_time() - *signs.frame > core::kSilent) return false;
    any = true;
  }
  return any;
}

void Shard::note_diagnoses(const core::JobSlot& slot, const core::Effects& effects) {
  const Watched& watched = watched_[slot.number];
  for (const core::Event& event : effects.events) {
    const auto* const found = std::get_if<core::Diagnosed>(&event);
    const bool ended = std::holds_alternative<core::DiagnosisEnded>(event);
    if (found != nullptr || ended) {
      daemon_.records().diagnoses.push_back(
          {slot.name, world_.now(), found != nullptr ? found->diagnosis : Diagnosis{}});
    }
    if (found == nullptr) continue;
    const Diagnosis& diagnosis = found->diagnosis;
    world_.note("diagnosis", slot.number, static_cast<std::uint64_t>(diagnosis.state));
    // A process of which the daemon knows no host cannot be looked up.
    const bool hostless = diagnosis.sentence.find("for a process, ") != std::string::npos;
    const bool named = diagnosis.kind == Diagnosis::Kind::missing && !diagnosis.hosts.empty() &&
                       !hostless && diagnosis.hosts.size() >= diagnosis.ranks.size();
    if (diagnosis.state != Diagnosis::State::stuck || !named) continue;
    const auto well = [&](const std::string& host) { return is_well(watched, host); };
    if (std::ranges::all_of(diagnosis.hosts, well)) {
      world_.violated("diagnoses", slot.name + ": " + diagnosis.sentence +
                                       "; but all its processes are connected and were heard of");
    }
  }
}

}  // namespace c10dd::sim
