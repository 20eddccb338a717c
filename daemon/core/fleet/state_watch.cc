// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/state_watch.h"

#include <utility>

#include "daemon/core/planted.h"
#include "daemon/core/row_key.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

/// Returns the value of Directory::precondition() as the log shows the incarnation.
std::string name_of(const Bytes& incarnation) {
  if (incarnation.empty()) return "none";
  RowKeyReader value(incarnation);
  return format("{:016x}", value.number());
}

}  // namespace

StateWatch::Verdict StateWatch::read(const store::FleetReading& reading) {
  newest_ = {reading.incarnation, reading.heartbeat_count, reading.directory};
  told_ = !reading.rolled_back.empty();
  const std::string suspicion = std::exchange(suspicion_, {});
  if (is_renewed(reading) && !planted(Planted::acceptance_unseen)) {
    accept(reading.incarnation);
    return Verdict::renewed;
  }
  if (rolled_back_.empty() && told_ && !planted(Planted::rollback_untold)) {
    rolled_back_ = reading.rolled_back;
  }
  if (rolled_back_.empty()) rolled_back_ = find_loss(reading);
  if (rolled_back_.empty()) rolled_back_ = suspicion;
  if (!rolled_back_.empty()) return Verdict::rolled_back;
  mark_ = newest_;
  return Verdict::good;
}

void StateWatch::suspect(const std::string& what) {
  if (!planted(Planted::suspicion_ignored)) suspicion_ = what;
}

void StateWatch::accept(Bytes incarnation) {
  ended_.insert(mark_.incarnation);
  mark_ = newest_;
  mark_.incarnation = std::move(incarnation);
  rolled_back_.clear();
}

/// Returns whether the reading shows an incarnation that an operator has begun since the one that
/// is known. Without a known one there is nothing to renew.
bool StateWatch::is_renewed(const store::FleetReading& reading) const {
  const bool begun = !reading.incarnation.empty() && reading.incarnation == reading.accepted;
  const bool is_new =
      reading.incarnation != mark_.incarnation && !ended_.contains(reading.incarnation);
  return begun && is_new && !mark_.incarnation.empty() && reading.rolled_back.empty();
}

/// Returns what a reading shows to be lost, or an empty text.
std::string StateWatch::find_loss(const store::FleetReading& reading) const {
  if (!mark_.incarnation.empty() && reading.incarnation != mark_.incarnation) {
    return format(
        "the state has incarnation {} instead of {}: it was erased, or replaced by another state",
        name_of(reading.incarnation), name_of(mark_.incarnation));
  }
  if (reading.heartbeat_count < mark_.heartbeat_count &&
      !planted(Planted::heartbeat_count_ignored)) {
    return format(
        "the state has heartbeat count {}, but the count was {} before: this is an older copy of "
        "the state, without the newest changes",
        reading.heartbeat_count, mark_.heartbeat_count);
  }
  if (reading.directory < mark_.directory) {
    return format("the job directory is at revision {}, but revision {} was durable",
                  reading.directory, mark_.directory);
  }
  return {};
}

std::string rollback_remedy() {
  return "nothing is served; stop all daemons and restore the newest copy of the data, or start a "
         "daemon with --accept-rollback to continue with what is left";
}

}  // namespace c10dd::core
