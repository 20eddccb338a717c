// SPDX-License-Identifier: Apache-2.0
// States of the connection: away -> dialling -> hello_sent -> open -> away; closed is final.
#include "client/core/core.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "client/core/foreign.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kOutputSoftBytes = 1024 * 1024;  // no call is added to a longer output
constexpr std::size_t kInputKeptBytes = 1024 * 1024;   // a larger input buffer is not reused
constexpr Duration kHeartbeatMin = std::chrono::milliseconds(10);  // whatever the daemon asks for
constexpr Duration kHeartbeatMax = std::chrono::hours(1);
constexpr Duration kTtlMax = std::chrono::hours(24);
constexpr Duration kValidMax = std::chrono::hours(24 * 400);         // whatever the daemon says
constexpr Duration kRenewPauseMin = std::chrono::milliseconds(250);  // of a credential that expires
constexpr Duration kRenewPauseMax = std::chrono::seconds(30);
constexpr Duration kProbeAfter = std::chrono::milliseconds(1200);  // a hello without a reply
std::string_view text_probe() { return kTextProbe; }
constexpr std::string_view (*kProbes[])() = {text_probe, tls_probe};

/// Returns whether a refusal with this code is final, because the daemon would refuse the next
/// hello, too. A full quota is final only for a client that never had a session: when many clients
/// reconnect, their own dead connections may still take up the quota.
bool is_final(Code code, bool had_session) {
  switch (code) {
    case Code::malformed:
    case Code::unknown_op:
    case Code::version_unsupported:
    case Code::too_large:
    case Code::invalid_argument:
    case Code::state_rolled_back:
    case Code::unsupported:
      return true;
    // Later these may pass: others leave, or the token or the grants are renewed.
    case Code::quota_exceeded:
    case Code::unauthenticated:
    case Code::permission_denied:
      return !had_session;
    default:
      return false;
  }
}

}  // namespace

bool is_denial(Code code) {
  return code == Code::unauthenticated || code == Code::permission_denied ||
         code == Code::not_found;
}

Core::Core(CoreOptions options, TimePoint now)
    : options_(std::move(options)),
      backoff_(options_.seed),
      seen_(options_.hello.seen),
      addresses_(options_.addresses, options_.seed),
      absent_since_(now),
      dial_at_(now) {}

// ---- reports -----------------------------------------------------------------------------------

std::uint64_t Core::call(Request request, Duration limit, TimePoint now) {
  const std::uint64_t id = calls_.add(std::move(request), limit, now).id;
  ++stats_.calls;
  if (over_) {
    calls_.take(id);
    complete(id, *over_);
  }
  send(now);
  return id;
}

void Core::dialling() {
  C10DD_ASSERT(state_ == State::away || state_ == State::closed);
  dialled_ = address();
  if (state_ == State::away) state_ = State::dialling;
}

void Core::connected(TimePoint now, bool other_machine) {
  if (state_ != State::dialling) return;  // finish() came first
  addresses_.connected(other_machine);
  state_ = State::hello_sent;
  output_.assign(native::kMagic);
  say_hello(now);
}

void Core::say_hello(TimePoint now) {
  hello_sent_at_ = now;
  ask_again_at_.reset();
  Hello hello = options_.hello;
  hello.seen = seen_;
  hello.number = job_;
  hello.opened = opened_;
  frame(0, hello);
}

void Core::send_heartbeats(Duration limit, TimePoint now) {
  heartbeat_limit_ =
      std::min(heartbeat_limit_, std::clamp<Duration>(limit, kHeartbeatMin, kHeartbeatMax));
  heartbeat_interval_ = std::min(welcome_interval_, heartbeat_limit_);
  next_heartbeat_ = std::min(next_heartbeat_, now + heartbeat_interval_);
}

void Core::closed(const std::string& why, TimePoint now, bool refused) {
  if (refused) {
    refused_or_unavailable(now);
    foreign_.clear();
    probes_ = 0;
  }
  if (wants_socket() || state_ == State::dialling) denied_ = false;
  if (state_ == State::hello_sent && !loading_) hello_ignored(input_);
  // A connection that could not be made and was not refused has timed out.
  if (state_ == State::dialling) return leave(why, now, !refused);
  if (wants_socket()) lose(why, now);
}

void Core::dial_failed(const Failure& why, TimePoint now) {
  const bool refused = why.code == Code::not_found;
  const bool may_come = refused || why.code == Code::unavailable;
  const bool ends = !may_come && stats_.connects == 0 && !addresses_.several();
  if (ends && state_ != State::closed) return finish(why, now);
  closed(why.detail, now, refused);
}

void Core::show(Bytes credential, TimePoint now) {
  if (renew_at_) renew_at_ = now + renew_pause_;
  if (credential == options_.hello.credential) return;
  options_.hello.credential = std::move(credential);
  if (state_ == State::open) frame(0, Authenticate{options_.hello.credential});
}

/// Plans when to show a newer credential: in the last tenth of its time, at a random moment,
/// because all ranks of a job may share it.
void Core::valid_for(Duration time, TimePoint now) {
  renew_at_.reset();
  if (time <= Duration::zero()) return;
  time = std::min(time, kValidMax);
  const Duration tenth = time / 10;
  renew_pause_ = std::clamp<Duration>(tenth / 10, kRenewPauseMin, kRenewPauseMax);
  renew_at_ = now + time - tenth + backoff_.share_of(tenth);
}

/// Notes that the server did not reply as a daemon does. Tries to recognise its protocol.
void Core::hello_ignored(std::string_view first_bytes) {
  hello_ignored_ = true;
  recognise(first_bytes);
}

void Core::recognise(std::string_view first_bytes) {
  if (std::string protocol = foreign_protocol(first_bytes); !protocol.empty()) {
    foreign_ = std::move(protocol);
  }
}

// ---- a server that is not a daemon -------------------------------------------------------------

std::optional<TimePoint> Core::probe_at() const {
  if (!options_.probes || stats_.connects > 0 || loading_) return {};
  if (!foreign_.empty() || probes_ == std::size(kProbes)) return {};
  if (addresses_.several()) return {};  // rather try these than find out
  if (state_ == State::hello_sent) return hello_sent_at_ + kProbeAfter;
  if (state_ == State::away && hello_ignored_) return hello_sent_at_;
  return std::nullopt;
}

std::string_view Core::probe(TimePoint now) const {
  const std::optional<TimePoint> at = probe_at();
  return at && now >= *at ? kProbes[probes_]() : std::string_view();
}

void Core::probed(std::string_view first_bytes) {
  ++probes_;
  recognise(first_bytes);
  if (first_bytes.find("c10dd") != first_bytes.npos) probes_ = std::size(kProbes);  // a slow daemon
}

void Core::received(std::string_view bytes, TimePoint now) {
  if (state_ != State::hello_sent && state_ != State::open) return;
  unheard_since_.reset();
  Bytes buffer = std::move(input_);
  input_.clear();
  std::string_view rest = bytes;
  if (!buffer.empty()) rest = buffer.append(bytes);
  while (state_ == State::hello_sent || state_ == State::open) {
    const auto cut = native::cut_reply(rest, limits::kFrameBytes);
    if (!cut) {
      if (state_ == State::hello_sent) hello_ignored(rest);
      return lose("it sent a malformed reply: " + cut.error().detail, now);
    }
    if (!*cut) break;
    rest.remove_prefix((*cut)->size);
    on_reply(**cut, now);
  }
  if (state_ == State::away || state_ == State::closed) return;
  // Move the incomplete frame to `input_`. If possible, reuse the memory of `buffer`.
  if (rest.size() < buffer.size() && buffer.capacity() < kInputKeptBytes) {
    buffer.erase(0, buffer.size() - rest.size());
    input_ = std::move(buffer);
  } else if (rest.size() == buffer.size()) {
    input_ = std::move(buffer);
  } else {
    input_.assign(rest);
  }
  send(now);
}

void Core::written(std::size_t bytes, TimePoint now) {
  C10DD_ASSERT(bytes <= output().size());
  // A full socket takes more bytes only after the peer has read bytes, so the peer is alive.
  if (blocked_ && bytes > 0 && unheard_since_) unheard_since_ = now;
  output_at_ += bytes;
  blocked_ = !output().empty();
  if (!blocked_) {
    output_at_ = 0;
    output_.clear();
    if (output_.capacity() > 2 * kOutputSoftBytes) output_.shrink_to_fit();
  } else if (output_at_ > kOutputSoftBytes) {
    output_.erase(0, std::exchange(output_at_, 0));
  }
  send(now);
}

void Core::tick(TimePoint now) {
  for (const Call& call : calls_.abandon_expired(now)) complete(call.id, timed_out(call, now));
  if (ask_again_at_) {
    if (now >= *ask_again_at_) say_hello(now);
    return;
  }
  const Duration hello_patience = addresses_.patience(kHelloPatience);
  if (state_ == State::hello_sent && now >= hello_sent_at_ + hello_patience) {
    return leave("it did not answer the hello within " + human(hello_patience), now, true);
  }
  if (state_ != State::open) return;
  if (unheard_since_ && now >= *unheard_since_ + heartbeat_patience()) {
    std::string why = "it has sent nothing for " + human(heartbeat_patience());
    if (addresses_.several()) return leave(std::move(why), now, true);
    return stay(std::move(why), now);
  }
  if (now >= next_heartbeat_) send_heartbeat(now);
  send(now);
}

/// Sends a heartbeat, which acknowledges the last reply. Skips the heartbeat if `request_sent_` is
/// set, because a request acknowledges replies and is a sign of life, too. Never skips two
/// heartbeats in a row, because a request may block for hours without a reply. Skips none if
/// another address is known, because a daemon's silence shows by heartbeats only, and none of a
/// member: it fences itself when four fifths of its ttl have passed since one that has a reply.
void Core::send_heartbeat(TimePoint now) {
  next_heartbeat_ = now + heartbeat_interval_;
  const bool needed = addresses_.several() || heartbeat_limit_ < kNoLimit;
  skipped_ = std::exchange(request_sent_, false) && !skipped_ && !needed;
  if (skipped_) return;
  if (!unheard_since_) unheard_since_ = now;
  if (!heartbeat_sent_) heartbeat_sent_ = now;
  frame(0, Ping{});
}

void Core::finish(const Failure& reason, TimePoint now) {
  if (over_) return;
  over_ = reason;
  stay(reason.detail, now);
  state_ = State::closed;
  fail_calls(reason);
}

void Core::fail_calls(const Failure& reason) {
  for (const Call& call : calls_.abandon_all()) complete(call.id, reason);
}

void Core::fail_call(std::uint64_t call, const Failure& reason, TimePoint now) {
  if (calls_.find(call) == nullptr) return;
  calls_.abandon(call);
  complete(call, reason);
  send(now);
}

// ---- replies -----------------------------------------------------------------------------------

void Core::on_reply(const native::Frame<native::ReplyHeader>& frame, TimePoint now) {
  const native::ReplyHeader& header = frame.header;
  if (header.kind == native::ReplyHeader::Kind::event) return;  // only newer daemons send events
  Reply reply = ReplyBody(Done{});
  const Result<void> decoded = native::decode_reply(header.op, header.kind, frame.body, reply);
  if (!decoded) return lose("it sent a malformed reply: " + decoded.error().detail, now);
  if (header.sequence == 0 && header.op == Authenticate::op.code) {
    // If it was refused, the owner reads the credential again, or the daemon ends the session.
    if (reply) valid_for(std::get<Authenticated>(*reply).valid_for, now);
    return;
  }
  if (header.sequence == 0) {
    if (!reply || header.op == Hello::op.code) return on_hello_reply(std::move(reply), now);
    note(header.stamp);
    served();  // the reply to a heartbeat
    if (heartbeat_sent_) last_confirmed_ = replied_to_ = *std::exchange(heartbeat_sent_, {});
    return;
  }
  if (!reply && ends_connection(reply.error(), now)) return;
  if (reply) note(header.stamp);
  if (header.op == Cancel::op.code && calls_.cancelled(header.sequence)) return served();
  const Call* call = calls_.find_sequence(header.sequence);
  if (call == nullptr || !call->on_wire) return;  // no caller waits for this reply any more
  if (header.op != info_of(call->request).code) {
    return lose(format("it sent a malformed reply: operation {} instead of {}", header.op,
                       info_of(call->request).code),
                now);
  }
  served();
  request_sent_ = false;
  const std::uint64_t id = call->id;
  calls_.take(id);
  complete(id, std::move(reply));
}

/// Handles a frame with sequence 0 that is not the reply to a heartbeat. `reply` is the reply to
/// the hello, or a failure that ends the session.
void Core::on_hello_reply(Reply reply, TimePoint now) {
  if (!reply) {
    if (reply.error().loading && state_ == State::hello_sent) return loading(reply.error(), now);
    if (ends_connection(reply.error(), now)) return;
    if (state_ == State::hello_sent && is_final(reply.error().code, stats_.connects > 0)) {
      return finish(reply.error(), now);
    }
    const Failure& reason = reply.error();
    denied_ = is_denial(reason.code);
    if (state_ == State::open) {
      return stay("it ended the session: " + reason.detail, now, reason.retry_after);
    }
    return turned_away("it refused the session: " + reason.detail, now, reason.retry_after);
  }
  if (state_ != State::hello_sent) return;
  const Welcome& welcome = std::get<Welcome>(*reply);
  foreign_.clear();
  denied_ = false;
  if (stats_.connects > 0) stats_.away += now - absent_since_;
  ++stats_.connects;
  state_ = State::open;
  job_ = welcome.job;
  opened_ = welcome.opened;
  welcome_interval_ =
      std::clamp<Duration>(welcome.heartbeat_interval, kHeartbeatMin, kHeartbeatMax);
  heartbeat_interval_ = std::min(welcome_interval_, heartbeat_limit_);
  ttl_ = std::clamp<Duration>(welcome.session_ttl, 2 * heartbeat_interval_, kTtlMax);
  window_ = std::clamp<std::size_t>(welcome.window, 1, limits::kSessionWindow);
  next_heartbeat_ = now + heartbeat_interval_;
  skipped_ = true;  // requests that are sent again may block, so the next heartbeat is not skipped
  last_confirmed_ = replied_to_ = hello_sent_at_;
  valid_for(welcome.valid_for, now);
  takeover_grace_ = std::clamp<Duration>(welcome.takeover_grace, Duration(-1), kTtlMax);
  welcomed_at_ = address();
  addresses_.welcome(welcome.daemons);
}

void Core::note(const Stamp& stamp) {
  if (seen_.incarnation == 0 || stamp.incarnation == seen_.incarnation) {
    seen_ = std::max(seen_, stamp);
  }
}

// ---- the connection ----------------------------------------------------------------------------

/// Fills the output with Cancels, which let the window advance, and then with calls.
void Core::send(TimePoint now) {
  while (state_ == State::open && output().size() < kOutputSoftBytes) {
    if (const auto sequence = calls_.cancel_next()) {
      frame(*sequence, Cancel{*sequence});
      continue;
    }
    const Call* call = calls_.send_next(window_, now);
    if (call == nullptr) return;
    const std::size_t size = frame(call->sequence, call->request);
    if (size > limits::kFrameBytes) {
      // The daemon closes the connection if a frame is so large. Remove the frame, fail the call.
      output_.resize(output_.size() - size - native::RequestHeader::kSize);
      const Call refused = calls_.take(call->id);
      complete(refused.id, failure(Code::too_large, "{}: request too large: {} bytes, limit {}",
                                   info_of(refused.request).name, size, limits::kFrameBytes));
      continue;
    }
    request_sent_ = true;
    if (call->sent_before) ++stats_.reissued;
  }
}

/// Appends a frame to the output. Returns the size of its body in bytes.
std::size_t Core::frame(std::uint64_t sequence, const Request& request) {
  native::RequestHeader header;
  header.channel = kChannel;
  header.sequence = sequence;
  header.acked_below = calls_.acked_below();
  const std::size_t before = output_.size();
  native::encode_request(output_, header, request);
  return output_.size() - before - native::RequestHeader::kSize;
}

std::optional<TimePoint> Core::dial_at() const {
  if (state_ != State::away) return std::nullopt;
  return dial_at_;
}

std::optional<TimePoint> Core::next_deadline() const {
  std::optional<TimePoint> next = calls_.next_deadline();
  const auto sooner = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (state_ == State::away) sooner(dial_at_);
  if (ask_again_at_) {
    sooner(*ask_again_at_);
  } else if (state_ == State::hello_sent) {
    sooner(hello_sent_at_ + addresses_.patience(kHelloPatience));
  }
  if (state_ == State::open) sooner(next_heartbeat_);
  if (state_ == State::open && renew_at_) sooner(*renew_at_);
  if (state_ == State::open && unheard_since_) sooner(*unheard_since_ + heartbeat_patience());
  return next;
}

// ---- results -----------------------------------------------------------------------------------

void Core::complete(std::uint64_t call, Reply reply) {
  if (!reply) ++stats_.failures;
  completions_.push_back({call, std::move(reply)});
}

std::optional<TimePoint> Core::deadline_of(std::uint64_t call) const {
  const Call* pending = calls_.find(call);
  if (pending == nullptr) return std::nullopt;
  return pending->deadline;
}

std::uint64_t Core::sequence_of(std::uint64_t call) const {
  const Call* pending = calls_.find(call);
  return pending == nullptr ? 0 : pending->sequence;
}

std::string Core::absence(TimePoint now) const {
  return addresses_.absence(now - absent_since_, cause(), denied_);
}

Failure Core::timed_out(const Call& call, TimePoint now) const {
  const OpInfo& op = info_of(call.request);
  std::string text = format("{} timed out after {}: ", op.name, human(call.limit));
  text +=
      open() ? "the daemon at " + address() + " is connected but has not replied" : absence(now);
  if (op.dedup == Dedup::reply && (call.on_wire || call.sent_before)) {
    text += "; it may or may not have been applied";
  }
  if (op.dedup == Dedup::delivery) {
    text += "; an item that was delivered to this call returns to its queue";
  }
  if (!denied_) text += "; check the daemon and the network";
  return failure(Code::timed_out, "{}", text);
}

std::string Core::audit(bool settled) const {
  if (std::string wrong = calls_.audit(); !wrong.empty()) return wrong;
  if (output_at_ > output_.size()) return "more output was written than there is";
  if (!wants_socket() && !(output_.empty() && input_.empty()))
    return "a buffer has bytes, but there is no connection";
  if (settled && open() && calls_.cancelling() > 0) {
    return format("{} Cancels have no reply", calls_.cancelling());
  }
  return {};
}

CoreStats Core::stats(TimePoint now) const {
  CoreStats stats = stats_;
  if (stats.connects > 0 && !open()) stats.away += now - absent_since_;
  return stats;
}

}  // namespace c10dd::client
