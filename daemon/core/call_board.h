// SPDX-License-Identifier: Apache-2.0
// Keeps the collective calls that the ranks of a job wait in, for the error texts of ranks whose
// calls do not match. In memory only. An entry is forgotten limits::kPublishedCallLife after its
// rank has published it last.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "daemon/core/audit.h"
#include "daemon/core/deadlines.h"
#include "protocol/error.h"
#include "protocol/ops.h"

namespace c10dd::core {

class CallBoard {
 public:
  /// Stores or ends the call of a rank. Fails with invalid_argument, too_large or quota_exceeded; a
  /// failure changes nothing.
  Result<void> publish(const PublishCall& publish, TimePoint now);

  /// Returns the calls of a process group, and the ranks that have not published one. Fails with
  /// invalid_argument if the world size is out of bounds.
  Result<PublishedCalls> read(const ReadCalls& read) const;

  /// Forgets the entries whose time is over, at most limits::kExpiriesPerTick.
  void tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const { return deadlines_.next(); }
  Finding audit() const;

 private:
  struct ProcessGroup {
    std::map<PublishedCall, RankSet> calls;
    std::map<Rank, std::map<PublishedCall, RankSet>::iterator> current;
    RankSet published;
  };

  Result<void> has_room(const PublishCall& publish) const;
  void forget(std::uint64_t process_group, Rank rank);

  std::map<std::uint64_t, ProcessGroup> groups_;
  Deadlines<std::pair<std::uint64_t, Rank>> deadlines_;
};

}  // namespace c10dd::core
