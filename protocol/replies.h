// SPDX-License-Identifier: Apache-2.0
// Bodies of the replies to the operations of ops.h. New fields are appended at the end of a struct.
#pragma once

#include <boost/describe/class.hpp>
#include <string>
#include <vector>

#include "protocol/blob.h"
#include "protocol/error.h"
#include "protocol/shared_bytes.h"
#include "protocol/types.h"

namespace c10dd {

/// Success without data.
struct Done {};
BOOST_DESCRIBE_STRUCT(Done, (), ())

/// Reply to hello.
struct Welcome {
  std::uint8_t version = 0;  ///< protocol version that the daemon has chosen
  std::uint64_t features = 0;
  JobNumber job = 0;
  Duration heartbeat_interval{0};
  Duration session_ttl{0};
  std::uint32_t window = 0;  ///< how many unacknowledged requests a session may have
  std::string daemon;        ///< the daemon's version, for people
  Duration expiry{0};        ///< a session without a connection ends after this time
  Revision opened = 0;       ///< the job's revision when the session was opened
  /// After the last heartbeat that had a reply, no daemon declares a member of this session lost
  /// for this time and the member's ttl: a daemon that takes the job over waits for it. The client
  /// counts the replies `unavailable` and refused connections as signs of life only for this time.
  /// 0: for ever, because only this daemon can serve the job.
  Duration takeover_grace{0};
  std::vector<std::string> daemons;  ///< addresses of all daemons that share the engine
  /// The credential of the hello expires after this time; 0: it does not expire. The session ends
  /// about a minute later unless an `authenticate` has shown a newer one.
  Duration valid_for{0};
};
BOOST_DESCRIBE_STRUCT(Welcome, (),
                      (version, features, job, heartbeat_interval, session_ttl, window, daemon,
                       expiry, opened, takeover_grace, daemons, valid_for))

/// Reply to authenticate.
struct Authenticated {
  Duration valid_for{0};  ///< as Welcome::valid_for
};
BOOST_DESCRIBE_STRUCT(Authenticated, (), (valid_for))

struct Written {
  Revision revision = 0;  ///< of the change
};
BOOST_DESCRIBE_STRUCT(Written, (), (revision))

struct Value {
  Blob value;
  Revision revision = 0;  ///< revision of the change that wrote the key
};
BOOST_DESCRIBE_STRUCT(Value, (), (value, revision))

struct Values {
  std::vector<Bytes> values;
  std::vector<Revision> revisions;  ///< for each key, the revision of the change that wrote it
};
BOOST_DESCRIBE_STRUCT(Values, (), (values, revisions))

/// Reply to read_values.
struct ValuePage {
  std::vector<Blob> values;
  std::uint32_t next = 0;  ///< ReadValues::first of the next page; at the end, the number of keys
};
BOOST_DESCRIBE_STRUCT(ValuePage, (), (values, next))

struct Checked {
  bool all = false;  ///< whether every key exists
};
BOOST_DESCRIBE_STRUCT(Checked, (), (all))

struct Counter {
  std::int64_t value = 0;  ///< after the add
};
BOOST_DESCRIBE_STRUCT(Counter, (), (value))

/// Reply to compare_set. If `swapped` is false, `current` is the value of the key. If `swapped` is
/// true, `current` is empty, because the client knows the value.
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
  bool more = false;      ///< whether keys follow; to get them, pass start_after = keys.back()
  Revision revision = 0;  ///< revision of the job; a watch from revision + 1 misses no change
};
BOOST_DESCRIBE_STRUCT(KeyPage, (), (keys, more, revision))

struct Counted {
  std::uint64_t count = 0;
};
BOOST_DESCRIBE_STRUCT(Counted, (), (count))

struct Appended {
  std::uint64_t bytes = 0;  ///< length of the value after the append
};
BOOST_DESCRIBE_STRUCT(Appended, (), (bytes))

struct Popped {
  Bytes value;
  std::uint64_t length = 0;  ///< items in the queue before the pop
};
BOOST_DESCRIBE_STRUCT(Popped, (), (value, length))

/// Reply to transact. Contains no values of keys, because the daemon stores this reply to answer
/// repeated requests.
struct Transacted {
  bool applied = false;
  std::uint32_t failed = 0;        ///< index of the first condition that does not hold
  Revision revision = 0;           ///< revision of the change, or of the job if nothing was applied
  std::vector<std::int64_t> sums;  ///< results of the `add` actions, in order
};
BOOST_DESCRIBE_STRUCT(Transacted, (), (applied, failed, revision, sums))

/// One change of one key.
struct Change {
  Revision revision = 0;
  bool removed = false;  ///< whether a request, expiry or the end of a session removed the key
  Blob key;
  Blob value;
};
BOOST_DESCRIBE_STRUCT(Change, (), (revision, removed, key, value))

/// Reply to watch: changes of the watched keys, in order. A position is a revision and a number of
/// changes to skip at that revision. The reply has all changes from the position (Watch::from,
/// Watch::skip) up to, but not including, the position (`next`, `skip`). The next watch begins at
/// (`next`, `skip`).
struct Changes {
  std::vector<Change> changes;
  Revision next = 0;       ///< Watch::from of the next watch
  std::uint32_t skip = 0;  ///< Watch::skip of the next watch
};
BOOST_DESCRIBE_STRUCT(Changes, (), (changes, next, skip))

/// Reply to exchange: one chunk of the encoded list of parts. The client asks again with the next
/// offset until it has `total` bytes.
struct Exchanged {
  std::uint64_t offset = 0;  ///< of the chunk
  std::uint64_t total = 0;   ///< bytes of the encoded list
  SharedBytes chunk;
};
BOOST_DESCRIBE_STRUCT(Exchanged, (), (offset, total, chunk))

}  // namespace c10dd
