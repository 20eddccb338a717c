// SPDX-License-Identifier: Apache-2.0
// The store of a job, kept by the daemon: a Store that also has keys with a time to live, ephemeral
// keys, revisions, transactions and watches. Standard library only.
// Each change of a job gets a number, the revision of the change. A later change always has a
// higher revision than an earlier one.
#pragma once

#include <c10dd/store.h>

namespace c10dd {

struct SetOptions {
  /// Time after which the daemon removes the key, 10 ms to 365 days. 0 means never.
  std::chrono::nanoseconds ttl{0};
  /// If true, the daemon removes the key when this client is closed, or has been without a
  /// connection for longer than ClientOptions::session_expiry. Set the key again when
  /// ClientStats::sessions_lost has grown.
  bool ephemeral = false;
};

/// A value, and the revision of the change that wrote the value.
struct Entry {
  std::string value;
  std::uint64_t revision = 0;
};

struct KeyList {
  std::vector<std::string> keys;  ///< in byte order
  /// Revision of the job when the first 65,536 keys were read; the other keys were read a little
  /// later. A watch from revision + 1 misses no change.
  std::uint64_t revision = 0;
};

/// A builder of conditions and actions for JobStore::transact(). If all conditions hold, all
/// actions are applied as one change; otherwise no action is applied. Example:
///   Transaction().if_absent("leader").set("leader", name, {.ephemeral = true}).add("terms", 1)
/// At most 1,024 conditions and 1,024 actions, of which at most 16 are `add`. Not thread-safe.
class Transaction {
 public:
  /// Conditions: the key exists, is absent, or has this value.
  Transaction& if_exists(std::string key);
  Transaction& if_absent(std::string key);
  Transaction& if_value(std::string key, std::string value);
  /// Condition: the last change of the key has this revision. Revision 0 means that the key is
  /// absent.
  Transaction& if_revision(std::string key, std::uint64_t revision);

  /// Actions, applied in the order of these calls. Each works like the method of Store that has the
  /// same name, except push, which works like queue_push.
  Transaction& set(std::string key, std::string value, SetOptions options = {});
  Transaction& remove(std::string key);
  Transaction& add(std::string key, std::int64_t delta);
  Transaction& append(std::string key, std::string value);
  Transaction& push(std::string queue, std::string value);

  struct Condition {
    enum class Kind { exists, absent, value_is, revision_is } kind;
    std::string key;
    std::string value;
    std::uint64_t revision;
  };
  struct Action {
    enum class Kind { set, remove, add, append, push } kind;
    std::string key;
    std::string value;
    std::int64_t delta;
    SetOptions options;
  };
  const std::vector<Condition>& conditions() const { return conditions_; }
  const std::vector<Action>& actions() const { return actions_; }

 private:
  std::vector<Condition> conditions_;
  std::vector<Action> actions_;
};

struct TransactionResult {
  bool applied = false;
  std::size_t failed = 0;      ///< if not applied: index of the first condition that does not hold
  std::uint64_t revision = 0;  ///< revision of the change; if not applied, the newest revision
  std::vector<std::int64_t> sums;  ///< results of the `add` actions, in their order
};

/// One change of one key.
struct KeyChange {
  std::uint64_t revision = 0;
  bool removed = false;  ///< true if a call removed the key, or the key's ttl or session has ended
  std::string key;
  std::string value;  ///< the new value; empty if removed
};

struct WatchBatch {
  std::vector<KeyChange> changes;  ///< in order of revision; empty if the time-out has passed
  /// A new KeyWatch that starts from this revision misses no change. The new KeyWatch may repeat
  /// the last changes of this batch: if a transaction of many keys is split over several batches,
  /// `next` is the revision of the transaction. The KeyWatch that has returned this batch repeats
  /// nothing.
  std::uint64_t next = 0;
};

/// Reads the changes of a key, or of all keys with a prefix. It returns every change exactly once
/// and in order, even after lost connections, lost sessions and restarts of the daemon. Copies of a
/// KeyWatch share one position.
class KeyWatch {
 public:
  using Timeout = Store::Timeout;

  /// Returns the changes since the last call. Blocks up to `timeout` until there is a change; if
  /// there is none, returns an empty batch. Not thread-safe: one caller at a time. Throws
  ///   Compacted  if the daemon no longer keeps some of these changes, because the watch started
  ///              from an old revision or next() was not called for too long
  ///   TimedOut   if the daemon is unreachable; call next() again
  ///   Aborted    after cancel()
  WatchBatch next(Timeout timeout);

  /// Makes a blocked call of next(), and all later calls of next(), throw Aborted. Thread-safe.
  void cancel();

  /// Returns the revision from which the next call of next() will read. Thread-safe.
  std::uint64_t from() const;

  class State;
  explicit KeyWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// A Store with the operations that only a daemon has. Thread-safe. Its calls throw Error with
/// Code::closed after the client was destroyed, and Forked in a process that was forked from the
/// client's process.
class JobStore : public Store {
 public:
  using Store::set;

  /// Sets a key and returns the revision of the change. `options` replaces the ttl and the
  /// ephemeral flag that the key had before: with default options the key stays until it is
  /// removed.
  virtual std::uint64_t set(const std::string& key, std::string_view value,
                            const SetOptions& options) = 0;

  /// Returns the value of a key with the revision that wrote it. Waits and throws as get() does.
  virtual Entry entry(const std::string& key, Timeout timeout) = 0;

  /// Returns all keys with a prefix, and the revision of the list. A watch from that revision + 1
  /// misses no change.
  virtual KeyList list_keys(const std::string& prefix) = 0;

  /// If all conditions hold, applies all actions in order, as one change; otherwise applies no
  /// action. The change is made exactly once, as in add(). If an action is not possible (it exceeds
  /// a limit, or adds to a value that is not an integer), applies no action and throws.
  virtual TransactionResult transact(const Transaction& transaction) = 0;

  /// Watches one key from the revision `from` on. If `from` is 0, starts after the present
  /// revision: the watch sees every change that is made after watch() has returned. In this case
  /// watch() asks the daemon for the revision and blocks until the reply; otherwise it does not
  /// block.
  virtual KeyWatch watch(const std::string& key, std::uint64_t from = 0) = 0;
  /// Watches all keys with a prefix, otherwise like watch(). The prefix "" means every key.
  virtual KeyWatch watch_prefix(const std::string& prefix, std::uint64_t from = 0) = 0;

  /// Waits up to default_timeout().
  Entry entry(const std::string& key) { return entry(key, default_timeout()); }
};

}  // namespace c10dd
