// SPDX-License-Identifier: Apache-2.0
// First-in-first-out queues of one job. A popped item stays stored as delivered until its delivery
// is acknowledged. release() makes the item free again, in its old place. An item can also be kept
// for the next pop of one session; that is not stored. A queue exists while it has items.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/quotas.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

/// An item's place in its queue: the change that pushed it, and its number within that change.
struct ItemId {
  Revision revision = 0;
  std::uint64_t index = 0;

  auto operator<=>(const ItemId&) const = default;
};

class Queues {
 public:
  explicit Queues(const Quotas& quotas) : quotas_(quotas) {}

  /// Checks whether an item of this size may be pushed. `more_items` and `more_bytes` are the
  /// number and the size of the items that are planned before this item, but not yet pushed. Fails
  /// with invalid_argument, too_large or quota_exceeded.
  Result<void> check_push(std::string_view queue, std::size_t value_bytes, std::size_t more_items,
                          std::size_t more_bytes) const;

  /// Adds an item to a queue and returns the row of the item.
  Row push(const Bytes& queue, Bytes value, Revision revision);

  /// Returns the oldest free item, if there is one. An item is free while it is neither delivered
  /// nor reserved.
  std::optional<ItemId> oldest(std::string_view queue) const;
  void deliver(const Bytes& queue, const ItemId& item, Revision revision);
  void release(const Bytes& queue, const ItemId& item, Revision revision);
  /// Keeps the oldest free item, which must exist, from all pops, and returns the item.
  ItemId reserve(std::string_view queue);
  /// Undoes reserve(): the item is free again, in its old place.
  void unreserve(std::string_view queue, const ItemId& item);
  /// Removes a delivered item and returns the deletion of its row.
  Row erase(const Bytes& queue, const ItemId& item);

  /// Returns the value of an item, which must exist.
  const Bytes& value(const Bytes& queue, const ItemId& item) const;
  bool is_free(std::string_view queue, const ItemId& item) const;

  /// Returns the number of items that are not delivered.
  std::size_t length(std::string_view queue) const;
  /// Returns the revision of the newest queue change. Replies about queues depend on this revision.
  Revision observed() const { return changed_; }

  static bool owns(const Row& row) { return row.key.starts_with('q'); }
  Result<void> restore(const Row& row);

  std::size_t items() const { return items_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t reserved() const { return reserved_; }
  AuditResult audit() const;

 private:
  struct Queue {
    std::map<ItemId, Bytes> items;
    std::set<ItemId> free;
    std::size_t reserved = 0;  // number of items
  };

  Quotas quotas_;
  std::map<Bytes, Queue, std::less<>> queues_;
  ItemId last_;  // the newest that was pushed
  Revision changed_ = 0;
  std::size_t items_ = 0;
  std::size_t bytes_ = 0;
  std::size_t reserved_ = 0;  // sum over all queues
};

}  // namespace c10dd::core
