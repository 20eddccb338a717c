// SPDX-License-Identifier: Apache-2.0
// How a connection of the client ends, and when and where the client connects next.
#include <algorithm>
#include <utility>

#include "client/core/core.h"
#include "client/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::client {
namespace {

constexpr Duration kRetryAfterMin = std::chrono::milliseconds(10);
constexpr Duration kRedirectPauseMax = std::chrono::milliseconds(200);
constexpr Duration kRetryAfterMax = std::chrono::seconds(10);
// How often the patience of Addresses fits into the time that a daemon may be unavailable. With
// Addresses::kPatienceMax this is longer than any lease, whose end a daemon may wait for.
constexpr int kStay = 5;
static_assert(kStay * Addresses::kPatienceMax > limits::kLeaseMax);
constexpr std::size_t kSupersessionsMax = 3;  // within kSupersessionSpan
constexpr Duration kSupersessionSpan = std::chrono::seconds(10);

/// Derives the id of the next session from the last id and the seed, which are both random.
SessionId next_session(const SessionId& last, std::uint64_t seed) {
  return {mixed(last.high ^ mixed(seed)), mixed(last.low + mixed(~seed))};
}

Duration bounded(Duration retry_after) {
  return std::clamp<Duration>(retry_after, Duration::zero(), kRetryAfterMax);
}

}  // namespace

// ---- failures that end a connection ------------------------------------------------------------

/// Handles a failure that ends the connection or the session. Returns false for other failures.
bool Core::ends_connection(const Failure& reason, TimePoint now) {
  switch (reason.code) {
    case Code::not_owner:
      not_owner(reason, now);
      return true;
    case Code::unavailable:
      unavailable(reason, now);
      return true;
    case Code::session_unknown:
      stay("it does not know the session: " + reason.detail, now);
      return true;
    case Code::session_superseded:
      superseded(reason, now);
      return true;
    case Code::session_expired:
      session_lost(reason, now);
      return true;
    case Code::session_replaced:
      leave_in_doubt(reason);
      finish(reason, now);
      return true;
    default:
      return false;
  }
}

/// Goes where the daemon sends this client. Without an address goes to the next one that it knows.
void Core::not_owner(const Failure& reason, TimePoint now) {
  std::string why = "it does not own the job: " + reason.detail;
  if (!addresses_.redirect(why, reason.addresses)) {
    if (const std::string local = addresses_.ignored(reason.addresses); !local.empty()) {
      why += format(
          "; it redirects to {}, an address that only its own machine can reach: start the "
          "daemon there with another --advertise",
          printable(local, limits::kNameShown));
    }
    return turned_away(std::move(why), now, reason.retry_after);
  }
  why_ = std::move(why);
  disconnect(now,
             bounded(reason.retry_after) + (addresses_.quick() ? Duration::zero() : next_pause()));
}

/// Goes on to the daemons that this one names. If it names none, stays as long as it says when to
/// come back, because it may be about to take over the job. Leaves it if it cannot serve for too
/// long and another address is known.
void Core::unavailable(const Failure& reason, TimePoint now) {
  refused_or_unavailable(now);
  std::string why = "it cannot serve now: " + reason.detail;
  if (addresses_.redirect(why, reason.addresses)) {
    why_ = std::move(why);
    return disconnect(now,
                      std::max(kRetryAfterMin, bounded(reason.retry_after)) + backoff_.jitter());
  }
  if (reason.retry_after <= Duration::zero() && state_ != State::open) {
    return turned_away(std::move(why), now, reason.retry_after);
  }
  if (reason.retry_after <= Duration::zero() || !addresses_.several()) {
    return stay(std::move(why), now, reason.retry_after);
  }
  if (!unavailable_since_) unavailable_since_ = now;
  if (now - *unavailable_since_ >= kStay * addresses_.patience(Addresses::kPatienceMax)) {
    return leave(std::move(why), now, true);
  }
  addresses_.stay(why_ = std::move(why));
  disconnect(now, std::max(kRetryAfterMin, bounded(reason.retry_after)) + backoff_.jitter());
}

/// Keeps the connection to a daemon that loads the job, to say hello again when it asks for that:
/// at a random moment, because all ranks of a job are told at the same time, and at least as often
/// as a heartbeat is due. The daemon gives each member its full time when the load has ended.
void Core::loading(const Failure& reason, TimePoint now) {
  const bool only_here = takeover_grace_ == Duration::zero();
  const bool counts = !only_here || welcomed_at_.empty() || welcomed_at_ == address();
  if (counts && !planted(Planted::load_is_silence)) {
    last_confirmed_ = std::max(last_confirmed_, hello_sent_at_);
    replied_to_ = std::max(replied_to_, hello_sent_at_);
  }
  loading_ = true;
  why_ = "it is not ready: " + reason.detail;
  foreign_.clear();
  denied_ = false;
  const Duration pause =
      std::min(std::max(kRetryAfterMin, bounded(reason.retry_after)), heartbeat_limit_);
  ask_again_at_ = now + pause - backoff_.share_of(pause / 2);
}

/// Reconnects after session_superseded: a different connection has opened the session. If this soon
/// happens again, a second process uses the session. Then also fails the pending calls.
void Core::superseded(const Failure& reason, TimePoint now) {
  std::erase_if(supersessions_, [&](TimePoint at) { return now - at > kSupersessionSpan; });
  supersessions_.push_back(now);
  if (supersessions_.size() > kSupersessionsMax) {
    supersessions_.clear();
    fail_calls(reason);
  }
  stay("the session was opened on another connection: " + reason.detail, now);
}

/// Called when the session has ended. Each write that has no reply fails with outcome_unknown.
void Core::leave_in_doubt(const Failure& reason) {
  for (const Call& call : calls_.session_lost()) {
    complete(call.id, failure(Code::outcome_unknown,
                              "{}: the session ended before the reply arrived ({}); it may or may "
                              "not have been applied: read the state before you repeat it",
                              info_of(call.request).name, reason.detail));
  }
  ++stats_.sessions_lost;
}

/// Continues in a new session. The changes of the old session stay; the items that were delivered
/// to the old session have returned to their queues. Keeps `seen_`, which belongs to the job.
void Core::session_lost(const Failure& reason, TimePoint now) {
  leave_in_doubt(reason);
  options_.hello.session = next_session(options_.hello.session, options_.seed);
  opened_ = 0;
  stay("the session has expired: " + reason.detail, now);
}

// ---- signs of life -----------------------------------------------------------------------------

/// Called when the daemon has done what it was asked for: it is the right one.
void Core::served() {
  backoff_.reset();
  addresses_.served();
  unavailable_since_.reset();
}

/// Counts a refused connection or the reply `unavailable` as a sign of life, if it is one.
void Core::refused_or_unavailable(TimePoint now) {
  const bool only_here = takeover_grace_ == Duration::zero();
  // If only the daemon at this address can serve the job, no daemon serves it now, so none can
  // declare this client lost. When the daemon can serve again, it gives each client a full ttl.
  const bool counts = only_here ? welcomed_at_.empty() || welcomed_at_ == address()
                                : now <= replied_to_ + takeover_grace_;
  if (counts) last_confirmed_ = now;
}

/// Returns how long a heartbeat may stay without a reply. If another address is known, this is less
/// than the ttl, so that the client has found the next owner of the job before the ttl ends.
Duration Core::heartbeat_patience() const {
  return std::min(ttl_, std::max(2 * heartbeat_interval_, addresses_.patience(ttl_)));
}

// ---- the next connection -----------------------------------------------------------------------

std::string Core::cause() const {
  return foreign_.empty() ? why_ : "the server there speaks " + foreign_ + "; check the port";
}

/// Ends the connection. The client connects again at the same address if it had a session there or
/// the daemon was loading the job, otherwise at the next address.
void Core::lose(std::string why, TimePoint now) {
  if (state_ == State::open || loading_) return stay(std::move(why), now);
  leave(std::move(why), now);
}

/// Ends the connection, to connect again at the same address.
void Core::stay(std::string why, TimePoint now, Duration retry_after) {
  why_ = std::move(why);
  addresses_.stay(cause());
  disconnect(now, bounded(retry_after) + backoff_.next());
}

/// Ends the connection, to connect at the next address: at once if it was not tried yet.
void Core::leave(std::string why, TimePoint now, bool slow) {
  why_ = std::move(why);
  const bool at_once = addresses_.leave(cause(), slow);
  disconnect(now, at_once ? backoff_.jitter() : next_pause());
}

/// Ends the connection to a daemon that has refused the session, to connect at the next address
/// after a while.
void Core::turned_away(std::string why, TimePoint now, Duration retry_after) {
  why_ = std::move(why);
  addresses_.leave(cause());
  disconnect(now, bounded(retry_after) + backoff_.next());
}

/// Returns how long to wait before an address that was tried already. The time grows, but stays
/// short if a daemon has named an owner: it is there, and notices soon if that owner is dead.
Duration Core::next_pause() {
  const Duration pause = backoff_.next();
  return addresses_.redirected() ? std::min(pause, kRedirectPauseMax) : pause;
}

void Core::disconnect(TimePoint now, Duration delay) {
  if (state_ == State::open) absent_since_ = now;
  state_ = State::away;
  dial_at_ = now + delay;
  if (address() != dialled_) {
    foreign_.clear();
    probes_ = 0;
    hello_ignored_ = false;
    unavailable_since_.reset();
  }
  input_ = {};
  output_ = {};
  output_at_ = 0;
  blocked_ = false;
  unheard_since_.reset();
  heartbeat_sent_.reset();
  ask_again_at_.reset();
  loading_ = false;
  calls_.connection_lost();
}

}  // namespace c10dd::client
