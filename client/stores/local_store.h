// SPDX-License-Identifier: Apache-2.0
// The common part of all stores that use no daemon. Keeps keys and queues in memory. Has the limits
// and errors of the daemon's store, so that a program works with either kind of store. A derived
// store decides how an attempt gets the newest state, how changes are stored, and how waiting calls
// notice changes.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/store.h"
#include "protocol/types.h"

namespace c10dd::client {

/// One change of the state. In a change of kind remove_prefix, `key` is the prefix. In a change of
/// kind leave, `key` is empty.
struct LocalChange {
  enum class Kind : std::uint8_t { set, append, remove, remove_prefix, push, pop, leave };

  Kind kind = Kind::set;
  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_ENUM(LocalChange::Kind, set, append, remove, remove_prefix, push, pop, leave)
BOOST_DESCRIBE_STRUCT(LocalChange, (), (kind, key, value))

/// Keys and queues. Not thread-safe.
class LocalState {
 public:
  using Keys = std::map<std::string, std::string>;
  using Queues = std::map<std::string, std::deque<std::string>>;  // has no empty queues

  void apply(const LocalChange& change);

  const Keys& keys() const { return keys_; }
  const Queues& queues() const { return queues_; }
  /// Returns whether a key, or a queue that is not empty, has this name.
  bool exists(const std::string& key) const { return keys_.contains(key) || queues_.contains(key); }
  /// Returns how many stores have recorded that they were closed.
  std::uint32_t leaves() const { return leaves_; }
  /// Returns the approximate size in bytes of a file with these keys and items.
  std::size_t bytes() const { return bytes_; }

 private:
  Keys keys_;
  Queues queues_;
  std::uint32_t leaves_ = 0;
  std::size_t bytes_ = 0;
};

/// Implements the operations of Store by calling run(). Thread-safe if run() is thread-safe.
class LocalStore : public Store {
 public:
  void set(const std::string& key, std::string_view value) override;
  std::string get(const std::string& key, Timeout timeout) override;
  void wait(const std::vector<std::string>& keys, Timeout timeout) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::uint64_t append(const std::string& key, std::string_view value) override;
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override;
  bool remove(const std::string& key) override;
  std::uint64_t remove_prefix(const std::string& prefix) override;
  std::vector<std::string> multi_get(const std::vector<std::string>& keys,
                                     Timeout timeout) override;
  void multi_set(const std::vector<std::string>& keys,
                 const std::vector<std::string>& values) override;
  std::vector<std::string> list(const std::string& prefix) override;
  std::uint64_t count(const std::string& prefix) override;
  std::uint64_t queue_push(const std::string& key, std::string_view value) override;
  std::string queue_pop(const std::string& key, Timeout timeout) override;
  std::uint64_t queue_length(const std::string& key) override;

 protected:
  using Changes = std::vector<LocalChange>;
  /// Tries an operation on the state. Returns true if the operation is done, false if it must wait.
  /// Appends the operation's changes to the list before it returns true.
  using Attempt = std::function<bool(const LocalState&, Changes&)>;
  enum class Access { look, change };  ///< `look`: the attempt only reads

  /// Runs `attempt` on the newest state, and again after each change of the state, until `attempt`
  /// returns true or `timeout` has passed. Returns the last result of `attempt`. Makes the changes
  /// that `attempt` has listed, all of them or none. From the start of an attempt until its changes
  /// are made, no other caller sees or changes the state.
  virtual bool run(Access access, Timeout timeout, const Attempt& attempt) = 0;
};

}  // namespace c10dd::client
