// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/host/fleet_member.h"

#include <algorithm>

#include "protocol/format.h"

namespace c10dd::core {
namespace {

/// The row of a daemon that has been silent for so long is removed.
constexpr std::chrono::hours kForgetAfter{1};

}  // namespace

void FleetMember::joined(SteadyTime sent) {
  news_ = {directory_.fleet()->lease_end(sent), directory_.fleet()->addresses(),
           directory_.fleet()->others()};
}

void FleetMember::tick() {
  if (loop_.boot_now() >= news_.lease_end && std::exchange(held_, false)) {
    shell_.report({FleetEvent::Kind::lease_over, why()});
  }
  if (std::exchange(asking_, true)) return;
  const bool stuck = shell_.commit_age() > self_.lease / 2;
  if (!directory_.is_open() || stuck) return ask(false);
  shell_.turn_all([this] { ask(true); });
}

void FleetMember::ask(bool beats) {
  const SteadyTime sent = loop_.boot_now();
  shell_.ask(beats, self_,
             [this, sent, beats](const Heard& reading) { heard(sent, beats, reading); });
}

void FleetMember::heard(SteadyTime sent, bool beats, const Heard& heard) {
  asking_ = false;
  if (!heard) {
    if (std::exchange(failure_, heard.error().detail) != heard.error().detail) {
      shell_.report({FleetEvent::Kind::heartbeat_failed, failure_});
    }
    return;
  }
  failure_.clear();
  directory_.heard(*heard);
  note_others();
  if (!beats || !directory_.is_open()) return;
  if (heard->incarnation != shell_.incarnation()) {
    return shell_.lose_engine(
        "the server has another state than the one that was read: it was erased or replaced");
  }
  news_ = {std::max(news_.lease_end, directory_.fleet()->lease_end(sent)),
           directory_.fleet()->addresses(), directory_.fleet()->others()};
  if (!std::exchange(held_, true)) shell_.report({FleetEvent::Kind::lease_renewed});
  shell_.tell(news_);
}

/// Reports which daemons have become silent, or are heard again, and forgets the dead.
void FleetMember::note_others() {
  const FleetView& fleet = *directory_.fleet();
  std::map<std::uint64_t, bool> silent;
  for (const auto& [process, other] : fleet.daemons()) {
    if (process == self_.process) continue;
    if (other.silent >= kForgetAfter) shell_.remove(process, other.row.beats);
    const bool now = silent[process] = fleet.is_silent(other);
    const auto before = silent_.find(process);
    if (before == silent_.end() ? !now : before->second == now) continue;
    shell_.report({now ? FleetEvent::Kind::daemon_silent : FleetEvent::Kind::daemon_heard,
                   {},
                   other.row.facts});
  }
  silent_ = std::move(silent);
}

std::string FleetMember::not_ready() const {
  if (loop_.boot_now() < news_.lease_end) return {};
  return format("the lease of the shared engine is over: {}; its jobs go to other daemons", why());
}

}  // namespace c10dd::core
