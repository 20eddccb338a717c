// SPDX-License-Identifier: Apache-2.0
// What the stores without a daemon share: keys and queues in memory, with the limits and errors of
// the daemon's: what works on them works there. A store on top of it says how attempts see the
// newest state, how changes are kept, and how a wait learns of them.
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

struct LocalChange {
  enum class Kind : std::uint8_t { set, append, remove, remove_prefix, push, pop, leave };

  Kind kind = Kind::set;
  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_ENUM(LocalChange::Kind, set, append, remove, remove_prefix, push, pop, leave)
BOOST_DESCRIBE_STRUCT(LocalChange, (), (kind, key, value))

class LocalState {
 public:
  using Keys = std::map<std::string, std::string>;
  using Queues = std::map<std::string, std::deque<std::string>>;  // none is empty

  void apply(const LocalChange& change);

  const Keys& keys() const { return keys_; }
  const Queues& queues() const { return queues_; }
  /// Whether it is a key, or a queue with an item.
  bool exists(const std::string& key) const { return keys_.contains(key) || queues_.contains(key); }
  /// How many stores were closed that said so.
  std::uint32_t leaves() const { return leaves_; }
  /// Roughly what a list of its keys and items would take.
  std::size_t bytes() const { return bytes_; }

 private:
  Keys keys_;
  Queues queues_;
  std::uint32_t leaves_ = 0;
  std::size_t bytes_ = 0;
};

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
  /// Looks at the state; true when it is done. What it changes is then put into the list.
  using Attempt = std::function<bool(const LocalState&, Changes&)>;
  enum class Access { look, change };

  /// Makes the attempt with the newest state, and again after each change, until it is done or the
  /// time is over; whether it was done. Its changes are made together or not at all, before anybody
  /// else sees the state. One with Access::look has none.
  virtual bool run(Access access, Timeout timeout, const Attempt& attempt) = 0;
};

}  // namespace c10dd::client
