// SPDX-License-Identifier: Apache-2.0
// The store of a job, kept by the daemon: everything that a Store has, and what only a daemon can
// do: keys that vanish by themselves, revisions, transactions, watches. Standard library only.
// A revision counts the changes of the job; no two changes have the same.
#pragma once

#include <c10dd/store.h>

namespace c10dd {

struct SetOptions {
  /// The key is removed after so long; 0: never. 10 ms to 365 days.
  std::chrono::nanoseconds ttl{0};
  /// The key is removed when this client is closed, or was out of reach for longer than its
  /// ClientOptions::session_expiry. Set it again when ClientStats::sessions_lost has risen.
  bool ephemeral = false;
};

struct Entry {
  std::string value;
  std::uint64_t revision = 0;  ///< of the change that wrote it
};

struct KeyList {
  std::vector<std::string> keys;  ///< in byte order
  /// A watch from revision + 1 misses nothing. Of more than 65,536 keys the later ones are as they
  /// were a little after it.
  std::uint64_t revision = 0;
};

/// Changes that are made together or not at all, and what must hold for that:
///   Transaction().if_absent("leader").set("leader", name, {.ephemeral = true}).add("terms", 1)
/// At most 1,024 of each, and 16 adds.
class Transaction {
 public:
  Transaction& if_exists(std::string key);
  Transaction& if_absent(std::string key);
  Transaction& if_value(std::string key, std::string value);
  /// The key was last written by this revision; 0: it is absent.
  Transaction& if_revision(std::string key, std::uint64_t revision);

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
  std::size_t failed = 0;      ///< unless applied: the first condition that does not hold, from 0
  std::uint64_t revision = 0;  ///< of the change; unless applied, of the job
  std::vector<std::int64_t> sums;  ///< of its adds, in order
};

struct KeyChange {
  std::uint64_t revision = 0;
  bool removed = false;  ///< by remove, at the end of its ttl, or with its session
  std::string key;
  std::string value;
};

struct WatchBatch {
  std::vector<KeyChange> changes;  ///< in order; empty when the time was over
  /// A later watch can go on from here. If a change of many keys did not fit into one batch, it
  /// gets those again that are in this one.
  std::uint64_t next = 0;
};

/// The changes of a key or of all keys with a prefix, in order, none missing and none twice, also
/// across a lost connection, a restart of the daemon and a lost session.
class KeyWatch {
 public:
  using Timeout = Store::Timeout;

  /// The changes since the last call; waits for one. Throws Compacted when this reader was so slow
  /// that some are no longer kept, TimedOut when the daemon is out of reach: call it again. One
  /// thread at a time.
  WatchBatch next(Timeout timeout);

  /// From any thread: a next() that waits, and all later ones, throw Aborted.
  void cancel();

  /// The revision from which the next call asks.
  std::uint64_t from() const;

  class State;
  explicit KeyWatch(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

class JobStore : public Store {
 public:
  using Store::set;

  /// As set; returns the revision of the change. Without options the key stays until it is removed,
  /// whatever was said of it before.
  virtual std::uint64_t set(const std::string& key, std::string_view value,
                            const SetOptions& options) = 0;

  /// As get, with the revision that wrote the value.
  virtual Entry entry(const std::string& key, Timeout timeout) = 0;

  /// As list, with the revision at which these were the keys: list, then watch from there.
  virtual KeyList list_keys(const std::string& prefix) = 0;

  /// All actions in order, as one change, if all conditions hold; else none. Exactly once. Throws
  /// when an action cannot be done (a limit, an add on text); then none is.
  virtual TransactionResult transact(const Transaction& transaction) = 0;

  /// From a revision on, or from now on with 0: what changes after watch() has returned is seen.
  virtual KeyWatch watch(const std::string& key, std::uint64_t from = 0) = 0;
  /// Likewise all keys with a prefix; "" is every key.
  virtual KeyWatch watch_prefix(const std::string& prefix, std::uint64_t from = 0) = 0;

  Entry entry(const std::string& key) { return entry(key, default_timeout()); }
};

}  // namespace c10dd
