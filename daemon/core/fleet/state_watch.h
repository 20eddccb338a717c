// SPDX-License-Identifier: Apache-2.0
// Notices that a shared engine has lost changes that it had reported durable: it was erased, or
// replaced by an older copy of itself. Judges each reading of the fleet by what this daemon has
// read before, by what other daemons have told, and by what a job has found. Pure.
//
// A loss is final: it is over only when an operator has started a daemon with --accept-rollback,
// which gives the state a new incarnation. A daemon that hears of that later, because it was
// paused, must not take the new incarnation for another loss.
#pragma once

#include <boost/describe/class.hpp>
#include <set>
#include <string>

#include "store/fleet.h"

namespace c10dd::core {

/// The newest that is known of a shared state. The numbers never fall within an incarnation.
struct StateMark {
  Bytes incarnation;                  ///< empty: not known yet
  std::uint64_t heartbeat_count = 0;  ///< see store::FleetReading
  std::uint64_t directory = 0;        ///< revision of job 0

  bool operator==(const StateMark&) const = default;
};
BOOST_DESCRIBE_STRUCT(StateMark, (), (incarnation, heartbeat_count, directory))

class StateWatch {
 public:
  enum class Verdict : std::uint8_t {
    good,
    renewed,      ///< an operator has accepted a loss: read the engine anew, it has another state
    rolled_back,  ///< see rolled_back()
  };

  /// `mark` is what an earlier process has known; empty: nothing.
  explicit StateWatch(StateMark mark = {}) : mark_(std::move(mark)) {}

  /// Judges a reading, and remembers what it shows.
  Verdict read(const store::FleetReading& reading);

  /// Notes that a job has found less than was durable. The next reading decides: if an operator has
  /// accepted a loss meanwhile, this was part of it.
  void suspect(const std::string& what);

  /// Notes the incarnation of the engine that was opened, if none is known yet.
  void opened(const Bytes& incarnation) {
    if (mark_.incarnation.empty()) mark_.incarnation = incarnation;
  }

  /// Notes that this daemon has accepted the loss, and has made a new incarnation. The numbers
  /// begin with those of the newest reading.
  void accept(Bytes incarnation);

  /// Returns what was lost, with both numbers, or an empty text.
  const std::string& rolled_back() const { return rolled_back_; }
  /// Returns whether this daemon must tell the others what was lost.
  bool must_tell() const { return !rolled_back_.empty() && !told_; }

  const StateMark& mark() const { return mark_; }

 private:
  std::string find_loss(const store::FleetReading& reading) const;
  bool is_renewed(const store::FleetReading& reading) const;

  StateMark mark_;
  StateMark newest_;       ///< as the newest reading shows it
  std::set<Bytes> ended_;  ///< the incarnations before that of mark_
  std::string suspicion_;
  std::string rolled_back_;
  bool told_ = false;  ///< the newest reading shows that all daemons were told
};

/// Returns what to do about a loss, for the end of a text.
std::string rollback_remedy();

}  // namespace c10dd::core
