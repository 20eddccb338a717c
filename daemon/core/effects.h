// SPDX-License-Identifier: Apache-2.0
// The inputs of the pure core, and the effects: what the core asks the shell to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/ops.h"
#include "protocol/types.h"

namespace c10dd::core {

/// The sender of a request. The shell has checked its access already.
struct Origin {
  SessionId session;
  std::string principal;
  Access role = Access::admin;
  std::uint32_t listener = 0;
  std::uint64_t connection = 0;  ///< a heartbeat serves all sessions of its connection
};

/// The identity of one request inside its session.
struct CallId {
  std::uint64_t sequence = 0;
  std::uint64_t acked_below = 0;
  std::uint64_t fingerprint = 0;  ///< of the request's bytes
  std::int64_t arrived_ns = 0;    ///< set by the shell; copied to a reply that is given at once
};

/// What a reply shows. Decides what the reply must wait for on an engine that several daemons
/// share.
enum class Evidence : std::uint8_t {
  none,        ///< the reply shows no state of the job
  state,       ///< state that another owner may have changed: ownership must be confirmed
  own_commit,  ///< a change by the request itself: its commit confirms the ownership
};

/// A reply on its way out. It may leave when `observed` is durable.
struct OutgoingReply {
  SessionId to;
  std::uint64_t sequence = 0;
  std::uint8_t op = 0;
  Evidence evidence = Evidence::state;
  Reply result = ReplyBody(Done{});
  Revision observed = 0;        ///< newest change that the reply depends on
  std::int64_t arrived_ns = 0;  ///< CallId::arrived_ns; 0 if the request was blocked
  /// Set by the shell. A reply that is still held when its session attaches to another connection
  /// must not leave: the client sends the request again there and may get another reply.
  std::uint64_t attachment = 0;
};

// ---- events: for metrics and the log, never needed for correctness -----------------------------

struct WaitEnded {
  std::uint8_t op;
  Code outcome;
  Duration blocked;
};
struct BarrierReleased {
  Duration spread;  ///< from the first arrival to the release
};
struct ReplyReplayed {
  std::uint8_t op;
};
/// What a session has measured since its last report: differences, not totals.
struct CollectivesMeasured {
  std::vector<CollectiveTotals> differences;
};
/// A barrier or exchange timed out; the text names the missing ranks.
struct BarrierTimedOut {
  std::string detail;
};

/// A session asked for a rank of a barrier or exchange that another session had. `what` is
/// rank_restarted_alone or launch_replaced.
struct RankContested {
  std::string_view what;
  std::string detail;
};

/// A generation of a group has formed.
struct GenerationFormed {
  std::string group;
  std::uint64_t generation;
  std::uint32_t size;
  std::string reason;
};
/// A generation of a group has ended, and why.
struct GenerationEnded {
  std::string group;
  std::uint64_t generation;
  std::string reason;
};

/// Members that have not reported progress within the time that they promised. `detail` says what
/// the first of them does.
struct MembersStalled {
  std::string group;
  std::uint64_t generation;
  std::string ranks;
  std::string detail;
};
/// A request was refused because its rank belongs to another session, or because its join can not
/// succeed.
struct RankRefused {
  std::uint8_t op;
  Code code;
  std::string detail;
};

using Event =
    std::variant<WaitEnded, BarrierReleased, ReplyReplayed, CollectivesMeasured, BarrierTimedOut,
                 RankContested, GenerationFormed, GenerationEnded, MembersStalled, RankRefused>;

struct Effects {
  std::vector<Row> rows;               ///< one atomic batch, up to `revision`
  std::vector<OutgoingReply> replies;  ///< the reply to a hello comes first
  std::vector<Event> events;
  Revision revision = 0;  ///< of the job after this step
};

}  // namespace c10dd::core
