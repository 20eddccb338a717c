// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/directory/fleet_view.h"

#include <algorithm>
#include <set>

#include "daemon/core/planted.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr Duration kDrainLook = std::chrono::milliseconds(100);
/// The row of a daemon that has been silent for this long is removed.
constexpr std::chrono::hours kForgetAfter{1};

std::string name_of(const store::DaemonFacts& daemon) {
  return daemon.addresses.empty() ? format("process {:016x}", daemon.process)
                                  : daemon.addresses.front();
}

}  // namespace

void FleetView::read(const std::vector<store::DaemonRow>& daemons, SteadyTime now) {
  const Duration passed = last_ ? std::min<Duration>(now - *last_, interval()) : Duration{0};
  last_ = now;
  std::map<std::uint64_t, Other> seen;
  for (const store::DaemonRow& row : daemons) {
    Other other{row, Duration{0}};
    const auto before = daemons_.find(row.facts.process);
    const bool same = before != daemons_.end() && before->second.row.beats == row.beats;
    if (same) other.silent = before->second.silent + passed;
    seen.emplace(row.facts.process, std::move(other));
  }
  daemons_ = std::move(seen);
}

ClaimDecision FleetView::decide_claim(const store::Holder& holder) const {
  const auto found = daemons_.find(holder.owner.process);
  // A daemon that has joined since the newest reading.
  if (found == daemons_.end()) return {.kind = ClaimDecision::Kind::wait, .again = interval()};
  const Other& owner = found->second;
  const std::string name = name_of(owner.row.facts);
  if (is_silent(owner) || planted(Planted::takeover_at_once)) {
    if (owner.row.beats == holder.beats) {
      return {.kind = ClaimDecision::Kind::take_over, .owner = name};
    }
    return {.kind = ClaimDecision::Kind::wait, .again = interval(), .owner = name};  // it is back
  }
  if (owner.row.facts.draining) {
    return {.kind = ClaimDecision::Kind::wait, .again = kDrainLook, .owner = name};
  }
  if (owner.silent >= kReadingsBeforeDoubt * interval() || owner.row.facts.addresses.empty()) {
    const Duration left = lease_ - owner.silent;
    return {.kind = ClaimDecision::Kind::wait,
            .again = std::clamp(left, interval() / 2, kTellInterval),
            .owner = name};
  }
  return {
      .kind = ClaimDecision::Kind::redirect, .addresses = owner.row.facts.addresses, .owner = name};
}

std::vector<std::string> FleetView::addresses() const {
  std::vector<std::string> all;
  std::size_t heard = 0;
  for (const auto& [process, other] : daemons_) {
    if (is_silent(other)) continue;
    ++heard;
    const std::vector<std::string>& its = other.row.facts.addresses;
    all.insert(all.end(), its.begin(), its.end());
  }
  if (heard < 2) all.clear();
  return all;
}

std::vector<std::string> FleetView::others() const {
  std::vector<std::string> all;
  for (const auto& [process, other] : daemons_) {
    if (process == self_ || is_silent(other) || other.row.facts.draining) continue;
    const std::vector<std::string>& its = other.row.facts.addresses;
    all.insert(all.end(), its.begin(), its.end());
  }
  return all;
}

const store::DaemonFacts* FleetView::daemon_at(const std::string& address) const {
  for (const auto& [process, other] : daemons_) {
    const store::DaemonFacts& facts = other.row.facts;
    const bool has = std::ranges::find(facts.addresses, address) != facts.addresses.end();
    if (has && !is_silent(other)) return &facts;
  }
  return nullptr;
}

native::RelayKey FleetView::own_relay_key() const {
  const auto own = daemons_.find(self_);
  return own == daemons_.end() ? native::RelayKey{} : own->second.row.facts.relay_key;
}

bool FleetView::shares_host() const {
  std::set<std::string> own;
  std::set<std::string> others;
  for (const auto& [process, other] : daemons_) {
    if (is_silent(other)) continue;
    for (const std::string& address : other.row.facts.addresses) {
      const auto parts = split_address(address);
      if (parts) (process == self_ ? own : others).emplace(parts->host);
    }
  }
  return std::ranges::any_of(own, [&](const std::string& host) { return others.contains(host); });
}

bool FleetView::is_over(const Other& other, const store::DaemonFacts& self) const {
  if (other.silent >= kForgetAfter) return true;
  if (!is_silent(other)) return false;
  const auto is_own = [&self](const std::string& address) {
    return std::ranges::find(self.addresses, address) != self.addresses.end();
  };
  return daemons_.size() >= limits::kDaemons ||
         std::ranges::any_of(other.row.facts.addresses, is_own);
}

std::optional<Conflict> conflict_of(const store::DaemonFacts& self, const FleetView& fleet) {
  for (const auto& [process, other] : fleet.daemons()) {
    const store::DaemonFacts& facts = other.row.facts;
    if (process == self.process || fleet.is_silent(other)) continue;
    if (facts.lease != self.lease) {
      return Conflict{format("--lease is {}, but the daemon at {} has a lease of {}; use the same "
                             "lease for all daemons of an engine",
                             human(self.lease), name_of(facts), human(facts.lease)),
                      process};
    }
    for (const std::string& address : self.addresses) {
      if (std::ranges::find(facts.addresses, address) == facts.addresses.end()) continue;
      return Conflict{format("another daemon on this engine already has the address {} (process "
                             "{:016x}); give each daemon its own --advertise",
                             address, process),
                      process};
    }
  }
  if (fleet.daemons().size() < limits::kDaemons || fleet.daemons().contains(self.process)) {
    return std::nullopt;
  }
  const auto& [process, quietest] = *std::ranges::max_element(
      fleet.daemons(), {}, [](const auto& entry) { return entry.second.silent; });
  if (fleet.is_silent(quietest)) return std::nullopt;  // its row goes
  return Conflict{format("the fleet has {} daemons, limit {}; stop one before you start another",
                         fleet.daemons().size(), limits::kDaemons),
                  process};
}

}  // namespace c10dd::core
