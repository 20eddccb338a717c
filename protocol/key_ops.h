// SPDX-License-Identifier: Apache-2.0
// Operations on keys: read, wait, change, watch. Part of the operation table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <vector>

#include "protocol/blob.h"
#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Stores a value. The operations `set`, `multi_set` and `compare_set` replace the time to live
/// (ttl) and the ephemeral flag of the key; `add` and `append` keep both.
struct Set {
  static constexpr OpInfo op{16, "set", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Body = Written;

  Blob key;
  Blob value;
  Duration ttl{0};         ///< the key is removed after this long; 0: never
  bool ephemeral = false;  ///< the key is removed when this session ends
};
BOOST_DESCRIBE_STRUCT(Set, (), (key, value, ttl, ephemeral))

/// Returns the value of a key. Waits up to `timeout` until the key exists. With timeout 0, fails
/// with not_found if the key does not exist.
struct Get {
  static constexpr OpInfo op{17, "get",       OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Value;

  Blob key;
  Duration timeout{0};
  /// How long the caller has waited already, so that error texts have the time-out that it gave:
  /// `timeout` is what is left of that.
  Duration waited{0};
};
BOOST_DESCRIBE_STRUCT(Get, (), (key, timeout, waited))

/// Waits until every key exists; a queue that has an item counts as an existing key. After the
/// time-out, fails with timed_out and the names of the missing keys. If a session with Hello::c10d
/// waits for a single key and a queue of that name has a free item, the item is kept for the next
/// request of the session. It is free again if that request is not a queue_pop from this queue, or
/// if the session ends.
struct Wait {
  static constexpr OpInfo op{18, "wait",      OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Done;

  std::vector<Bytes> keys;
  Duration timeout{0};
  /// Each key must have existed at some moment since the request; the keys need not all exist at
  /// the same moment.
  bool each = false;
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(Wait, (), (keys, timeout, each, waited))

/// Tells whether every key exists; a queue that has an item counts as an existing key.
struct Check {
  static constexpr OpInfo op{19, "check",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Checked;

  std::vector<Bytes> keys;
};
BOOST_DESCRIBE_STRUCT(Check, (), (keys))

/// Adds `delta` to a counter: a key whose value is a decimal number. A missing key counts as 0.
/// With `lenient`, fails with invalid_argument if the value does not begin with a number of 64
/// bits, and a sum beyond 64 bits wraps around, as in PyTorch's TCPStore.
struct Add {
  static constexpr OpInfo op{20, "add", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Body = Counter;

  Blob key;
  std::int64_t delta = 0;
  bool lenient = false;  ///< reads the old value as C's strtoll does; never out_of_range
};
BOOST_DESCRIBE_STRUCT(Add, (), (key, delta, lenient))

/// If the key has the value `expected`, stores `desired`. A missing key counts as an empty value.
struct CompareSet {
  static constexpr OpInfo op{21, "compare_set", OpKind::write, Access::use,
                             1,  Dedup::reply,  Growth::much};
  using Body = Compared;

  Blob key;
  Blob expected;
  Blob desired;
};
BOOST_DESCRIBE_STRUCT(CompareSet, (), (key, expected, desired))

/// Removes a key.
struct Remove {
  static constexpr OpInfo op{22, "remove",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::none};
  using Body = Removed;

  Blob key;
};
BOOST_DESCRIBE_STRUCT(Remove, (), (key))

/// Returns the values of many keys, all at the same revision. Waits up to `timeout` until all keys
/// exist. With timeout 0, fails with not_found if a key does not exist.
struct MultiGet {
  static constexpr OpInfo op{23, "multi_get", OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Values;

  std::vector<Bytes> keys;
  Duration timeout{0};
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(MultiGet, (), (keys, timeout, waited))

/// Sets many keys in one atomic change.
struct MultiSet {
  static constexpr OpInfo op{24, "multi_set",  OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Written;

  std::vector<Bytes> keys;
  std::vector<Bytes> values;  ///< one for each key
};
BOOST_DESCRIBE_STRUCT(MultiSet, (), (keys, values))

/// Returns the keys that begin with `prefix`, in byte order, but at most `limit` keys. One reply
/// has at most limits::kListPageKeys keys and at most limits::kListPageBytes bytes.
struct List {
  static constexpr OpInfo op{25, "list",      OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = KeyPage;

  Bytes prefix;
  Bytes start_after;        ///< returns only keys that sort after this key
  std::uint32_t limit = 0;  ///< 0: a full page
};
BOOST_DESCRIBE_STRUCT(List, (), (prefix, start_after, limit))

/// Returns the number of keys that begin with `prefix`.
struct Count {
  static constexpr OpInfo op{26, "count",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Counted;

  Bytes prefix;
};
BOOST_DESCRIBE_STRUCT(Count, (), (prefix))

/// Appends bytes to a value; a missing key counts as an empty value.
struct Append {
  static constexpr OpInfo op{27, "append",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Appended;

  Blob key;
  Blob value;
};
BOOST_DESCRIBE_STRUCT(Append, (), (key, value))

/// Removes, in one change, all keys that begin with `prefix`. An empty prefix means every key. Does
/// not remove queues. Returns the number of removed keys.
struct RemovePrefix {
  static constexpr OpInfo op{28, "remove_prefix", OpKind::write, Access::use,
                             1,  Dedup::reply,    Growth::none};
  using Body = Counted;

  Bytes prefix;
};
BOOST_DESCRIBE_STRUCT(RemovePrefix, (), (prefix))

/// One condition of a transaction, on one key. Transact applies nothing unless all conditions hold.
struct Condition {
  enum class Kind : std::uint8_t {
    exists,       ///< the key exists
    absent,       ///< the key does not exist
    value_is,     ///< the key exists and has this value
    revision_is,  ///< the key was last written at this revision; 0: the key does not exist
  };

  Kind kind = Kind::exists;
  Bytes key;
  Bytes value;
  Revision revision = 0;
};
BOOST_DESCRIBE_ENUM(Condition::Kind, exists, absent, value_is, revision_is)
BOOST_DESCRIBE_STRUCT(Condition, (), (kind, key, value, revision))

/// One change of a transaction. Uses the fields of the operation that `kind` names; the kind `push`
/// names the operation queue_push.
struct Action {
  enum class Kind : std::uint8_t { set, remove, add, append, push };

  Kind kind = Kind::set;
  Bytes key;
  Bytes value;  ///< of set, append and push
  std::int64_t delta = 0;
  Duration ttl{0};
  bool ephemeral = false;
};
BOOST_DESCRIBE_ENUM(Action::Kind, set, remove, add, append, push)
BOOST_DESCRIBE_STRUCT(Action, (), (kind, key, value, delta, ttl, ephemeral))

/// If all conditions hold, applies all actions in order, as one change; otherwise applies none.
/// Fails without an effect if an action cannot be applied, for example if it exceeds a limit.
struct Transact {
  static constexpr OpInfo op{29, "transact",   OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Transacted;

  std::vector<Condition> conditions;
  std::vector<Action> actions;
};
BOOST_DESCRIBE_STRUCT(Transact, (), (conditions, actions))

/// Returns the changes of one key, or of all keys that begin with a prefix. Starts with the changes
/// of revision `from`. Returns each change exactly once, in order. If there is none, waits for the
/// first change. After the time-out, returns an empty list. Fails with Code::compacted if the
/// daemon no longer has all of these changes; the detail names the oldest revision from which a
/// watch can start. After that failure, list the keys again, and watch from KeyPage::revision + 1.
struct Watch {
  static constexpr OpInfo op{30, "watch",     OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Changes;

  Bytes key;
  bool prefix = false;     ///< `key` is a prefix; the empty prefix means every key
  Revision from = 0;       ///< 0: from now on
  std::uint32_t skip = 0;  ///< number of changes of revision `from` to leave out; see Changes::skip
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Watch, (), (key, prefix, from, skip, timeout))

/// Returns the values of `keys`, from index `first` on: as many as fit in a frame, but at least
/// one. A missing key has an empty value. Values of different pages may be of different moments.
struct ReadValues {
  static constexpr OpInfo op{31, "read_values", OpKind::read, Access::observe,
                             1,  Dedup::none,   Growth::none};
  using Body = ValuePage;

  std::vector<Bytes> keys;
  std::uint32_t first = 0;
};
BOOST_DESCRIBE_STRUCT(ReadValues, (), (keys, first))

/// Waits until the value of a key, read as C's strtoll does, is at least `at_least`. A missing key
/// and a value that is not a number are not enough, whatever `at_least` is. After the time-out,
/// fails with timed_out and the number.
struct WaitCounter {
  static constexpr OpInfo op{35, "wait_counter", OpKind::wait, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Body = Done;

  Blob key;
  std::int64_t at_least = 0;
  Duration timeout{0};
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(WaitCounter, (), (key, at_least, timeout, waited))

}  // namespace c10dd
