// SPDX-License-Identifier: Apache-2.0
// Keeps the keys of one job in byte order, with a hash index for the lookup of single keys. Each
// key has a value and the revision that wrote the value. Checks the limits of keys and values.
// Remembers a deletion until it is durable, because the reply "not found" must not be sent earlier.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "daemon/core/audit.h"
#include "daemon/core/keys/key_index.h"
#include "daemon/core/quotas.h"
#include "protocol/blob.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

class KeySpace {
 public:
  struct StoredValue {
    Blob value;
    Revision revision = 0;
  };

  using Entries = std::map<Blob, StoredValue, BytesLess>;

  /// Where a key is, or where it would be inserted. Valid until a key is added or erased.
  /// check_put() returns the place, so that put() need not search for the key again.
  struct Place {
    Entries::iterator at;
    bool exists = false;
  };

  explicit KeySpace(const Quotas& quotas) : quotas_(quotas) {}
  KeySpace(const KeySpace&) = delete;  // index_ points into entries_
  KeySpace& operator=(const KeySpace&) = delete;

  Place place(std::string_view key);

  const StoredValue* find(std::string_view key) const {
    const Entries::iterator* const found = index_.find(key);
    return found == nullptr ? nullptr : &(*found)->second;
  }

  /// Returns the newest revision that a read of this key depends on: the revision of the key's last
  /// write or deletion. `found` is what find(key) has returned.
  Revision observed(std::string_view key, const StoredValue* found) const {
    return found != nullptr ? found->revision : deleted_at(key);
  }
  Revision observed(std::string_view key) const { return observed(key, find(key)); }

  /// The numbers of keys and bytes to be added by planned puts. A planned put is not yet applied.
  struct PlannedPuts {
    std::size_t keys = 0;
    std::size_t bytes = 0;
  };

  /// Checks whether a key may get a value of this size. Fails with invalid_argument if the key is
  /// empty, with too_large if the key or the value is too long, and with quota_exceeded if this put
  /// and `planned_puts` together exceed the job's quota. Adds this put to `planned_puts`. If two
  /// puts set the same new key, both count. Shrinking a value makes no room for other puts.
  Result<Place> check_put(std::string_view key, std::size_t value_bytes, PlannedPuts& planned_puts);
  Result<Place> check_put(std::string_view key, std::size_t value_bytes);

  /// Sets a key, which is or will be at `place`. Returns the key as it is stored; the reference is
  /// valid until the key is erased.
  const Blob& put(const Place& place, std::string_view key, Blob value, Revision revision);
  const Blob& put(std::string_view key, Blob value, Revision revision) {
    return put(place(key), key, std::move(value), revision);
  }
  /// Erases a key. Returns whether it existed.
  bool erase(std::string_view key, Revision revision);
  /// Erases all keys that have the prefix. Returns these keys in byte order.
  std::vector<Blob> erase_prefix(const Bytes& prefix, Revision revision);

  /// Returns the first keys after `start_after` that have the prefix: at most `limit` keys, and
  /// together at most limits::kListPageBytes bytes. Sets `more` if further keys have the prefix.
  std::vector<Bytes> list(std::string_view prefix, std::string_view start_after, std::size_t limit,
                          bool& more) const;
  std::uint64_t count(std::string_view prefix) const;

  /// Notes that all changes up to `revision` are durable. Forgets the deletions up to `revision`.
  void durable(Revision revision);

  /// Calls f(key, StoredValue) for each key, in byte order.
  template <class F>
  void for_each(F&& f) const {
    for (const auto& [key, stored] : entries_) f(std::string_view(key), stored);
  }

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  AuditResult audit() const;

 private:
  Revision deleted_at(std::string_view key) const;
  void drop(Entries::iterator at);

  Quotas quotas_;
  Entries entries_;
  KeyIndex<Entries::iterator> index_;  ///< all of entries_
  std::map<Blob, Revision, BytesLess> deleted_;
  std::vector<std::pair<Bytes, Revision>> deleted_prefixes_;  // oldest first
  std::size_t bytes_ = 0;
};

/// Fails with invalid_argument if the key is empty, and with too_large if the key is longer than
/// limits::kKeyBytes.
Result<void> check_key(std::string_view key);

}  // namespace c10dd::core
