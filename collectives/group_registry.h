// SPDX-License-Identifier: Apache-2.0
// GroupRegistry: the open process groups of this process, so that all groups of a generation can be
// aborted when the generation has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "client/membership.h"
#include "collectives/abortable_group.h"

namespace c10dd::collectives {

/// Knows the groups of this process that are open. Does not own them. Thread-safe.
class GroupRegistry {
 public:
  static GroupRegistry& instance();

  /// Adds a group until the result is destroyed. `family`: the name of the group from which it was
  /// made by new_group() or split(), directly or not, or its own name. `membership`: the membership
  /// with which that group was opened, or null.
  [[nodiscard]] std::shared_ptr<void> add(const std::shared_ptr<AbortableGroup>& group,
                                          std::string family, const Membership* membership);

  /// Aborts all groups of this family that have this generation or an earlier one, as
  /// ProcessGroup::abort() does. Returns their number.
  std::size_t abort(std::string_view family, std::uint64_t generation, const std::string& reason);

  /// Aborts all groups of this membership whose generation has ended in `state`.
  void abort_ended(const Membership& membership, const GroupState& state);

 private:
  struct Entry {
    std::weak_ptr<AbortableGroup> group;
    std::string family;
    const Membership* membership;
    std::uint64_t generation;
  };

  std::vector<std::shared_ptr<AbortableGroup>> find(
      const std::function<bool(const Entry&)>& matches);

  std::mutex mutex_;
  std::list<Entry> entries_;
};

}  // namespace c10dd::collectives
