// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/fleet/run_claim.h"

#include <algorithm>
#include <utility>

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

constexpr Duration kAgainMin = std::chrono::milliseconds(50);
constexpr Duration kAgainMax = std::chrono::milliseconds(500);

}  // namespace

void RunClaim::ask(std::function<void(Result<Owner>)> then) {
  asks_.push_back(std::move(then));
  settle();
}

void RunClaim::keep(std::function<void(const Failure&)> deposed) {
  deposed_ = std::move(deposed);
  settle();
}

void RunClaim::release() {
  deposed_ = nullptr;
  settle();
}

/// Does what can be done now. While a claim was refused, only a tick goes on.
void RunClaim::settle() {
  if (does_without()) answer(Owner{});
  if (state_ == State::none && needed() && !ticking_) claim();
  if (state_ != State::held) return;
  unused_ = false;
  // If the lease is over, the host ends the session, or a heartbeat comes.
  const bool unsure = !host_.lease_holds() && !planted(Planted::claim_past_lease);
  if (!asks_.empty() && unsure) return tick_after(kAgainMin);
  answer(Owner{});
  if (!needed() && !ticking_) tick_after(kLinger);
}

void RunClaim::tick() {
  ticking_ = false;
  overdue_ = state_ == State::asking;
  if (state_ != State::held || needed()) return settle();
  if (!std::exchange(unused_, true)) return tick_after(kLinger);
  state_ = State::none;
  host_.detach(std::exchange(slot_, nullptr), std::exchange(attachment_, nullptr));
}

void RunClaim::tick_after(Duration time) {
  ticking_ = true;
  settings_.later(time, [self = shared_from_this(), tick = ++ticks_] {
    if (self->ticking_ && self->ticks_ == tick) self->tick();
  });
}

// ---- the session -------------------------------------------------------------------------------

void RunClaim::claim() {
  state_ = State::asking;
  ++attempt_;
  HelloRequest request;
  request.sink = shared_from_this();
  request.channel = attempt_;
  request.hello.session = {settings_.sessions, attempt_};  // the ID of an older one is used up
  request.hello.job = settings_.job;
  request.hello.run = settings_.run;
  request.hello.host = "c10dd";
  request.hello.fleeting = true;
  request.on_open = [this, self = shared_from_this(), attempt = attempt_](
                        const JobRef& slot, const AttachmentRef& attachment) {
    if (attempt != attempt_ || state_ != State::asking) return host_.detach(slot, attachment);
    slot_ = slot;
    attachment_ = attachment;
  };
  tick_after(kPatience);
  host_.hello(std::move(request));
}

// The host is the caller of the next two, and must not be called before they have returned.

void RunClaim::deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp&) {
  if (!reply.result) return end_session(channel, reply.result.error());
  host_.loop().post([this, self = shared_from_this(), channel] {
    if (channel != attempt_ || state_ != State::asking) return;
    state_ = State::held;
    ticking_ = overdue_ = false;
    settle();
  });
}

void RunClaim::end_session(std::uint32_t channel, const Failure& reason) {
  host_.loop().post([this, self = shared_from_this(), channel, reason] {
    if (channel == attempt_ && state_ != State::none) lost(reason);
  });
}

/// Handles the end of the session, or of an attempt to open one.
void RunClaim::lost(const Failure& reason) {
  state_ = State::none;
  ticking_ = overdue_ = false;
  slot_.reset();
  attachment_.reset();
  const bool elsewhere = reason.code == Code::not_owner;
  if (elsewhere && deposed_ && !planted(Planted::deposed_untold)) {
    std::exchange(deposed_, nullptr)(reason);
  }
  if (elsewhere && !reason.addresses.empty()) return answer(Owner{reason.addresses});
  const bool passes =
      elsewhere || reason.code == Code::unavailable || reason.code == Code::session_expired;
  if (!passes && !deposed_) return answer(reason);
  if (needed()) tick_after(std::clamp(reason.retry_after, kAgainMin, kAgainMax));
}

void RunClaim::answer(const Result<Owner>& owner) {
  for (const auto& then : std::exchange(asks_, {})) then(owner);
}

}  // namespace c10dd::core
