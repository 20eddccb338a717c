// SPDX-License-Identifier: Apache-2.0
// The table of all operations. The files *_ops.h have the fields of each operation. Codecs,
// dispatch, metric labels and fuzz corpora are derived from this table.
// To add an operation, add a struct with a nested Body to a file *_ops.h, an entry to Request, and
// a function on(...) to a handler in daemon/core/job/*_ops.h. Append new fields at the end of a
// struct. Never delete a field: rename it to reserved_N.
#pragma once

#include <array>
#include <type_traits>
#include <variant>

#include "protocol/activity_ops.h"
#include "protocol/barrier_ops.h"
#include "protocol/endpoint_ops.h"
#include "protocol/error.h"
#include "protocol/group_ops.h"
#include "protocol/key_ops.h"
#include "protocol/op_info.h"
#include "protocol/queue_ops.h"
#include "protocol/replies.h"
#include "protocol/report_ops.h"
#include "protocol/session_ops.h"

namespace c10dd {

namespace detail {
using AnyRequest =
    std::variant<Hello, Ping, Goodbye, Cancel, Set, Get, Wait, Check, Add, CompareSet, Remove,
                 MultiGet, MultiSet, List, Count, Append, RemovePrefix, Transact, Watch, ReadValues,
                 QueuePush, QueuePop, QueueLength, WaitCounter, Barrier, Exchange, Join,
                 ReadMembers, Leave, WatchGroup, Notify, Acknowledge, Progress, Report,
                 LeaseEndpoint, Activity, Authenticate>;
using AnyReply =
    std::variant<Done, Welcome, Written, Value, Values, ValuePage, Checked, Counter, Compared,
                 Removed, KeyPage, Counted, Appended, Transacted, Changes, Popped, Exchanged,
                 Joined, MemberPage, GroupStatus, ActivityDiagnosis, EndpointLease, Authenticated>;
}  // namespace detail

// The functions that copy, move and destroy these variants are long, so they are in ops.cc only.

/// A request of any operation.
struct Request : detail::AnyRequest {
  using variant::variant;
  using variant::operator=;

  Request();
  Request(const Request&);
  Request(Request&&) noexcept;
  Request& operator=(const Request&);
  Request& operator=(Request&&) noexcept;
  ~Request();
};

/// What a reply holds unless the request failed.
struct ReplyBody : detail::AnyReply {
  using variant::variant;
  using variant::operator=;

  ReplyBody();
  ReplyBody(const ReplyBody&);
  ReplyBody(ReplyBody&&) noexcept;
  ReplyBody& operator=(const ReplyBody&);
  ReplyBody& operator=(ReplyBody&&) noexcept;
  ~ReplyBody();
};

/// The reply to a request of operation Op: either a value of type Op::Body, or a failure.
using Reply = Result<ReplyBody>;

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

namespace detail {
template <class... Ops>
constexpr auto ops_in_order(std::variant<Ops...>*) {
  return std::array<const OpInfo*, sizeof...(Ops)>{&Ops::op...};
}
constexpr auto ops_by_code() {
  std::array<const OpInfo*, 256> table{};
  for (const OpInfo* op : ops_in_order(static_cast<Request*>(nullptr))) table[op->code] = op;
  return table;
}
inline constexpr auto kOpsInOrder = ops_in_order(static_cast<Request*>(nullptr));
inline constexpr auto kOpsByCode = ops_by_code();
}  // namespace detail

/// Returns the table entry of an op code, or nullptr if the code is unknown.
constexpr const OpInfo* find_op(std::uint8_t code) { return detail::kOpsByCode[code]; }

inline const OpInfo& info_of(const Request& request) {
  return *detail::kOpsInOrder[request.index()];
}

}  // namespace c10dd
