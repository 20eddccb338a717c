// SPDX-License-Identifier: Apache-2.0
// Defines the input and the output (effects) of the core, which does no I/O. The code that does the
// I/O, called the shell, carries out the effects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/core/memory_ledger.h"
#include "protocol/diagnosis.h"
#include "protocol/ops.h"
#include "protocol/rows.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Who has sent a hello, and what he may do in its job. Without authentication: anything.
struct Caller {
  std::string principal = {};
  Access access = Access::admin;  ///< the highest of the operations that he may send
  Duration valid_for{0};          ///< until his credential expires; 0: he needs none

  /// A client that only reads makes no jobs.
  bool observes() const { return access == Access::observe; }
};

/// The sender of a request. The shell has already checked that the sender has access.
struct Origin {
  SessionId session;
  std::uint64_t connection = 0;  ///< connection id; one heartbeat counts for all sessions on it
  bool fleeting = false;         ///< Hello::fleeting: a client of TCPStore, or a RunClaim
  /// Caller::principal of the session's hello; null without authentication.
  std::shared_ptr<const std::string> principal = nullptr;
  bool observes = false;         ///< the sender of the session's hello may only read in this job
  AccountRef account = nullptr;  ///< pays for what the daemon holds for the session
};

/// The identity of one request inside its session.
struct CallId {
  std::uint64_t sequence = 0;
  std::uint64_t acked_below = 0;
  std::uint64_t fingerprint = 0;  ///< of the request's bytes
  std::int64_t arrived_ns = 0;    ///< set by the shell; copied to an immediate reply
};

/// Says which state of the job a reply reveals to the client. If several daemons share the engine,
/// this determines what the reply must wait for.
enum class Evidence : std::uint8_t {
  none,        ///< no state; the reply waits for nothing
  state,       ///< state that another daemon may have changed; waits until ownership is confirmed
  own_commit,  ///< the change by the request itself; waits for its commit, which proves ownership
};

struct Attachment;  // host/job_slot.h
using AttachmentRef = std::shared_ptr<Attachment>;

/// A reply that is not sent yet. Must not be sent before the revision `observed` is durable.
struct OutgoingReply {
  OutgoingReply() = default;
  OutgoingReply(const SessionId& session, std::uint64_t call, std::uint8_t code, Evidence shows,
                Reply&& reply, Revision newest, std::int64_t arrived = 0)
      : to(session),
        sequence(call),
        op(code),
        evidence(shows),
        result(std::move(reply)),
        observed(newest),
        arrived_ns(arrived) {}

  SessionId to;
  std::uint64_t sequence = 0;
  std::uint8_t op = 0;
  Evidence evidence = Evidence::state;
  Reply result = ReplyBody(Done{});
  Revision observed = 0;        ///< newest change that the reply depends on
  std::int64_t arrived_ns = 0;  ///< CallId::arrived_ns; 0 if the request was blocked
  /// Set by the host: the attachment of the session when the reply was made; null if it had none.
  /// The reply must not be sent on a later attachment, because the client repeats the request there
  /// and may get a different reply.
  AttachmentRef attachment = nullptr;
};

// ---- events: for metrics and the log, never needed for correctness -----------------------------

struct WaitEnded {
  std::uint8_t op;
  Code outcome;
  Duration blocked;
};
struct BarrierReleased {
  Duration spread;  ///< time from the first arrival to the release
};
struct ReplyReplayed {
  std::uint8_t op;
};
/// The measurements of a session since its last report, as differences and not as totals.
struct CollectivesMeasured {
  std::vector<CollectiveTotals> differences;
};
/// A barrier or exchange timed out; the text names the missing ranks.
struct BarrierTimedOut {
  std::string detail;
};

/// A session asked for a rank that another session held at a barrier or exchange. `what` is
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
/// A generation of a group has ended. `reason` says why.
struct GenerationEnded {
  std::string group;
  std::uint64_t generation;
  std::string reason;
};

/// Some members have not reported progress within the time that they promised. `detail` says what
/// the first of these members does.
struct MembersStalled {
  std::string group;
  std::uint64_t generation;
  std::string ranks;
  std::string detail;
};
/// The daemon refused a request. Either another session holds the rank of the request, or the
/// request is a join that can not succeed.
struct RankRefused {
  std::uint8_t op;
  Code code;
  std::string detail;
};

/// A client of TCPStore has given up a long wait. See GivenUpWaits.
struct WaitGivenUp {
  std::string_view cause;  ///< cancelled: it has timed out; or disconnected
  std::string peer = {};   ///< address of the client
  std::uint64_t pid = 0;   ///< 0: unknown
  Duration blocked{0};
  std::string ranks = "[]";  ///< those whose keys were missing, as far as the keys tell it
  std::size_t others = 0;    ///< further requests that wait for the first of the missing keys
  std::size_t folded = 0;    ///< waits for it that were given up since the last such event
  std::string detail = {};
};

/// The job does not go on, or for another reason than before. `age`: since when.
struct Diagnosed {
  Diagnosis diagnosis;
  Duration age{0};
};
/// The diagnosis of this kind does not hold any more. `lasted`: since the Diagnosis::since of the
/// first one of this kind.
struct DiagnosisEnded {
  Diagnosis::Kind kind;
  Duration lasted;
};

namespace detail {
using AnyEvent = std::variant<WaitEnded, BarrierReleased, ReplyReplayed, CollectivesMeasured,
                              BarrierTimedOut, RankContested, GenerationFormed, GenerationEnded,
                              MembersStalled, RankRefused, WaitGivenUp, Diagnosed, DiagnosisEnded>;
}  // namespace detail

/// An event of any kind. Its functions to copy, move and destroy are in effects.cc only.
struct Event : detail::AnyEvent {
  using variant::variant;
  using variant::operator=;

  Event();
  Event(const Event&);
  Event(Event&&) noexcept;
  Event& operator=(const Event&);
  Event& operator=(Event&&) noexcept;
  ~Event();
};

struct Effects {
  Rows rows;                           ///< to be stored in one atomic batch
  std::vector<OutgoingReply> replies;  ///< the reply to a hello comes first
  std::vector<Event> events;
  Revision revision = 0;  ///< revision of the job after this step
  bool blocked = false;   ///< the request of the step has no reply yet
  bool quiet = false;     ///< the step has changed neither the state nor a deadline of the job

  /// Removes all entries, and keeps the memory for the next step.
  void clear() {
    rows.clear();
    replies.clear();
    events.clear();
    blocked = false;
    quiet = false;
  }
};

}  // namespace c10dd::core
