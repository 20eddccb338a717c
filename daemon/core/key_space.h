// SPDX-License-Identifier: Apache-2.0
// Keeps the keys of one job in byte order, each with the revision that wrote it, and checks their
// limits. Remembers a deletion until it is durable, so that the reply "not found" can wait for it.
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

  /// Returns the newest change that a read of this key depends on: its last write or deletion.
  Revision observed(std::string_view key) const;

  /// What puts that have been checked, but not done yet, will add.
  struct PlannedPuts {
    std::size_t keys = 0;
    std::size_t bytes = 0;
  };

  /// Checks whether a key may get a value of this size: fails with invalid_argument if the key is
  /// empty, too_large beyond a length limit, and quota_exceeded if the put exceeds the job's quota
  /// on top of `planned_puts`. Adds the put to `planned_puts`. A new key counts once per put, and a
  /// value that shrinks frees nothing for the other puts.
  Result<void> check_put(std::string_view key, std::size_t value_bytes,
                         PlannedPuts& planned_puts) const;
  Result<void> check_put(std::string_view key, std::size_t value_bytes) const;

  void put(const Bytes& key, Bytes value, Revision revision);
  /// Returns whether the key existed.
  bool erase(std::string_view key, Revision revision);
  /// Returns the erased keys, in order.
  std::vector<Bytes> erase_prefix(const Bytes& prefix, Revision revision);

  /// Returns the first keys with the prefix after `start_after`: at most `limit` keys and
  /// limits::kListPageBytes. Sets `more` if there are further keys.
  std::vector<Bytes> list(std::string_view prefix, std::string_view start_after, std::size_t limit,
                          bool& more) const;
  std::uint64_t count(std::string_view prefix) const;

  /// Notes that all changes up to this revision are durable: forgets their deletions.
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

/// Fails with invalid_argument if the key is empty, and with too_large if it is longer than
/// limits::kKeyBytes.
Result<void> check_key(std::string_view key);

}  // namespace c10dd::core
