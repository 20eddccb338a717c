// SPDX-License-Identifier: Apache-2.0
// The store that a trainer sees, shaped like PyTorch's c10d Store. Implementations: the daemon's
// (Client::store), hash (one process), prefix (a view of another store).
// All methods are thread-safe and block; all throw c10dd::Error and its subclasses.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace c10dd {

class Store {
 public:
  using Timeout = std::chrono::nanoseconds;

  virtual ~Store() = default;

  /// Stores a value; durable when it returns. Keys: 1 to 8 KiB, values: up to 8 MiB.
  virtual void set(const std::string& key, std::string_view value) = 0;

  /// The value of a key; waits for the key. TimedOut when it does not appear; with a time-out of
  /// 0 a missing key is NotFound.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;

  /// Waits until all keys exist. TimedOut names the missing ones.
  virtual void wait(const std::vector<std::string>& keys, Timeout timeout) = 0;

  /// Whether all keys exist now.
  virtual bool check(const std::vector<std::string>& keys) = 0;

  /// Adds to a counter (a missing key counts as 0) and returns the sum. Exactly once, whatever
  /// happens to the connection or the daemon.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Stores desired if the value equals expected (a missing key equals ""). Returns the value
  /// afterwards, or expected when the key is missing and expected is not empty, as c10d does.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;

  /// Removes a key; whether it existed.
  virtual bool remove(const std::string& key) = 0;

  /// The values of many keys at one moment; waits for all of them like get.
  virtual std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                             Timeout timeout) = 0;

  /// Sets many keys in one atomic change.
  virtual void multi_set(const std::vector<std::string>& keys,
                         const std::vector<std::string>& values) = 0;

  /// All keys with a prefix, in byte order.
  virtual std::vector<std::string> list(const std::string& prefix) = 0;

  /// How many keys have a prefix.
  virtual std::uint64_t count(const std::string& prefix) = 0;

  /// The time-out of the two-argument forms below.
  Timeout default_timeout() const { return default_timeout_; }
  void set_default_timeout(Timeout timeout) { default_timeout_ = timeout; }
  std::string get(const std::string& key) { return get(key, default_timeout_); }
  void wait(const std::vector<std::string>& keys) { wait(keys, default_timeout_); }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys) {
    return multi_get(keys, default_timeout_);
  }

 private:
  Timeout default_timeout_ = std::chrono::seconds(300);
};

/// A store inside this process; shared by its threads.
std::shared_ptr<Store> make_hash_store();

/// A view of another store in which every key gets `prefix` and a slash in front.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace c10dd
