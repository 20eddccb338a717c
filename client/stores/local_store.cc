// SPDX-License-Identifier: Apache-2.0
// Implements each operation as an attempt: a function that reads the state and lists its changes.
#include "client/stores/local_store.h"

#include "client/internal/throw_failure.h"
#include "client/stores/checks.h"
#include "protocol/parse.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

using Kind = LocalChange::Kind;

constexpr std::size_t kOverhead = 32;  // estimated bytes of a record besides its key and value
constexpr Store::Timeout kNow = Store::Timeout::zero();

std::size_t cost(const std::string& key, std::size_t value_bytes) {
  return key.size() + value_bytes + kOverhead;
}

std::int64_t sum_of(const std::string& key, const std::string& text, std::int64_t delta) {
  const auto value = parse_number<std::int64_t>(text);
  if (!value) throw_failure(not_a_counter(key, text.size()));
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*value, delta, &sum)) throw_failure(sum_overflows(*value, delta));
  return sum;
}

std::vector<std::string> keys_with(const LocalState& state, const std::string& prefix) {
  std::vector<std::string> keys;
  for (auto it = state.keys().lower_bound(prefix);
       it != state.keys().end() && it->first.starts_with(prefix); ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

}  // namespace

// ---- the state ---------------------------------------------------------------------------------

void LocalState::apply(const LocalChange& change) {
  switch (change.kind) {
    case Kind::set:
    case Kind::append: {
      const auto [it, added] = keys_.try_emplace(change.key);
      if (!added) bytes_ -= cost(change.key, it->second.size());
      if (change.kind == Kind::set) it->second.clear();
      it->second += change.value;
      bytes_ += cost(change.key, it->second.size());
      break;
    }
    case Kind::remove:
      if (const auto it = keys_.find(change.key); it != keys_.end()) {
        bytes_ -= cost(change.key, it->second.size());
        keys_.erase(it);
      }
      break;
    case Kind::remove_prefix:
      for (const std::string& key : keys_with(*this, change.key)) {
        apply({Kind::remove, key, {}});
      }
      break;
    case Kind::push:
      queues_[change.key].push_back(change.value);
      bytes_ += cost(change.key, change.value.size());
      break;
    case Kind::pop:
      if (const auto it = queues_.find(change.key); it != queues_.end()) {
        bytes_ -= cost(change.key, it->second.front().size());
        it->second.pop_front();
        if (it->second.empty()) queues_.erase(it);
      }
      break;
    case Kind::leave:
      ++leaves_;
      break;
  }
}

// ---- keys --------------------------------------------------------------------------------------

void LocalStore::set(const std::string& key, std::string_view value) {
  check_key(key);
  check_value(key, value.size());
  run(Access::change, kNow, [&](const LocalState&, Changes& changes) {
    changes.push_back({Kind::set, key, Bytes(value)});
    return true;
  });
}

std::string LocalStore::get(const std::string& key, Timeout timeout) {
  return std::move(multi_get({key}, timeout).front());
}

void LocalStore::wait(const std::vector<std::string>& keys, Timeout timeout) {
  check_keys("wait", keys);
  std::vector<std::string> missing;
  const bool found = run(Access::look, timeout, [&](const LocalState& state, Changes&) {
    missing.clear();
    for (const std::string& key : keys) {
      if (!state.exists(key)) missing.push_back(key);
    }
    return missing.empty();
  });
  if (!found) throw_failure(missing_keys(missing, keys.size(), timeout));
}

bool LocalStore::check(const std::vector<std::string>& keys) {
  check_count("check", keys.size());
  bool all = true;
  run(Access::look, kNow, [&](const LocalState& state, Changes&) {
    for (const std::string& key : keys) all = all && state.exists(key);
    return true;
  });
  return all;
}

std::int64_t LocalStore::add(const std::string& key, std::int64_t delta) {
  check_key(key);
  std::int64_t sum = 0;
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    const auto it = state.keys().find(key);
    sum = it == state.keys().end() ? delta : sum_of(key, it->second, delta);
    changes.push_back({Kind::set, key, std::to_string(sum)});
    return true;
  });
  return sum;
}

std::uint64_t LocalStore::append(const std::string& key, std::string_view value) {
  check_key(key);
  std::size_t bytes = 0;
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    const auto it = state.keys().find(key);
    bytes = value.size() + (it == state.keys().end() ? 0 : it->second.size());
    check_value(key, bytes);  // if this throws, nothing is appended
    changes.push_back({Kind::append, key, Bytes(value)});
    return true;
  });
  return bytes;
}

std::string LocalStore::compare_set(const std::string& key, const std::string& expected,
                                    const std::string& desired) {
  check_key(key);
  check_value(key, desired.size());
  std::string after = desired;  // the result if `desired` is stored; otherwise set below
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    const auto it = state.keys().find(key);
    const bool exists = it != state.keys().end();
    if (exists ? it->second == expected : expected.empty()) {
      changes.push_back({Kind::set, key, desired});
    } else {
      after = exists ? it->second : expected;
    }
    return true;
  });
  return after;
}

bool LocalStore::remove(const std::string& key) {
  check_key(key);
  bool existed = false;
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    existed = state.keys().contains(key);
    if (existed) changes.push_back({Kind::remove, key, {}});
    return true;
  });
  return existed;
}

std::uint64_t LocalStore::remove_prefix(const std::string& prefix) {
  std::size_t removed = 0;
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    removed = keys_with(state, prefix).size();
    if (removed > 0) changes.push_back({Kind::remove_prefix, prefix, {}});
    return true;
  });
  return removed;
}

std::vector<std::string> LocalStore::multi_get(const std::vector<std::string>& keys,
                                               Timeout timeout) {
  check_keys("multi_get", keys);
  std::vector<std::string> values;
  std::vector<std::string> missing;
  const bool found = run(Access::look, timeout, [&](const LocalState& state, Changes&) {
    values.clear();
    missing.clear();
    for (const std::string& key : keys) {
      const auto it = state.keys().find(key);
      if (it == state.keys().end()) {
        missing.push_back(key);
      } else if (missing.empty()) {
        values.push_back(it->second);
      }
    }
    return missing.empty();
  });
  if (found) return values;
  if (timeout > kNow) throw_failure(missing_keys(missing, keys.size(), timeout));
  throw_failure(keys_not_found(missing, keys.size()));
}

void LocalStore::multi_set(const std::vector<std::string>& keys,
                           const std::vector<std::string>& values) {
  check_pairs(keys, values);
  run(Access::change, kNow, [&](const LocalState&, Changes& changes) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      changes.push_back({Kind::set, keys[i], values[i]});
    }
    return true;
  });
}

std::vector<std::string> LocalStore::list(const std::string& prefix) {
  std::vector<std::string> keys;
  run(Access::look, kNow, [&](const LocalState& state, Changes&) {
    keys = keys_with(state, prefix);
    return true;
  });
  return keys;
}

std::uint64_t LocalStore::count(const std::string& prefix) { return list(prefix).size(); }

// ---- queues ------------------------------------------------------------------------------------

std::uint64_t LocalStore::queue_push(const std::string& key, std::string_view value) {
  check_key(key);
  check_value(key, value.size());
  std::size_t length = 0;
  run(Access::change, kNow, [&](const LocalState& state, Changes& changes) {
    const auto it = state.queues().find(key);
    length = (it == state.queues().end() ? 0 : it->second.size()) + 1;
    changes.push_back({Kind::push, key, Bytes(value)});
    return true;
  });
  return length;
}

std::string LocalStore::queue_pop(const std::string& key, Timeout timeout) {
  check_key(key);
  std::string item;
  const bool found = run(Access::change, timeout, [&](const LocalState& state, Changes& changes) {
    const auto it = state.queues().find(key);
    if (it == state.queues().end()) return false;
    item = it->second.front();
    changes.push_back({Kind::pop, key, {}});
    return true;
  });
  if (!found) throw_failure(queue_is_empty(key, timeout));
  return item;
}

std::uint64_t LocalStore::queue_length(const std::string& key) {
  check_key(key);
  std::size_t length = 0;
  run(Access::look, kNow, [&](const LocalState& state, Changes&) {
    if (const auto it = state.queues().find(key); it != state.queues().end()) {
      length = it->second.size();
    }
    return true;
  });
  return length;
}

}  // namespace c10dd::client
