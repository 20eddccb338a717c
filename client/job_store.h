// SPDX-License-Identifier: Apache-2.0
// The store of a job, kept by the daemon: a Store that also has keys with a time to live, ephemeral
// keys, revisions, transactions and watches. Standard library only.
// A revision numbers a change of the job: revisions grow, and no two changes share one.
#pragma once

#include <c10dd/store.h>

namespace c10dd {

struct SetOptions {
  /// Time after which the key is removed, 10 ms to 365 days; 0: never.
  std::chrono::nanoseconds ttl{0};
  /// Removes the key when this client is closed, or has been without a connection for longer than
  /// its ClientOptions::session_expiry. Set the key again when ClientStats::sessions_lost has
  /// grown.
  bool ephemeral = false;
};

/// A value with the revision that wrote it.
struct Entry {
  std::string value;
  std::uint64_t revision = 0;
};

struct KeyList {
  std::vector<std::string> keys;  ///< in byte order
  /// Revision of the list: a watch from revision + 1 misses no change. Keys after the first 65,536
  /// are read a little later than at this revision.
  std::uint64_t revision = 0;
};

/// A builder of conditions and actions for JobStore::transact(). The actions are applied as one
/// change if all conditions hold, else none of them is:
///   Transaction().if_absent("leader").set("leader", name, {.ephemeral = true}).add("terms", 1)
/// At most 1,024 conditions, 1,024 actions and 16 adds. Not thread-safe.
class Transaction {
 public:
  /// Conditions: the key exists, is absent, or has this value.
  Transaction& if_exists(std::string key);
  Transaction& if_absent(std::string key);
  Transaction& if_value(std::string key, std::string value);
  /// Condition: the key was last written by this revision; 0: the key is absent.
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
  std::uint64_t revision = 0;  ///< of the change; if not applied: the newest of the job
  std::vector<std::int64_t> sums;  ///< results of the adds, in their order
};

/// One change of one key.
struct KeyChange {
  std::uint64_t revision = 0;
  bool removed = false;  ///< by a remove, at the end of its ttl, or because its session ended
  std::string key;
  std::string value;  ///< the new value; empty if removed
};

struct WatchBatch {
  std::vector<KeyChange> changes;  ///< in order; empty if the time-out has passed
  /// Revision from which a new watch continues. A change of many keys may be split over several
  /// batches: then a new watch from here repeats the keys that are in this batch. The same KeyWatch
  /// repeats nothing.
  std::uint64_t next = 0;
};

/// A reader of the changes of a key, or of all keys with a prefix: every change exactly once and in
/// order, also across lost connections, restarts of the daemon and lost sessions. Copies share one
/// position.
class KeyWatch {
 public:
  using Timeout = Store::Timeout;

  /// Returns the changes since the last call. Blocks up to `timeout` for the first one; an empty
  /// batch means that there was none. Throws Compacted if this reader was so slow that the daemon
  /// no longer keeps some of the changes, TimedOut if the daemon is unreachable (call it again),
  /// and Aborted after cancel(). Not thread-safe: one caller at a time.
  WatchBatch next(Timeout timeout);

  /// Makes a next() that is blocked, and all later ones, throw Aborted. Thread-safe.
  void cancel();

  /// Returns the revision from which the next call of next() reads. Thread-safe.
  std::uint64_t from() const;

  class State;
  explicit KeyWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

/// A Store with the operations that only a daemon has. Thread-safe. Its calls throw Error with
/// Code::closed when the client is gone, and Forked in a process that was forked from the client's.
class JobStore : public Store {
 public:
  using Store::set;

  /// Sets a key and returns the revision of the change. The options replace those that the key had:
  /// with default options the key stays until it is removed.
  virtual std::uint64_t set(const std::string& key, std::string_view value,
                            const SetOptions& options) = 0;

  /// Returns the value of a key with the revision that wrote it. Waits and throws as get() does.
  virtual Entry entry(const std::string& key, Timeout timeout) = 0;

  /// Returns all keys with a prefix, with the revision of the list, so that a watch can continue
  /// from it.
  virtual KeyList list_keys(const std::string& prefix) = 0;

  /// Applies all actions in order, as one change, if all conditions hold; applies none of them if
  /// one does not. Exactly once, as add() is. Throws if an action is not possible (a limit, an add
  /// to a value that is not an integer); then none is applied.
  virtual TransactionResult transact(const Transaction& transaction) = 0;

  /// Watches one key from a revision on. With `from` 0 it asks the daemon for the present revision:
  /// every change after watch() has returned is seen. Blocks only with `from` 0.
  virtual KeyWatch watch(const std::string& key, std::uint64_t from = 0) = 0;
  /// Watches all keys with a prefix, otherwise as watch() does; "" means every key.
  virtual KeyWatch watch_prefix(const std::string& prefix, std::uint64_t from = 0) = 0;

  /// Waits up to default_timeout().
  Entry entry(const std::string& key) { return entry(key, default_timeout()); }
};

}  // namespace c10dd
