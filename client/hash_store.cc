// SPDX-License-Identifier: Apache-2.0
// A store inside one process, with the limits and errors of the daemon's: what works on it works
// there. Waiters look again after every change, which suits the few threads of a process.
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>

#include "client/store.h"
#include "client/throw_failure.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

using client::throw_failure;

void check_key(const std::string& key) {
  if (key.empty()) {
    throw_failure(failure(Code::invalid_argument, "key is empty: give at least one byte"));
  }
  if (key.size() > limits::kKeyBytes) {
    throw_failure(failure(Code::too_large, "key too long: " + std::to_string(key.size()) +
                                               " bytes, limit " +
                                               std::to_string(limits::kKeyBytes)));
  }
}

void check_put(const std::string& key, std::string_view value) {
  check_key(key);
  if (value.size() <= limits::kValueBytes) return;
  throw_failure(failure(Code::too_large, "value too large: " + std::to_string(value.size()) +
                                             " bytes, limit " +
                                             std::to_string(limits::kValueBytes)));
}

void check_count(const char* op, std::size_t keys) {
  if (keys <= limits::kKeysPerRequest) return;
  throw_failure(failure(Code::too_large, std::string(op) + ": " + std::to_string(keys) +
                                             " keys, limit " +
                                             std::to_string(limits::kKeysPerRequest)));
}

class HashStore final : public Store {
 public:
  void set(const std::string& key, std::string_view value) override {
    check_put(key, value);
    const std::lock_guard lock(mutex_);
    put(key, value);
  }

  std::string get(const std::string& key, Timeout timeout) override {
    return values({key}, timeout).front();
  }

  void wait(const std::vector<std::string>& keys, Timeout timeout) override {
    check_keys("wait", keys);
    std::unique_lock lock(mutex_);
    const std::vector<std::string> missing = wait_for(lock, keys, timeout);
    if (!missing.empty()) throw_failure(missing_keys(missing, keys.size(), timeout));
  }

  bool check(const std::vector<std::string>& keys) override {
    check_count("check", keys.size());
    const std::lock_guard lock(mutex_);
    return missing_of(keys).empty();
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    check_key(key);
    const std::lock_guard lock(mutex_);
    std::int64_t value = 0;
    if (const auto it = entries_.find(key); it != entries_.end()) {
      const char* end = it->second.data() + it->second.size();
      const auto [stop, error] = std::from_chars(it->second.data(), end, value);
      if (error != std::errc() || stop != end) {
        throw_failure(
            failure(Code::wrong_type, "add: the value of the key is no decimal integer (" +
                                          std::to_string(it->second.size()) + " bytes)"));
      }
    }
    std::int64_t sum = 0;
    if (__builtin_add_overflow(value, delta, &sum)) {
      throw_failure(failure(Code::out_of_range, "add: " + std::to_string(value) + " + " +
                                                    std::to_string(delta) +
                                                    " overflows 64 bits; the value is unchanged"));
    }
    put(key, std::to_string(sum));
    return sum;
  }

  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    check_put(key, desired);
    const std::lock_guard lock(mutex_);
    const auto it = entries_.find(key);
    const bool equal = it == entries_.end() ? expected.empty() : it->second == expected;
    if (!equal) return it == entries_.end() ? expected : it->second;
    put(key, desired);
    return desired;
  }

  bool remove(const std::string& key) override {
    check_key(key);
    const std::lock_guard lock(mutex_);
    return entries_.erase(key) > 0;
  }

  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override {
    return values(keys, timeout);
  }

  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override {
    if (keys.size() != values.size() || keys.size() > limits::kKeysPerRequest) {
      throw_failure(failure(Code::invalid_argument,
                            "multi_set: " + std::to_string(keys.size()) + " keys and " +
                                std::to_string(values.size()) + " values, limit " +
                                std::to_string(limits::kKeysPerRequest) + " of each"));
    }
    for (std::size_t i = 0; i < keys.size(); ++i) check_put(keys[i], values[i]);
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < keys.size(); ++i) put(keys[i], values[i]);
  }

  std::vector<std::string> list(const std::string& prefix) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> keys;
    for (auto it = entries_.lower_bound(prefix); is_below(it, prefix); ++it) {
      keys.push_back(it->first);
    }
    return keys;
  }

  std::uint64_t count(const std::string& prefix) override { return list(prefix).size(); }

 private:
  using Entries = std::map<std::string, std::string>;
  using Lock = std::unique_lock<std::mutex>;

  static void check_keys(const char* op, const std::vector<std::string>& keys) {
    check_count(op, keys.size());
    for (const std::string& key : keys) check_key(key);
  }

  bool is_below(Entries::const_iterator it, const std::string& prefix) const {
    return it != entries_.end() && it->first.starts_with(prefix);
  }

  void put(const std::string& key, std::string_view value) {
    entries_.insert_or_assign(key, std::string(value));
    changed_.notify_all();
  }

  std::vector<std::string> missing_of(const std::vector<std::string>& keys) const {
    std::vector<std::string> missing;
    for (const std::string& key : keys) {
      if (!entries_.contains(key)) missing.push_back(key);
    }
    return missing;
  }

  /// What is still missing when the time is over.
  std::vector<std::string> wait_for(Lock& lock, const std::vector<std::string>& keys,
                                    Timeout timeout) {
    const Timeout bounded = std::min<Timeout>(timeout, limits::kTimeoutMax);
    changed_.wait_for(lock, bounded, [&] { return missing_of(keys).empty(); });
    return missing_of(keys);
  }

  std::vector<std::string> values(const std::vector<std::string>& keys, Timeout timeout) {
    check_keys("multi_get", keys);
    Lock lock(mutex_);
    const std::vector<std::string> missing = wait_for(lock, keys, timeout);
    if (!missing.empty() && timeout <= Timeout::zero()) {
      throw_failure(failure(Code::not_found, std::to_string(missing.size()) + " of " +
                                                 std::to_string(keys.size()) + " keys not found"));
    }
    if (!missing.empty()) throw_failure(missing_keys(missing, keys.size(), timeout));
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(entries_.at(key));
    return values;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;
};

}  // namespace

std::shared_ptr<Store> make_hash_store() { return std::make_shared<HashStore>(); }

}  // namespace c10dd
