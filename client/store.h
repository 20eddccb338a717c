// SPDX-License-Identifier: Apache-2.0
// Store: the interface of all stores, similar to PyTorch's Store. A store is kept in the daemon
// (job_store.h), in a server of another project, in a file (for the processes that open it) or in
// memory (for one process). A prefix store is a view of another store: it puts a prefix before each
// key. Standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <c10dd/language.h>

namespace c10dd {

/// Holds keys with values, and queues of items. Limits: 1 to 8,192 bytes for a key, 8 MiB for a
/// value; 131,072 keys and 16 MiB for one call. A call over a limit changes nothing. It throws
/// InvalidArgument, or Error with Code::too_large. The error text says the size and the limit.
///
/// All methods may block and throw c10dd::Error or a subclass. With a daemon, a call without a
/// time-out waits up to ClientOptions::timeout while the daemon is unreachable, then throws
/// TimedOut. Time-outs are at most 30 days. Thread-safe, except for set_default_timeout().
///
/// With a server of another project, such a call waits up to default_timeout(). If the connection
/// is lost, reads and waits are made again; a change whose reply has not come throws OutcomeUnknown
/// and is never made twice.
class Store {
 public:
  using Timeout = std::chrono::nanoseconds;

  virtual ~Store() = default;

  /// Returns after the value is stored. The daemon's option --durability says which failures a
  /// value in the daemon survives; make_file_store() says which failures one in a file survives.
  virtual void set(const std::string& key, std::string_view value) = 0;

  /// Returns the value of a key. Waits for the key up to `timeout`, then throws TimedOut. With a
  /// time-out of 0, throws NotFound if the key does not exist.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;

  /// Waits up to `timeout` until all keys exist; a queue that has an item counts as a key. Throws
  /// TimedOut naming the missing keys.
  virtual void wait(const std::vector<std::string>& keys, Timeout timeout) = 0;

  /// Returns whether all keys exist now; a queue that has an item counts as a key.
  virtual bool check(const std::vector<std::string>& keys) = 0;

  /// Adds to a counter and returns the sum; a missing key counts as 0. The addition is made exactly
  /// once, whatever happens to the connection or the daemon. Throws Error with Code::wrong_type if
  /// the value is not a decimal integer, or with Code::out_of_range if the sum exceeds 64 bits; in
  /// both cases the value is unchanged.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  /// Adds bytes to the end of a value and returns its new length in bytes; a missing key counts as
  /// an empty value. The bytes are added exactly once, as in add().
  virtual std::uint64_t append(const std::string& key, std::string_view value) = 0;

  /// Stores `desired` if the value equals `expected`; a missing key counts as "". Returns `desired`
  /// if it was stored. Otherwise returns the present value or, if the key is missing, `expected`,
  /// as c10d does.
  virtual std::string compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) = 0;

  /// Removes a key; returns whether it existed.
  virtual bool remove(const std::string& key) = 0;

  /// Removes, in one change, all keys that begin with `prefix`. Returns how many keys were removed.
  /// An empty prefix removes every key. Queues are not removed.
  virtual std::uint64_t remove_prefix(const std::string& prefix) = 0;

  /// Returns the values of many keys, all read at the same moment. Waits for missing keys as get()
  /// does, and throws the same errors.
  virtual std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                             Timeout timeout) = 0;

  /// Sets many keys in one atomic change. Throws InvalidArgument if the numbers of keys and values
  /// differ.
  virtual void multi_set(const std::vector<std::string>& keys,
                         const std::vector<std::string>& values) = 0;

  /// Returns all keys with a prefix, in byte order.
  virtual std::vector<std::string> list(const std::string& prefix) = 0;

  /// Returns the number of keys with a prefix.
  virtual std::uint64_t count(const std::string& prefix) = 0;

  /// Adds an item to the end of a queue and returns the length of the queue. A key and a queue with
  /// the same name are independent of each other. list() and count() see only keys.
  virtual std::uint64_t queue_push(const std::string& key, std::string_view value) = 0;

  /// Removes the oldest item of a queue and returns it. Waits for an item up to `timeout`, then
  /// throws TimedOut. With a time-out of 0, throws NotFound if the queue is empty. A call that
  /// throws removes nothing. Each item is delivered once, with one exception. A daemon delivers an
  /// item again if the caller's connection was lost during the pop, and was not restored within
  /// ClientOptions::session_expiry. If a pop times out while the daemon is unreachable, the item
  /// chosen for this pop can lose its place in the queue, and be delivered after later items.
  virtual std::string queue_pop(const std::string& key, Timeout timeout) = 0;

  /// Returns the number of items in a queue.
  virtual std::uint64_t queue_length(const std::string& key) = 0;

  /// Returns the time-out of the functions below that have no time-out parameter. Initially 300 s
  /// or, with a daemon, ClientOptions::timeout. Set it before other threads use the store.
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

/// Creates a store in memory, for the threads of this process.
std::shared_ptr<Store> make_hash_store();

/// Opens a store in a file, creating the file if it does not exist. All processes that open the
/// file share the store. Changes stay when a process ends, even if it is killed in the middle of a
/// call, but they do not survive a power loss. The file is compacted from time to time; each
/// process keeps the whole store in memory.
///
/// If `world_size` is not 0, the file is removed when `world_size` stores that use it have been
/// closed. The file stays if `world_size` is 0 or if a process was killed. The next process that
/// opens the file then finds the old content: use a separate path for each run. The folder must be
/// writable. On NFS, flock must work between the machines: on Linux, do not mount with nolock or
/// local_lock. A waiting call polls the file, so it is slower on NFS.
///
/// Blocks up to 30 s while another process holds the lock of the file, then throws TimedOut. Throws
/// InvalidArgument if the path is not a file store. Throws Error if the file cannot be used, for
/// example because it is damaged or a newer version has written it. A change that does not fit on
/// the disk throws DiskFull and is not made.
std::shared_ptr<Store> make_file_store(const std::string& path, std::uint32_t world_size = 0);

/// Opens the store that a URL names: c10dd://host:port/job (opens a client, which is closed when
/// the store is closed), file:///path, hash: (creates a store in memory), or the URL of a server of
/// another project (docs/sdk.md has the list). Blocks and throws as Client::connect() and
/// make_file_store() do. With a server of another project, blocks up to 30 s, then throws TimedOut;
/// throws Error with Code::permission_denied if the server refuses the login, and InvalidArgument
/// or Error with Code::unsupported if the module of the store is missing. Throws InvalidArgument
/// for any other URL.
std::shared_ptr<Store> open_store(const std::string& url);

/// Returns a view of `store`. The view puts `prefix` and a slash before every key and queue name.
/// It keeps `store` alive and gets the default time-out that `store` has at this call.
std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace c10dd
