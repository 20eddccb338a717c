// SPDX-License-Identifier: Apache-2.0
// What the pure core is told and what it asks the shell to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Who asks. Access was checked by the shell before.
struct Origin {
  SessionId session;
  std::string principal;
  Access role = Access::admin;
  std::uint32_t listener = 0;
  std::uint64_t connection = 0;  ///< names the connection; one heartbeat serves all its sessions
};

/// The identity of one request inside its session.
struct CallId {
  std::uint64_t sequence = 0;
  std::uint64_t acked_below = 0;
  std::uint64_t fingerprint = 0;  ///< of the request's bytes
  std::int64_t arrived_ns = 0;    ///< the shell's own mark, handed back in a reply given at once
};

/// What an answer shows, and so what it has to wait for on an engine that several daemons share.
enum class Evidence : std::uint8_t {
  none,        ///< no state of the job
  state,       ///< state that another owner may have changed: ownership must be confirmed
  own_commit,  ///< a change of its own: its commit confirms the ownership
};

/// An answer on its way out. It may leave when `observed` is durable.
struct OutgoingReply {
  SessionId to;
  std::uint64_t sequence = 0;
  std::uint8_t op = 0;
  Evidence evidence = Evidence::state;
  Reply result = ReplyBody(Done{});
  Revision observed = 0;        ///< newest change that the answer depends on
  std::int64_t arrived_ns = 0;  ///< of the call; 0 when it was blocked
  /// The shell's own mark: an answer that is still held when its session comes on another
  /// connection must not leave, because the request is asked again there and may be answered
  /// differently.
  std::uint64_t attachment = 0;
};

// ---- events: for metrics and the log, never needed for correctness -----------------------------

struct WaitEnded {
  std::uint8_t op;
  Code outcome;
  Duration blocked;
};
struct BarrierReleased {
  Duration spread;  ///< first to last arrival
};
struct ReplyReplayed {
  std::uint8_t op;
};
/// What the ranks have measured since the last such event: differences, not totals.
struct CollectivesMeasured {
  std::vector<CollectiveTotals> differences;
};
/// A barrier or exchange timed out; the text names the missing.
struct BarrierTimedOut {
  std::string detail;
};

/// A rank of a barrier or exchange went to another session than the one that had it:
/// rank_restarted_alone or launch_replaced.
struct RankContested {
  std::string_view what;
  std::string detail;
};

/// A group's generation has formed, or has ended and why.
struct GenerationFormed {
  std::string group;
  std::uint64_t generation;
  std::uint32_t size;
  std::string reason;
};
struct GenerationEnded {
  std::string group;
  std::uint64_t generation;
  std::string reason;
};

/// Members that have broken their promise of progress; what the first of them does.
struct MembersStalled {
  std::string group;
  std::uint64_t generation;
  std::string ranks;
  std::string detail;
};
/// A rank that is another's, or a place in a group that is refused.
struct ClaimRefused {
  std::uint8_t op;
  Code code;
  std::string detail;
};

using Event =
    std::variant<WaitEnded, BarrierReleased, ReplyReplayed, CollectivesMeasured, BarrierTimedOut,
                 RankContested, GenerationFormed, GenerationEnded, MembersStalled, ClaimRefused>;

struct Effects {
  std::vector<Row> rows;               ///< one atomic batch, up to `revision`
  std::vector<OutgoingReply> replies;  ///< of a hello, its own answer is the first
  std::vector<Event> events;
  Revision revision = 0;  ///< of the job after this step
};

}  // namespace c10dd::core
