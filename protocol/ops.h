// SPDX-License-Identifier: Apache-2.0
// Every operation of the service, once: code, name, kind, fields, answer. Codecs, dispatch, JSON,
// metric labels and fuzz corpora derive from this table.
// To add an operation: a struct here with its Reply, a line in Request, one on(...) of a handler in
// daemon/core/*_ops.h. Fields are only ever appended; a removed field stays as reserved_N.
#pragma once

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <boost/mp11/algorithm.hpp>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/answers.h"
#include "protocol/error.h"
#include "protocol/membership.h"
#include "protocol/op_info.h"
#include "protocol/published_calls.h"
#include "protocol/types.h"

namespace c10dd {

// ---- sessions ----------------------------------------------------------------------------------

/// Opens (or re-opens) a session on the channel of its frame.
struct Hello {
  static constexpr OpInfo op{1, "hello",     OpKind::event, Access::use,
                             1, Dedup::none, Growth::needed};
  using Reply = Welcome;

  std::uint8_t version_min = 1;
  std::uint8_t version_max = 1;
  std::uint64_t features = 0;
  SessionId session;
  std::string job;
  std::string run;  ///< empty: the job's permanent name space
  Bytes credential;
  std::string host;
  std::uint64_t pid = 0;
  std::int64_t rank = -1;  ///< the rank that this process believes to be, -1 unknown
  std::map<std::string, std::string> labels;
  Stamp seen;  ///< the newest stamp that this session has received
  /// How long the session outlives its last connection; 0: the daemon's default. Clamped to
  /// limits::kSessionExpiryMin .. kSessionExpiryMax.
  Duration expiry{0};
  JobNumber number = 0;  ///< Welcome::job as this client knows it; 0: it is new here
  Revision opened = 0;   ///< Welcome::opened of this session; 0: the session is new
};
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (version_min, version_max, features, session, job, run, credential, host, pid,
                       rank, labels, seen, expiry, number, opened))

/// Heartbeat of a connection; covers all its channels.
struct Ping {
  static constexpr OpInfo op{2, "ping",      OpKind::event, Access::observe,
                             1, Dedup::none, Growth::none};
  using Reply = Done;
};
BOOST_DESCRIBE_STRUCT(Ping, (), ())

/// Ends the session: its stored replies and its own keys go, items that it popped and never
/// acknowledged return to their queues, its blocked requests fail.
struct Goodbye {
  static constexpr OpInfo op{3, "goodbye",   OpKind::write, Access::use,
                             1, Dedup::none, Growth::none};
  using Reply = Done;
};
BOOST_DESCRIBE_STRUCT(Goodbye, (), ())

/// Takes back an earlier request of this session whose answer nobody waits for any more: a blocked
/// one is dropped unanswered, an item that a queue_pop has claimed returns to its queue. Anything
/// else is left as it is.
struct Cancel {
  static constexpr OpInfo op{4, "cancel", OpKind::write, Access::use, 1, Dedup::none, Growth::none};
  using Reply = Done;

  std::uint64_t sequence = 0;
};
BOOST_DESCRIBE_STRUCT(Cancel, (), (sequence))

// ---- keys --------------------------------------------------------------------------------------

/// Stores a value. Every set, multi_set and compare_set gives the key a new life: what it says of
/// ttl and ephemeral replaces what was said before; add and append leave it.
struct Set {
  static constexpr OpInfo op{16, "set", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Reply = Written;

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
  using Reply = Value;

  Bytes key;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Get, (), (key, timeout))

/// Waits until every key exists; a queue that has an item counts as a key. timed_out names the
/// missing keys.
struct Wait {
  static constexpr OpInfo op{18, "wait",      OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Reply = Done;

  std::vector<Bytes> keys;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Wait, (), (keys, timeout))

/// Whether every key exists; a queue that has an item counts as a key.
struct Check {
  static constexpr OpInfo op{19, "check",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Reply = Checked;

  std::vector<Bytes> keys;
};
BOOST_DESCRIBE_STRUCT(Check, (), (keys))

/// Adds to a counter kept as decimal text; a missing key counts as 0.
struct Add {
  static constexpr OpInfo op{20, "add", OpKind::write, Access::use, 1, Dedup::reply, Growth::much};
  using Reply = Counter;

  Bytes key;
  std::int64_t delta = 0;
};
BOOST_DESCRIBE_STRUCT(Add, (), (key, delta))

/// Stores desired if the value equals expected; a missing key equals the empty value.
struct CompareSet {
  static constexpr OpInfo op{21, "compare_set", OpKind::write, Access::use,
                             1,  Dedup::reply,  Growth::much};
  using Reply = Compared;

  Bytes key;
  Bytes expected;
  Bytes desired;
};
BOOST_DESCRIBE_STRUCT(CompareSet, (), (key, expected, desired))

struct Remove {
  static constexpr OpInfo op{22, "remove",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::none};
  using Reply = Removed;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(Remove, (), (key))

/// The values of many keys at one moment; waits for all of them like wait.
struct MultiGet {
  static constexpr OpInfo op{23, "multi_get", OpKind::wait, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Reply = Values;

  std::vector<Bytes> keys;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(MultiGet, (), (keys, timeout))

/// Sets many keys in one atomic change.
struct MultiSet {
  static constexpr OpInfo op{24, "multi_set",  OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Reply = Written;

  std::vector<Bytes> keys;
  std::vector<Bytes> values;  ///< as many as keys
};
BOOST_DESCRIBE_STRUCT(MultiSet, (), (keys, values))

/// Keys with a prefix, in byte order, at most limit (0: the page limit).
struct List {
  static constexpr OpInfo op{25, "list",      OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Reply = KeyPage;

  Bytes prefix;
  Bytes start_after;
  std::uint32_t limit = 0;
};
BOOST_DESCRIBE_STRUCT(List, (), (prefix, start_after, limit))

/// How many keys have a prefix.
struct Count {
  static constexpr OpInfo op{26, "count",     OpKind::read, Access::observe,
                             1,  Dedup::none, Growth::none};
  using Reply = Counted;

  Bytes prefix;
};
BOOST_DESCRIBE_STRUCT(Count, (), (prefix))

/// Adds bytes to the end of a value; a missing key counts as empty.
struct Append {
  static constexpr OpInfo op{27, "append",     OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Reply = Appended;

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(Append, (), (key, value))

/// Removes every key with a prefix in one change; the empty prefix is every key. Queues stay.
struct RemovePrefix {
  static constexpr OpInfo op{28, "remove_prefix", OpKind::write, Access::use,
                             1,  Dedup::reply,    Growth::none};
  using Reply = Counted;

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
  using Reply = Transacted;

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
  using Reply = Changes;

  Bytes key;
  bool prefix = false;  ///< key is a prefix; the empty one is every key
  Revision from = 0;
  std::uint32_t skip = 0;  ///< changes of `from` that were seen already, as Changes::skip says
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(Watch, (), (key, prefix, from, skip, timeout))

// ---- queues: names of their own, beside the keys -----------------------------------------------

struct QueuePush {
  static constexpr OpInfo op{32, "queue_push", OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Reply = Counted;  ///< items in the queue afterwards

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(QueuePush, (), (key, value))

/// Takes the oldest item; waits for one up to timeout, with timeout 0 an empty queue is not_found.
/// Items go to waiting pops in order of arrival. The item is claimed for (session, sequence): a
/// repeat gets the same item. It is gone when the claim is acknowledged, and back in its place when
/// the session ends or cancels first.
struct QueuePop {
  static constexpr OpInfo op{33, "queue_pop",  OpKind::wait, Access::use,
                             1,  Dedup::claim, Growth::none};
  using Reply = Popped;

  Bytes key;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(QueuePop, (), (key, timeout))

/// How many items a queue has that nobody has claimed.
struct QueueLength {
  static constexpr OpInfo op{34, "queue_length", OpKind::read, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Reply = Counted;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(QueueLength, (), (key))

// ---- meeting points ----------------------------------------------------------------------------

/// Released when all ranks of (group, generation, sequence) have arrived: all are released, or all
/// fail with the same recorded outcome (Failure::recorded). The first time-out breaks it, for those
/// who come later too; the failure names the missing ranks. With time-out 0 it only arrives and
/// looks. With a `world` it is bound to that group's generation: stale_generation when there is a
/// newer one, and broken at once when a participant is lost.
struct Barrier {
  static constexpr OpInfo op{48, "barrier",      OpKind::wait,  Access::join,
                             1,  Dedup::arrival, Growth::needed};
  using Reply = Done;

  std::string group;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;  ///< counts the barriers of this group and generation from 0
  Rank rank = 0;
  std::uint32_t world_size = 0;
  Duration timeout{0};
  std::string world = {};  ///< the group of membership.h whose generation this is; empty: none
  /// Ranks in `world` of those who meet, ascending, the same for everybody; empty: all of them.
  std::vector<Rank> participants = {};
};
BOOST_DESCRIBE_STRUCT(Barrier, (),
                      (group, generation, sequence, rank, world_size, timeout, world, participants))

/// Who gives and who gets what in an exchange of N ranks.
enum class Shape : std::uint8_t {
  all,        ///< each rank gives 1 part; everybody gets all N
  to_root,    ///< each rank gives 1 part; the root gets all N, the others none
  from_root,  ///< the root gives N parts (each rank gets its own) or 1 (everybody gets it)
  transpose,  ///< each rank gives N parts; rank r gets the N meant for it
};
BOOST_DESCRIBE_ENUM(Shape, all, to_root, from_root, transpose)

/// A barrier that carries data. With offset > 0 it fetches the rest of an answer and brings no
/// parts.
struct Exchange {
  static constexpr OpInfo op{49, "exchange",     OpKind::wait, Access::join,
                             1,  Dedup::arrival, Growth::much};
  using Reply = Exchanged;

  std::string group;
  std::uint64_t generation = 0;
  std::uint64_t sequence = 0;
  Rank rank = 0;
  std::uint32_t world_size = 0;
  Shape shape = Shape::all;
  Rank root = 0;
  std::vector<Bytes> parts;
  Duration timeout{0};
  std::uint64_t offset = 0;
  std::string world = {};               ///< as in Barrier
  std::vector<Rank> participants = {};  ///< as in Barrier
};
BOOST_DESCRIBE_STRUCT(Exchange, (),
                      (group, generation, sequence, rank, world_size, shape, root, parts, timeout,
                       offset, world, participants))

// ---- insight -----------------------------------------------------------------------------------

/// Everything one session has measured of one collective since it started.
struct CollectiveTotals {
  std::string process_group;  ///< kind of the group: dp, tp, pp, ...
  std::string collective;     ///< all_reduce, broadcast, ...
  std::string backend;
  std::uint64_t count = 0;  ///< completed
  std::uint64_t failures = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t bus_bytes = 0;  ///< payload times the bus factor of nccl-tests
  std::uint64_t duration_ns = 0;
  std::vector<std::uint64_t> buckets;  ///< completions per bucket of metric_catalog.h, not summed
};
BOOST_DESCRIBE_STRUCT(CollectiveTotals, (),
                      (process_group, collective, backend, count, failures, payload_bytes,
                       bus_bytes, duration_ns, buckets))

/// Cumulative totals, so that a lost or repeated report changes nothing: the daemon adds the
/// difference to the newest report of the session that it has.
struct Report {
  static constexpr OpInfo op{64, "report",    OpKind::event, Access::use,
                             1,  Dedup::none, Growth::none};
  using Reply = Done;

  std::uint64_t number = 0;  ///< strictly increasing per session
  std::vector<CollectiveTotals> collectives;
};
BOOST_DESCRIBE_STRUCT(Report, (), (number, collectives))

// ---- the table ---------------------------------------------------------------------------------

using Request =
    std::variant<Hello, Ping, Goodbye, Cancel, Set, Get, Wait, Check, Add, CompareSet, Remove,
                 MultiGet, MultiSet, List, Count, Append, RemovePrefix, Transact, Watch, QueuePush,
                 QueuePop, QueueLength, Barrier, Exchange, Join, ReadMembers, Leave, FollowGroup,
                 Notify, Acknowledge, Progress, Report, PublishCall, ReadCalls>;

using ReplyBody = std::variant<Done, Welcome, Written, Value, Values, Checked, Counter, Compared,
                               Removed, KeyPage, Counted, Appended, Transacted, Changes, Popped,
                               Exchanged, Joined, MemberPage, GroupNews, PublishedCalls>;

/// What a request comes to: the body that its Reply names, or why not.
using Answer = Result<ReplyBody>;

inline constexpr std::uint8_t kProtocolVersion = 1;

namespace detail {
template <class... Ops>
constexpr bool op_codes_are_unique(std::variant<Ops...>*) {
  constexpr std::uint8_t codes[] = {Ops::op.code...};
  for (std::size_t i = 0; i < std::size(codes); ++i) {
    for (std::size_t j = i + 1; j < std::size(codes); ++j) {
      if (codes[i] == codes[j]) return false;
    }
  }
  return true;
}
static_assert(op_codes_are_unique(static_cast<Request*>(nullptr)), "one code, one operation");
}  // namespace detail

/// Calls f(std::type_identity<Op>{}) for each operation in table order.
template <class F>
constexpr void for_each_op(F&& f) {
  [&]<class... Ops>(std::variant<Ops...>*) {
    (f(std::type_identity<Ops>{}), ...);
  }(static_cast<Request*>(nullptr));
}

/// The table entry of an op code, or nullptr for an unknown one.
constexpr const OpInfo* find_op(std::uint8_t code) {
  const OpInfo* found = nullptr;
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    if (Op::op.code == code) found = &Op::op;
  });
  return found;
}

inline const OpInfo& info_of(const Request& request) {
  return std::visit([](const auto& r) -> const OpInfo& { return r.op; }, request);
}

}  // namespace c10dd
