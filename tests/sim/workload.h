// SPDX-License-Identifier: Apache-2.0
// What one client process asks for, and what it makes of the answers: values that occur once,
// barriers with the others of its job, a watch that goes on where it was.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/crew.h"
#include "tests/sim/records.h"
#include "tests/sim/swarm.h"

namespace c10dd::sim {

/// Who meets whom in one job. A member that dies or loses its session begins a new generation;
/// not in a job that starts again as a whole, whose launches all begin at generation 0.
struct Team {
  std::uint64_t launch = 0;  ///< 0: members are replaced one by one
  std::uint64_t generation = 0;
  std::vector<std::uint32_t> members;  ///< numbers of client processes, by rank

  void replace(std::uint32_t old_member, std::uint32_t new_member) {
    if (launch == 0) ++generation;
    for (std::uint32_t& member : members) {
      if (member == old_member) member = new_member;
    }
  }
};

/// What rank `giver` of a launch brings to exchange (generation, sequence) for `taker`.
Bytes exchange_part(std::uint64_t launch, std::uint64_t generation, std::uint64_t sequence,
                    Rank giver, Rank taker);
/// Everybody knows the shape of an exchange from its number.
Shape exchange_shape(std::uint64_t sequence);

class Workload {
 public:
  /// A process that only reads stays with a daemon that was deposed, until it is told.
  Workload(const Swarm& swarm, std::shared_ptr<Team> team, std::uint32_t client,
           std::uint64_t seed);

  /// The next thing to ask; nothing if what comes next is not possible now.
  std::optional<Request> next();
  /// What is asked beside all that, one at a time, if there is a crew.
  WatchGroup watch() { return crew_->watch(); }
  /// An answer of one of them came.
  void done(const Op& op);
  void session_lost() {
    if (crew_) crew_->session_lost();
  }

 private:
  std::optional<Request> make(Work work);
  Request transaction();
  std::optional<Request> barrier(bool barrier);
  Bytes key(char family);
  Request unending(Bytes key);
  Bytes value();
  Duration timeout();
  Duration ttl();

  /// Where this process is in the barriers or the exchanges of its team.
  struct Place {
    std::uint64_t generation = 0;
    std::uint64_t sequence = 0;
    bool asked = false;
  };

  const Swarm& swarm_;
  std::shared_ptr<Team> team_;
  std::uint32_t client_;
  Random random_;
  std::vector<Work> works_;
  std::uint64_t values_ = 0;
  Bytes last_read_;  // a value to expect in a compare_set
  Place barriers_;
  Place exchanges_;
  std::optional<CrewMember> crew_;
  bool watching_ = false;
  Watch watch_;
};

}  // namespace c10dd::sim
