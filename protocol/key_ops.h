// SPDX-License-Identifier: Apache-2.0
// Values by key: reading, waiting, changing, watching. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Stores a value. Every set, multi_set and compare_set gives the key a new life: what it says of
/// ttl and ephemeral replaces what was said before; add and append leave it.
struct Set {
  static constexpr OpInfo op{16, "set", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Body = Written;

  Bytes key;
  Bytes value;
  Duration ttl{0};         ///< the key is removed after this long; 0: never
  bool ephemeral = false;  ///< the key is removed when this session ends
};
BOOST_DESCRIBE_STRUCT(Set, (), (key, value, ttl, ephemeral))

/// The value of a key. Waits for the key up to timeout; with timeout 0 a missing key is not_found.
struct Get {
  static constexpr OpInfo op{17, "get",       OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Value;

  Bytes key;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Get, (), (key, timeout))

/// Waits until every key exists; a queue that has an item counts as a key. timed_out names the
/// missing keys.
struct Wait {
  static constexpr OpInfo op{18, "wait",      OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Done;

  std::vector<Bytes> keys;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Wait, (), (keys, timeout))

/// Whether every key exists; a queue that has an item counts as a key.
struct Check {
  static constexpr OpInfo op{19, "check",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Checked;

  std::vector<Bytes> keys;
};
BOOST_DESCRIBE_STRUCT(Check, (), (keys))

/// Adds to a counter kept as decimal text; a missing key counts as 0.
struct Add {
  static constexpr OpInfo op{20, "add", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Body = Counter;

  Bytes key;
  std::int64_t delta = 0;
};
BOOST_DESCRIBE_STRUCT(Add, (), (key, delta))

/// Stores desired if the value equals expected; a missing key equals the empty value.
struct CompareSet {
  static constexpr OpInfo op{21, "compare_set", OpKind::write, Access::use,
                             1,  Dedup::reply,  Growth::much};
  using Body = Compared;

  Bytes key;
  Bytes expected;
  Bytes desired;
};
BOOST_DESCRIBE_STRUCT(CompareSet, (), (key, expected, desired))

struct Remove {
  static constexpr OpInfo op{22, "remove",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::none};
  using Body = Removed;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(Remove, (), (key))

/// The values of many keys at one moment; waits for all of them like wait.
struct MultiGet {
  static constexpr OpInfo op{23, "multi_get", OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Values;

  std::vector<Bytes> keys;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(MultiGet, (), (keys, timeout))

/// Sets many keys in one atomic change.
struct MultiSet {
  static constexpr OpInfo op{24, "multi_set",  OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Written;

  std::vector<Bytes> keys;
  std::vector<Bytes> values;  ///< as many as keys
};
BOOST_DESCRIBE_STRUCT(MultiSet, (), (keys, values))

/// Keys with a prefix, in byte order, at most limit (0: the page limit).
struct List {
  static constexpr OpInfo op{25, "list",      OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = KeyPage;

  Bytes prefix;
  Bytes start_after;
  std::uint32_t limit = 0;
};
BOOST_DESCRIBE_STRUCT(List, (), (prefix, start_after, limit))

/// How many keys have a prefix.
struct Count {
  static constexpr OpInfo op{26, "count",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Counted;

  Bytes prefix;
};
BOOST_DESCRIBE_STRUCT(Count, (), (prefix))

/// Adds bytes to the end of a value; a missing key counts as empty.
struct Append {
  static constexpr OpInfo op{27, "append",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Appended;

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(Append, (), (key, value))

/// Removes every key with a prefix in one change; the empty prefix is every key. Queues stay.
struct RemovePrefix {
  static constexpr OpInfo op{28, "remove_prefix", OpKind::write, Access::use,
                             1,  Dedup::reply,    Growth::none};
  using Body = Counted;

  Bytes prefix;
};
BOOST_DESCRIBE_STRUCT(RemovePrefix, (), (prefix))

/// What must hold of one key for a transaction to be applied.
struct Condition {
  enum class Kind : std::uint8_t {
    exists,
    absent,
    value_is,     ///< exists with this value
    revision_is,  ///< was last written by this revision; 0: absent
  };

  Kind kind = Kind::exists;
  Bytes key;
  Bytes value;
  Revision revision = 0;
};
BOOST_DESCRIBE_ENUM(Condition::Kind, exists, absent, value_is, revision_is)
BOOST_DESCRIBE_STRUCT(Condition, (), (kind, key, value, revision))

/// One change inside a transaction; fields as those of the operation of that name.
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

/// All actions in one change, in order, if all conditions hold; else none. An action that cannot be
/// done (a limit, add on text) refuses the whole transaction.
struct Transact {
  static constexpr OpInfo op{29, "transact",   OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Transacted;

  std::vector<Condition> conditions;
  std::vector<Action> actions;
};
BOOST_DESCRIBE_STRUCT(Transact, (), (conditions, actions))

/// Every change of a key, or of all keys with a prefix, from a revision on: in order, none missing,
/// none twice. Answers at once when there are any, else waits; after the time-out the list is
/// empty. from 0 is "from now on". compacted when the daemon no longer has all of them; the detail
/// says from where it has: list again, then watch from the list's revision + 1.
struct Watch {
  static constexpr OpInfo op{30, "watch",     OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Body = Changes;

  Bytes key;
  bool prefix = false;  ///< key is a prefix; the empty one is every key
  Revision from = 0;
  std::uint32_t skip = 0;  ///< changes of `from` that were seen already, as Changes::skip says
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Watch, (), (key, prefix, from, skip, timeout))

}  // namespace c10dd
