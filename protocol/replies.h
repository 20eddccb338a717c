// SPDX-License-Identifier: Apache-2.0
// What the operations of ops.h are answered with. Fields are only ever appended.
#pragma once

#include <boost/describe/class.hpp>
#include <string>
#include <vector>

#include "protocol/error.h"
#include "protocol/shared_bytes.h"
#include "protocol/types.h"

namespace c10dd {

struct Done {};
BOOST_DESCRIBE_STRUCT(Done, (), ())

struct Welcome {
  std::uint8_t version = 0;
  std::uint64_t features = 0;
  JobNumber job = 0;
  Duration heartbeat_interval{0};
  Duration session_ttl{0};
  std::uint32_t window = 0;  ///< unacknowledged requests a session may have
  std::string daemon;        ///< version of the daemon, for people
  Duration expiry{0};        ///< a session without a connection ends after this long
  Revision opened = 0;       ///< of the job when the session was opened
};
BOOST_DESCRIBE_STRUCT(Welcome, (),
                      (version, features, job, heartbeat_interval, session_ttl, window, daemon,
                       expiry, opened))

struct Written {
  Revision revision = 0;
};
BOOST_DESCRIBE_STRUCT(Written, (), (revision))

struct Value {
  Bytes value;
  Revision revision = 0;  ///< that wrote the key
};
BOOST_DESCRIBE_STRUCT(Value, (), (value, revision))

struct Values {
  std::vector<Bytes> values;
  std::vector<Revision> revisions;  ///< that wrote each key
};
BOOST_DESCRIBE_STRUCT(Values, (), (values, revisions))

struct Checked {
  bool all = false;
};
BOOST_DESCRIBE_STRUCT(Checked, (), (all))

struct Counter {
  std::int64_t value = 0;
};
BOOST_DESCRIBE_STRUCT(Counter, (), (value))

/// Answer of compare_set. `current` is left out when the caller's own value was stored.
struct Compared {
  bool swapped = false;
  bool exists = false;
  Bytes current;
};
BOOST_DESCRIBE_STRUCT(Compared, (), (swapped, exists, current))

struct Removed {
  bool existed = false;
};
BOOST_DESCRIBE_STRUCT(Removed, (), (existed))

struct KeyPage {
  std::vector<Bytes> keys;
  bool more = false;      ///< ask again with start_after = the last key
  Revision revision = 0;  ///< of the job; a watch from the next one misses nothing
};
BOOST_DESCRIBE_STRUCT(KeyPage, (), (keys, more, revision))

struct Counted {
  std::uint64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(Counted, (), (count))

struct Appended {
  std::uint64_t bytes = 0;  ///< of the value afterwards
};
BOOST_DESCRIBE_STRUCT(Appended, (), (bytes))

struct Popped {
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(Popped, (), (value))

/// Answer of transact. Small, because it is stored: what was read is asked for separately.
struct Transacted {
  bool applied = false;
  std::uint32_t failed = 0;        ///< index of the first condition that does not hold
  Revision revision = 0;           ///< of the change, or of the job when not applied
  std::vector<std::int64_t> sums;  ///< of its adds, in order
};
BOOST_DESCRIBE_STRUCT(Transacted, (), (applied, failed, revision, sums))

/// One change of one key, as a watch reports it.
struct Change {
  Revision revision = 0;
  bool removed = false;  ///< deleted, expired or left behind by its session
  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(Change, (), (revision, removed, key, value))

/// Answer of watch: every change from (from, skip) up to (next, skip) of the keys watched, by
/// revision and in the order in which they were made.
struct Changes {
  std::vector<Change> changes;
  Revision next = 0;       ///< watch again from here
  std::uint32_t skip = 0;  ///< and skip as many changes of that revision
};
BOOST_DESCRIBE_STRUCT(Changes, (), (changes, next, skip))

/// One chunk of the encoded list of parts; ask again with the next offset until total is reached.
struct Exchanged {
  std::uint64_t offset = 0;
  std::uint64_t total = 0;
  SharedBytes chunk;
};
BOOST_DESCRIBE_STRUCT(Exchanged, (), (offset, total, chunk))

}  // namespace c10dd
