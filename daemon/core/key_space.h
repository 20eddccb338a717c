// SPDX-License-Identifier: Apache-2.0
// The keys of one job in byte order, each with the revision that wrote it. Knows the limits.
// A deletion leaves a mark until it is durable, so that "not found" can wait for it.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/quotas.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

class KeySpace {
 public:
  struct StoredValue {
    Bytes value;
    Revision revision = 0;
  };

  explicit KeySpace(const Quotas& quotas) : quotas_(quotas) {}

  const StoredValue* find(std::string_view key) const;

  /// The newest change that a look at this key depends on: its writing or its deletion.
  Revision observed(std::string_view key) const;

  /// What puts that are not done yet will add.
  struct PlannedPuts {
    std::size_t keys = 0;
    std::size_t bytes = 0;
  };

  /// Whether the key may be given a value of this size: length limits and the job's quota, on top
  /// of `planned_puts`, to which this put is added. A key counts each time that it is named, and
  /// making one smaller makes no room for another.
  Result<void> check_put(std::string_view key, std::size_t value_bytes,
                         PlannedPuts& planned_puts) const;
  Result<void> check_put(std::string_view key, std::size_t value_bytes) const;

  void put(const Bytes& key, Bytes value, Revision revision);
  bool erase(std::string_view key, Revision revision);
  /// Which they were, in order.
  std::vector<Bytes> erase_prefix(const Bytes& prefix, Revision revision);

  /// At most `limit` keys with the prefix, after start_after; more: whether there are others.
  std::vector<Bytes> list(std::string_view prefix, std::string_view start_after, std::size_t limit,
                          bool& more) const;
  std::uint64_t count(std::string_view prefix) const;

  /// Changes up to this revision are on disk: their deletion marks can go.
  void durable(Revision revision);

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  Finding audit() const;

 private:
  using Entries = std::map<Bytes, StoredValue, std::less<>>;

  Quotas quotas_;
  Entries entries_;
  std::map<Bytes, Revision, std::less<>> deleted_;
  std::vector<std::pair<Bytes, Revision>> deleted_prefixes_;  // oldest first
  std::size_t bytes_ = 0;
};

/// too_large unless the key's length is within 1 .. limits::kKeyBytes.
Result<void> check_key(std::string_view key);

}  // namespace c10dd::core
