// SPDX-License-Identifier: Apache-2.0
// The requests of one client process, and its use of the replies: values that occur once, barriers
// with the other members of its job, a watch that continues where it was.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/group_calls.h"
#include "tests/sim/records.h"
#include "tests/sim/swarm.h"

namespace c10dd::sim {

/// The clients that take part in the barriers of one job. A member that dies or loses its session
/// is replaced, which begins a new generation, except in a job that starts again as a whole: there
/// every launch begins at generation 0.
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

/// Returns what rank `giver` of a launch sends to rank `taker` in exchange (generation, sequence).
Bytes exchange_part(std::uint64_t launch, std::uint64_t generation, std::uint64_t sequence,
                    Rank giver, Rank taker);
/// Returns the shape of an exchange, which follows from its number.
Shape exchange_shape(std::uint64_t sequence);

class Workload {
 public:
  /// A process that only reads stays connected to a deposed daemon until it learns
  /// of that.
  Workload(const Swarm& swarm, std::shared_ptr<Team> team, std::uint32_t client,
           std::uint64_t seed);

  /// Returns the next request; empty if the one that was drawn is not possible now.
  std::optional<Request> next();
  /// Returns the watch of the group, which is sent beside next(), one at a time, if there is a
  /// group.
  WatchGroup watch() { return group_calls_->watch(); }
  /// Takes the reply to one of these requests.
  void done(const Op& op);
  void session_lost() {
    if (group_calls_) group_calls_->session_lost();
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

  /// The position of this process in the barriers or the exchanges of its team.
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
  std::optional<GroupCalls> group_calls_;
  bool watching_ = false;
  Watch watch_;
};

}  // namespace c10dd::sim
