// SPDX-License-Identifier: Apache-2.0
// The store that a trainer sees, shaped like PyTorch's c10d Store. Implementations: the daemon's
// (client/job_store.h), file (the processes of one machine), hash (one process), prefix (a view of
// another store).
// All methods are thread-safe and block; all throw c10dd::Error and its subclasses.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <c10dd/language.h>

namespace c10dd {

class Store {
 public:
  using Timeout = std::chrono::nanoseconds;

  virtual ~Store() = default;

  /// Stores a value; as durable as the store when it returns. Keys: 1 to 8 KiB, values: up to 8
  /// MiB.
  virtual void set(const std::string& key, std::string_view value) = 0;

  /// The value of a key; waits for the key. TimedOut when it does not appear; with a time-out of
  /// 0 a missing key is NotFound.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;

  /// Waits until all keys exist; a queue that has an item counts as a key. TimedOut names the
  /// missing ones.
  virtual void wait(const std::vector<std::string>& keys, Timeout timeout) = 0;

  /// Whether all keys exist now; a queue that has an item counts as a key.
  virtual bool check(const std::vector<std::string>& keys) = 0;

  /// Adds to a counter (a missing key counts as 0) and returns the sum. Exactly once, whatever
  /// happens to the connection or the daemon.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Adds bytes to the end of a value (a missing key counts as empty) and returns how many it has
  /// then. Exactly once, like add.
  virtual std::uint64_t append(const std::string& key, std::string_view value) = 0;

  /// Stores desired if the value equals expected (a missing key equals ""). Returns the value
  /// afterwards, or expected when the key is missing and expected is not empty, as c10d does.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;

  /// Removes a key; whether it existed.
  virtual bool remove(const std::string& key) = 0;

  /// Removes every key with a prefix in one change and returns how many; "" is every key. Queues
  /// stay.
  virtual std::uint64_t remove_prefix(const std::string& prefix) = 0;

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

  /// Puts an item at the end of a queue and returns the queue's length. Queues have names of their
  /// own: a key of the same name is something else, and list and count show only keys.
  virtual std::uint64_t queue_push(const std::string& key, std::string_view value) = 0;

  /// Takes the oldest item of a queue; waits for one. TimedOut when there is none; with a time-out
  /// of 0 an empty queue is NotFound. A call that throws has taken nothing. Each item goes to one
  /// caller (from a daemon to another one, too, if the first was cut off at that moment and for
  /// longer than ClientOptions::session_expiry). From a daemon that was away while a pop timed out,
  /// an item may come after later ones.
  virtual std::string queue_pop(const std::string& key, Timeout timeout) = 0;

  /// How many items a queue has.
  virtual std::uint64_t queue_length(const std::string& key) = 0;

  /// The time-out of the forms below, which take none.
  Timeout default_timeout() const { return default_timeout_; }
  void set_default_timeout(Timeout timeout) { default_timeout_ = timeout; }
  std::string get(const std::string& key) { return get(key, default_timeout_); }
  void wait(const std::vector<std::string>& keys) { wait(keys, default_timeout_); }
  std::vector<std::string> multi_get(const std::vector<std::string>& keys) {
    return multi_get(keys, default_timeout_);
  }
  std::string queue_pop(const std::string& key) { return queue_pop(key, default_timeout_); }

 private:
  Timeout default_timeout_ = std::chrono::seconds(300);
};

/// A store inside this process; shared by its threads.
std::shared_ptr<Store> make_hash_store();

/// A store in a file, shared by the processes that open it. What was stored survives all of them,
/// also one that is killed in the middle of a call, but not a power loss. The file grows as the
/// store does and is put in order from time to time; each process keeps all of it in memory.
/// With a world size the last of so many stores to be closed removes the file; without one, or
/// when a process was killed, it stays, and who opens it next finds what was in it: use a path of
/// its own for every run. The folder must be writable. On NFS, flock must work between the
/// machines (Linux does so, unless mounted with nolock or local_lock); changes are noticed by
/// polling, so that waits are slower there.
/// Throws InvalidArgument when the path is no file store, Error when it cannot be used (permission,
/// damage, made by a newer version), DiskFull when a change did not fit and so was not made.
std::shared_ptr<Store> make_file_store(const std::string& path, std::uint32_t world_size = 0);

/// The store that a URL names: c10dd://host:port/job (a client of its own, closed with the store),
/// file:///path, or hash: (a new one). Throws as these do, and InvalidArgument for any other URL.
std::shared_ptr<Store> open_store(const std::string& url);

/// A view of another store in which every key gets `prefix` and a slash in front.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace c10dd
