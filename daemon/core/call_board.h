// SPDX-License-Identifier: Apache-2.0
// Keeps which collectives the ranks of a job wait in, for the error texts of ranks whose calls do
// not match. In memory only; an entry that its rank does not publish again is forgotten.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "daemon/core/audit.h"
#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::core {

class CallBoard {
 public:
  /// invalid_argument, too_large or quota_exceeded; then nothing has changed.
  Result<void> publish(const PublishCall& publish, TimePoint now);

  /// invalid_argument when the world size is out of bounds.
  Result<PublishedCalls> read(const ReadCalls& read) const;

  /// Forgets what has not been published again for so long.
  void tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  Finding audit() const;

 private:
  struct CurrentCall {
    std::map<PublishedCall, RankSet>::iterator call;
    TimePoint until;
  };
  struct ProcessGroup {
    std::map<PublishedCall, RankSet> calls;
    std::map<Rank, CurrentCall> current;
    RankSet published;
  };

  Result<void> has_room(const PublishCall& publish) const;
  void forget(std::uint64_t process_group, Rank rank);

  std::map<std::uint64_t, ProcessGroup> groups_;
  std::set<std::tuple<TimePoint, std::uint64_t, Rank>> by_time_;
};

}  // namespace c10dd::core
