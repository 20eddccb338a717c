// SPDX-License-Identifier: Apache-2.0
// The codes of failed requests, and the table that describes them. Uses only the standard library,
// so that public SDK headers may include this file. To add a code, append it to Code and to kCodes.
// Add a code only if some caller must handle it differently from all other codes.
#pragma once

#include <cstdint>
#include <string_view>

#include <c10dd/language.h>

namespace c10dd {

/// The values are part of the wire protocol: append new values, never change or reuse a value.
enum class Code : std::uint8_t {
  ok = 0,
  malformed = 1,   ///< malformed bytes: not a message of this protocol
  unknown_op = 2,  ///< the frame is well-formed, but this daemon does not know its operation
  version_unsupported = 3,
  too_large = 4,  ///< the request itself exceeds a limit; the detail has the value and the limit
  invalid_argument = 5,
  not_found = 6,
  timed_out = 7,            ///< the detail names the keys or ranks that were missing
  quota_exceeded = 8,       ///< a limit of the job or the daemon is reached; see the detail
  wrong_type = 9,           ///< cannot add to a key whose value is not a decimal integer
  out_of_range = 10,        ///< cannot add because the sum would overflow; the value is unchanged
  size_mismatch = 11,       ///< ranks disagree on a barrier's size or shape, or on a group's policy
  rank_taken = 12,          ///< another session already has this rank, at a barrier or in a group
  sequence_reused = 13,     ///< the session has used this sequence number for a different request
  window_exceeded = 14,     ///< the session has more unacknowledged requests than its window allows
  session_unknown = 15,     ///< the request's channel has no session
  session_superseded = 16,  ///< the session was opened again on another connection
  state_rolled_back = 17,   ///< the daemon's state is older than the client's, or unrelated to it
  stale_generation = 18,    ///< the group has a newer generation
  outcome_unknown = 19,     ///< the request may have been applied, so it is not sent again
  not_owner = 20,           ///< another daemon owns the job; Failure::addresses has its address
  unavailable = 21,         ///< cannot serve now (starting, draining, engine lost); retry
  aborted = 22,             ///< the session ended, the generation ended, or the member was removed
  permission_denied = 23,
  unsupported = 24,
  closed = 25,  ///< the client object was closed while the call was pending
  internal = 26,
  session_expired = 27,   ///< this session has ended for good; open a new one
  compacted = 28,         ///< the daemon has dropped the requested changes; list again, then watch
  disk_full = 29,         ///< refused because the daemon's disk has no room; nothing was applied
  session_replaced = 30,  ///< a restarted process has taken this session's rank; end this process
  forked = 31,            ///< the object belongs to the process from which this one was forked
  unauthenticated = 32,   ///< who the client is was not shown: its token is missing, expired or bad
  work_finished = 33,     ///< the group has finished its work, in which this member had no place
};

struct CodeInfo {
  Code code;
  std::string_view name;  ///< stable, lower snake case
  int http_status;
  bool retryable;  ///< the same request may succeed if it is sent again later
};

inline constexpr CodeInfo kCodes[] = {
    {Code::ok, "ok", 200, false},
    {Code::malformed, "malformed", 400, false},
    {Code::unknown_op, "unknown_op", 404, false},
    {Code::version_unsupported, "version_unsupported", 505, false},
    {Code::too_large, "too_large", 413, false},
    {Code::invalid_argument, "invalid_argument", 400, false},
    {Code::not_found, "not_found", 404, false},
    {Code::timed_out, "timed_out", 504, true},
    {Code::quota_exceeded, "quota_exceeded", 507, true},
    {Code::wrong_type, "wrong_type", 409, false},
    {Code::out_of_range, "out_of_range", 409, false},
    {Code::size_mismatch, "size_mismatch", 409, false},
    {Code::rank_taken, "rank_taken", 409, false},
    {Code::sequence_reused, "sequence_reused", 409, false},
    {Code::window_exceeded, "window_exceeded", 429, true},
    {Code::session_unknown, "session_unknown", 404, false},
    {Code::session_superseded, "session_superseded", 409, false},
    {Code::state_rolled_back, "state_rolled_back", 409, false},
    {Code::stale_generation, "stale_generation", 409, false},
    {Code::outcome_unknown, "outcome_unknown", 500, false},
    {Code::not_owner, "not_owner", 421, true},
    {Code::unavailable, "unavailable", 503, true},
    {Code::aborted, "aborted", 409, false},
    {Code::permission_denied, "permission_denied", 403, false},
    {Code::unsupported, "unsupported", 501, false},
    {Code::closed, "closed", 499, false},
    {Code::internal, "internal", 500, false},
    {Code::session_expired, "session_expired", 410, false},
    {Code::compacted, "compacted", 410, false},
    {Code::disk_full, "disk_full", 507, true},
    {Code::session_replaced, "session_replaced", 410, false},
    {Code::forked, "forked", 500, false},
    {Code::unauthenticated, "unauthenticated", 401, false},
    {Code::work_finished, "work_finished", 409, false},
};

namespace detail {
constexpr bool codes_are_in_order() {
  std::uint8_t expected = 0;
  for (const CodeInfo& info : kCodes) {
    if (static_cast<std::uint8_t>(info.code) != expected++) return false;
  }
  return true;
}
static_assert(codes_are_in_order(), "kCodes is indexed by value");
}  // namespace detail

/// Returns the table entry of a code. For a code that is not in the table, for example a code from
/// a newer peer, returns the entry of `internal`.
constexpr const CodeInfo& describe(Code code) {
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kCodes) ? kCodes[index]
                                   : kCodes[static_cast<std::size_t>(Code::internal)];
}

constexpr std::string_view name_of(Code code) { return describe(code).name; }

}  // namespace c10dd
