// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/fleet_member.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/format.h"

namespace c10dd::core {
void FleetMember::joined(SteadyTime sent) {
  news_ = {directory_.fleet()->lease_end(sent), directory_.fleet()->addresses(), others()};
}

/// Returns the addresses of the daemons that may serve when this one cannot. If no row of another
/// daemon is there, for instance because somebody has removed the rows, the daemons that were known
/// last count for a lease: their next heartbeats make their rows anew.
std::vector<std::string> FleetMember::others() {
  std::vector<std::string> others = directory_.fleet()->others();
  const SteadyTime now = loop_.boot_now();
  if (!others.empty()) {
    others_known_until_ = now + self_.lease;
  } else if (now < others_known_until_ && directory_.fleet()->daemons().size() < 2) {
    others = news_.others;
  }
  return others;
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
  shell_.ask(beats, self_, [this, sent, beats, losses = losses_](const Heard& answer) {
    const bool current = losses == losses_;  // the engine is the one of the question
    fresh_ = fresh_ || (answer.reading && current);
    heard(sent, beats, answer.reading);
    if (answer.engine_left_behind && current && directory_.is_open()) {
      shell_.lose_engine(answer.reading.error().detail);
    }
  });
}

void FleetMember::engine_lost(const std::string& suspicion) {
  if (!suspicion.empty()) watch_.suspect(suspicion);
  fresh_ = false;
  ++losses_;
  if (!std::exchange(asking_, true)) ask(false);
}

bool FleetMember::may_open() const {
  return fresh_ && (rolled_back().empty() || planted(Planted::rollback_served));
}

void FleetMember::heard(SteadyTime sent, bool beats, const Result<store::FleetReading>& heard) {
  asking_ = false;
  if (!heard) {
    const bool is_first = failure_.empty();
    failure_ = heard.error().detail;
    if (is_first) shell_.report({FleetEvent::Kind::heartbeat_failed, failure_});
    return;
  }
  failure_.clear();
  const StateWatch::Verdict verdict = watch_.read(*heard);
  if (verdict != StateWatch::Verdict::good) return state_changed(verdict);
  directory_.heard(*heard);
  note_others();
  if (!beats || !directory_.is_open()) return;
  const bool lapsed = loop_.boot_now() >= news_.lease_end;
  news_ = {std::max(news_.lease_end, directory_.fleet()->lease_end(sent)),
           directory_.fleet()->addresses(), others(), news_.lapses + (lapsed ? 1 : 0)};
  if (!std::exchange(held_, true)) shell_.report({FleetEvent::Kind::lease_renewed});
  shell_.tell(news_);
}

/// Stops to serve a state that is rolled back, or that is another one since an operator accepted
/// that.
void FleetMember::state_changed(StateWatch::Verdict verdict) {
  const bool renewed = verdict == StateWatch::Verdict::renewed;
  const std::string why =
      renewed ? "an operator has accepted the rollback of the state" : rolled_back();
  if (std::exchange(told_, why) != why) {
    shell_.report({renewed ? FleetEvent::Kind::renewed : FleetEvent::Kind::rolled_back, why});
  }
  if (watch_.must_tell()) {
    const std::string self = self_.addresses.empty() ? "a daemon" : self_.addresses.front();
    shell_.report_rollback(format("{} (noticed by {})", why, self));
  }
  if (directory_.is_open()) shell_.lose_engine(why);
}

std::string FleetMember::why() const {
  if (!rolled_back().empty()) return rolled_back();
  return failure_.empty() ? "no heartbeat was sent in time" : failure_;
}

/// Reports which daemons have become silent, or are heard again, and forgets the dead.
void FleetMember::note_others() {
  const FleetView& fleet = *directory_.fleet();
  std::map<std::uint64_t, bool> silent;
  for (const auto& [process, other] : fleet.daemons()) {
    if (process == self_.process) continue;
    if (fleet.is_over(other, self_)) shell_.remove(process, other.row.beats);
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
  if (!rolled_back().empty()) {
    return format("state_rolled_back: {}; {}", rolled_back(), rollback_remedy());
  }
  if (loop_.boot_now() < news_.lease_end) return {};
  return format("this daemon's lease has expired: {}; other daemons may now take over its jobs",
                why());
}

}  // namespace c10dd::core
