// SPDX-License-Identifier: Apache-2.0
// The deletion of all keys with a prefix is kept as one entry, not as one entry per deleted key.
#include "daemon/core/keys/key_space.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {

Result<void> check_key(std::string_view key) {
  if (key.empty()) return failure(Code::invalid_argument, "key is empty: give at least one byte");
  if (key.size() > limits::kKeyBytes) {
    return failure(Code::too_large, "key too long: {} bytes, limit {}", key.size(),
                   limits::kKeyBytes);
  }
  return {};
}

Revision KeySpace::deleted_at(std::string_view key) const {
  if (planted(Planted::deletion_unseen)) return 0;
  const auto it = deleted_.find(key);
  Revision newest = it == deleted_.end() ? 0 : it->second;
  for (const auto& [prefix, revision] : deleted_prefixes_) {
    if (key.starts_with(prefix)) newest = std::max(newest, revision);
  }
  return newest;
}

KeySpace::Place KeySpace::place(std::string_view key) {
  const auto* const found = index_.find(key);
  if (found != nullptr) return {*found, true};
  return {entries_.lower_bound(key), false};
}

Result<KeySpace::Place> KeySpace::check_put(std::string_view key, std::size_t value_bytes) {
  PlannedPuts planned_puts;
  return check_put(key, value_bytes, planned_puts);
}

Result<KeySpace::Place> KeySpace::check_put(std::string_view key, std::size_t value_bytes,
                                            PlannedPuts& planned_puts) {
  if (Result<void> good = check_key(key); !good) return good.error();
  if (value_bytes > limits::kValueBytes) {
    return failure(Code::too_large, "value too large: {} bytes, limit {}, key \"{}\"", value_bytes,
                   limits::kValueBytes, printable(key, limits::kNameShown));
  }
  const Place place = this->place(key);
  const std::size_t before = place.exists ? place.at->second.value.size() : 0;
  const std::size_t after_put = value_bytes + (place.exists ? 0 : key.size());
  const std::size_t more = after_put > before ? after_put - before : 0;
  planned_puts.keys += place.exists ? 0 : 1;
  planned_puts.bytes += more;
  if (!place.exists && entries_.size() + planned_puts.keys > quotas_.keys) {
    return failure(Code::quota_exceeded, "too many keys in the job: {} with this one, limit {}",
                   entries_.size() + planned_puts.keys, quotas_.keys);
  }
  const std::size_t after = bytes_ + planned_puts.bytes;
  if (more > 0 && after > quotas_.bytes) {
    return failure(Code::quota_exceeded, "job is full: {} bytes with this value, limit {}", after,
                   quotas_.bytes);
  }
  return place;
}

const Blob& KeySpace::put(const Place& place, std::string_view key, Blob value, Revision revision) {
  auto it = place.at;
  if (!place.exists) {
    it = entries_.try_emplace(it, key);
    index_.insert(it);
    bytes_ += key.size();
    if (const auto deleted = deleted_.find(key); deleted != deleted_.end()) deleted_.erase(deleted);
  }
  bytes_ += value.size();
  bytes_ -= it->second.value.size();
  it->second = {std::move(value), revision};
  return it->first;
}

/// Takes an entry out of the index and the sum of bytes. The caller erases it from entries_.
void KeySpace::drop(Entries::iterator at) {
  bytes_ -= at->first.size() + at->second.value.size();
  index_.erase(at);
}

bool KeySpace::erase(std::string_view key, Revision revision) {
  const auto* const found = index_.find(key);
  if (found == nullptr) return false;
  const Entries::iterator it = *found;
  drop(it);
  deleted_.insert_or_assign(it->first, revision);
  entries_.erase(it);
  return true;
}

std::vector<Blob> KeySpace::erase_prefix(const Bytes& prefix, Revision revision) {
  std::vector<Blob> keys;
  auto it = entries_.lower_bound(prefix);
  while (it != entries_.end() && it->first.view().starts_with(prefix)) {
    drop(it);
    auto node = entries_.extract(it++);
    keys.push_back(std::move(node.key()));
  }
  if (!keys.empty()) deleted_prefixes_.emplace_back(prefix, revision);
  return keys;
}

std::vector<Bytes> KeySpace::list(std::string_view prefix, std::string_view start_after,
                                  std::size_t limit, bool& more) const {
  std::vector<Bytes> keys;
  std::size_t bytes = 0;
  more = false;
  auto it =
      start_after >= prefix ? entries_.upper_bound(start_after) : entries_.lower_bound(prefix);
  for (; it != entries_.end() && it->first.view().starts_with(prefix); ++it) {
    bytes += it->first.size() + sizeof(std::uint32_t);
    if (keys.size() == limit || bytes > limits::kListPageBytes) {
      more = true;
      break;
    }
    keys.push_back(it->first.str());
  }
  return keys;
}

std::uint64_t KeySpace::count(std::string_view prefix) const {
  if (prefix.empty()) return entries_.size();
  std::uint64_t count = 0;
  for (auto it = entries_.lower_bound(prefix);
       it != entries_.end() && it->first.view().starts_with(prefix); ++it) {
    ++count;
  }
  return count;
}

void KeySpace::durable(Revision revision) {
  if (deleted_.empty() && deleted_prefixes_.empty()) return;
  const auto done = [&](const auto& deletion) { return deletion.second <= revision; };
  std::erase_if(deleted_, done);
  std::erase_if(deleted_prefixes_, done);
}

AuditResult KeySpace::audit() const {
  std::size_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += key.size() + entry.value.size();
  std::size_t found = 0;
  for (const auto& [key, entry] : entries_) found += find(key) == &entry ? 1 : 0;
  return first_difference({differ("bytes of keys", bytes_, bytes),
                           differ("keys in the index", index_.size(), entries_.size()),
                           differ("keys that are found", found, entries_.size())});
}

}  // namespace c10dd::core
