// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/run_owners.h"

#include <algorithm>
#include <map>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kAddressShown = 256;

bool is_heard(const FleetView::Other& other, const FleetView& fleet) {
  return other.silent < fleet.interval() * FleetView::kReadingsBeforeDoubt;
}

/// Returns the first address of each daemon that a run can be moved to.
std::string candidates(const FleetView& fleet) {
  std::string list;
  for (const auto& [process, other] : fleet.daemons()) {
    const store::DaemonFacts& facts = other.row.facts;
    if (facts.addresses.empty() || facts.draining || !is_heard(other, fleet)) continue;
    (list += list.empty() ? "" : ", ") += facts.addresses.front();
  }
  return list.empty() ? "none" : list;
}

}  // namespace

RunOwner owner_of(const Directory::NamedRun& run, const std::optional<store::Owner>& owner,
                  const FleetView& fleet) {
  RunOwner out{run, owner};
  if (!owner) return out;
  const auto found = fleet.daemons().find(owner->process);
  if (found != fleet.daemons().end()) out.addresses = found->second.row.facts.addresses;
  out.here = owner->process == fleet.self();
  return out;
}

RunOwners run_owners(const std::vector<Directory::NamedRun>& runs,
                     const std::vector<std::optional<store::Owner>>& owners,
                     const FleetView& fleet) {
  RunOwners out;
  std::map<std::uint64_t, std::vector<Directory::NamedRun>> elsewhere;
  for (std::size_t n = 0; n < runs.size(); ++n) {
    const Directory::NamedRun& run = runs[n];
    const std::optional<store::Owner>& owner = owners[n];
    const auto found = owner ? fleet.daemons().find(owner->process) : fleet.daemons().end();
    if (found == fleet.daemons().end() || owner->process == fleet.self()) {
      out.claimable.push_back(run);
      continue;
    }
    const ClaimDecision decision = fleet.decide_claim({*owner, found->second.row.beats});
    switch (decision.kind) {
      case ClaimDecision::Kind::take_over:
        out.claimable.push_back(run);
        break;
      case ClaimDecision::Kind::redirect:
        elsewhere[owner->process].push_back(run);
        break;
      case ClaimDecision::Kind::wait:
        out.undecided = failure(
            Code::unavailable, "job \"{}\" belongs to the daemon at {}, which {}; try again soon",
            printable(run.job, limits::kNameShown), decision.owner,
            found->second.row.facts.draining
                ? "is shutting down"
                : "has been silent for " + human(found->second.silent) + " of its lease of " +
                      human(found->second.row.facts.lease));
        out.undecided->retry_after = decision.again;
        break;
    }
  }
  for (auto& [process, its] : elsewhere) out.elsewhere.push_back({process, std::move(its)});
  return out;
}

Result<store::DaemonFacts> target_of_move(const std::string& address, const FleetView& fleet) {
  // A dead daemon may have had the address of one that lives.
  const FleetView::Other* found = nullptr;
  for (const auto& [process, other] : fleet.daemons()) {
    if (std::ranges::find(other.row.facts.addresses, address) == other.row.facts.addresses.end()) {
      continue;
    }
    if (found == nullptr || other.silent < found->silent) found = &other;
  }
  const std::string shown = printable(address, kAddressShown);
  if (found == nullptr) {
    return failure(Code::invalid_argument,
                   "move: no daemon of the fleet has the address {}; use one of: {}", shown,
                   candidates(fleet));
  }
  if (found->row.facts.draining) {
    return failure(Code::unavailable, "move: the daemon at {} is shutting down; use one of: {}",
                   shown, candidates(fleet));
  }
  if (!is_heard(*found, fleet)) {
    return failure(Code::unavailable,
                   "move: the daemon at {} has been silent for {}, its lease is {}; use one of: {}",
                   shown, human(found->silent), human(found->row.facts.lease), candidates(fleet));
  }
  return found->row.facts;
}

}  // namespace c10dd::core
