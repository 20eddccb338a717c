// SPDX-License-Identifier: Apache-2.0
#include "client/core/proxied_client.h"

#include <algorithm>
#include <utility>

#include "client/core/planted.h"
#include "protocol/limits.h"

namespace c10dd::client {
namespace {

/// Of a request without a time-out of its own. A client of PyTorch has no time-out for it either.
constexpr Duration kForever = limits::kTimeoutMax;

/// Returns true if the request may wait for other clients.
bool is_wait(const Request& request) {
  return std::holds_alternative<Wait>(request) || std::holds_alternative<WaitCounter>(request);
}

/// Returns true if the reply has a value, which may be large.
bool has_value(const Request& request) {
  return std::holds_alternative<Get>(request) || std::holds_alternative<CompareSet>(request) ||
         std::holds_alternative<QueuePop>(request);
}

/// Plants faults in a reply. Returns false if a fault keeps the reply from the local client.
bool is_handed_over(Completion& done) {
  if (planted(Planted::local_failure_success) && !done.reply) done.reply = ReplyBody(Counter{1});
  auto* const sum = done.reply ? std::get_if<Counter>(&*done.reply) : nullptr;
  if (sum == nullptr) return true;
  if (planted(Planted::local_sum_wrong)) --sum->value;
  return !planted(Planted::local_reply_lost);
}

}  // namespace

ProxiedClient::ProxiedClient(CoreOptions options, tcpstore::LegacyClients legacy)
    : options_(std::move(options)), dialogue_(legacy) {
  options_.hello.c10d = true;
}

// ---- the local client --------------------------------------------------------------------------

bool ProxiedClient::may_take() const {
  return !left_ && over() == nullptr && !dialogue_.is_paused() &&
         out_.size() < limits::kOutboxSoftBytes;
}

bool ProxiedClient::wants_input(std::size_t held) const {
  return may_take() && held < std::max(dialogue_.needed(), limits::kSmallFrameBytes);
}

/// Returns whether the next message must wait for the reply to an earlier one. Only the daemon
/// knows whether a wait is blocked, so every wait counts as blocked: until its reply, only the
/// message that cancels it is taken. Clients before PyTorch 2.1 cannot cancel: their next message
/// means that they have given up. A value must have come before the next message is taken;
/// otherwise a client that does not read could make the proxy hold any number of values.
bool ProxiedClient::must_wait(std::string_view in) {
  if (value_) return true;
  const auto head = dialogue_.look(in);
  if (!head || !*head || waiting_.empty() || dialogue_.dialect() != tcpstore::Dialect::v)
    return false;
  return (*head)->query != tcpstore::Query::cancel_wait;
}

std::size_t ProxiedClient::take(std::string_view in, TimePoint now) {
  now_ = now;
  std::size_t taken = 0;
  while (may_take()) {
    const std::string_view rest = in.substr(taken);
    if (must_wait(rest)) break;
    const std::size_t used = dialogue_.take(rest, *this, out_);
    answer_here();
    if (used == 0) break;
    taken += used;
  }
  settle(now);
  return taken;
}

bool ProxiedClient::submit(std::uint64_t sequence, const Request& request) {
  if (const auto* wait = std::get_if<Cancel>(&request)) {
    cancel(wait->sequence);
    here_.emplace_back(sequence, ReplyBody(Done{}));
    return false;
  }
  if (!core_) {
    options_.hello.pid = dialogue_.pid().value_or(0);
    core_.emplace(std::move(options_), now_);
  }
  if (planted(Planted::local_request_twice)) core_->call(request, kForever, now_);
  const std::uint64_t call = core_->call(request, kForever, now_);
  sequences_.emplace(call, sequence);
  if (has_value(request)) value_ = call;
  if (!is_wait(request)) return false;
  if (planted(Planted::local_wait_early)) {
    here_.emplace_back(sequence, ReplyBody(Done{}));
    sequences_.erase(call);
    return false;
  }
  waiting_.emplace(sequence, call);
  return true;
}

/// Ends a wait that its client has given up. It gets no reply.
void ProxiedClient::cancel(std::uint64_t sequence) {
  const auto wait = waiting_.extract(sequence);
  if (wait.empty() || planted(Planted::local_wait_not_ended)) return;
  sequences_.erase(wait.mapped());
  core_->fail_call(wait.mapped(), failure(Code::aborted, "cancelled by the client"), now_);
}

/// Hands over the replies that need no daemon. The conversation takes none while it takes a
/// message.
void ProxiedClient::answer_here() {
  for (const auto& [sequence, reply] : std::exchange(here_, {}))
    dialogue_.reply(sequence, reply, out_);
}

/// Gives up what the client waits for. Its changes are made, though it waits for none: PyTorch's
/// clients send a set, and end.
void ProxiedClient::leave(TimePoint now) {
  if (std::exchange(left_, true) || !core_) return;
  const Failure gone = failure(Code::closed, "the local client has disconnected");
  for (const auto& [sequence, call] : waiting_) {
    sequences_.erase(call);
    core_->fail_call(call, gone, now);
  }
  waiting_.clear();
  static_cast<void>(core_->take_completions());
  const bool untold = core_->stats(now).connects == 0 && sequences_.empty();
  if (untold) return core_->finish(gone, now);
  goodbye_ = core_->call(Goodbye{}, kGoodbyePatience, now);
}

// ---- the daemon --------------------------------------------------------------------------------

void ProxiedClient::settle(TimePoint now) {
  if (!core_) return;
  for (Completion& done : core_->take_completions()) {
    const auto asked = sequences_.extract(done.call);
    if (goodbye_ == done.call) {
      core_->finish(failure(Code::closed, "the client has said goodbye"), now);
    }
    if (asked.empty()) continue;
    waiting_.erase(asked.mapped());
    if (value_ == done.call) value_.reset();
    if (is_handed_over(done)) dialogue_.reply(asked.mapped(), done.reply, out_);
  }
  if (dialogue_.has_more() && out_.size() < limits::kOutboxSoftBytes) {
    now_ = now;
    dialogue_.read_on(*this);
    answer_here();
  }
  if (over_ || left_) return;
  if (core_->over()) {
    over_ = *core_->over();
  } else if (core_->stats(now).sessions_lost > 0) {
    over_ = failure(Code::session_expired,
                    "the session has expired, because the daemon was unreachable for too long");
  }
}

const Failure* ProxiedClient::over() const { return over_ ? &*over_ : dialogue_.over(); }

}  // namespace c10dd::client
