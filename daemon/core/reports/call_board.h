// SPDX-License-Identifier: Apache-2.0
// Stores, in memory only, which collective call each rank of a job is waiting in. A rank whose call
// has failed reads the calls of all ranks for its error text. An entry is forgotten if its rank
// does not publish the call again within limits::kPublishedCallLife.
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
  /// Stores the call of a rank, or removes it if `publish.ended` is set. Fails with
  /// invalid_argument, too_large or quota_exceeded; a failure changes nothing.
  Result<void> publish(const PublishCall& publish, TimePoint now);

  /// Returns the calls of a process group, and the ranks that have not published a call. Fails with
  /// invalid_argument if the world size is out of bounds.
  Result<PublishedCalls> read(const ReadCalls& read) const;

  /// Forgets at most limits::kExpiriesPerTick entries whose lifetime is over.
  void tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const { return deadlines_.next(); }
  AuditResult audit() const;

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
