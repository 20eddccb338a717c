// SPDX-License-Identifier: Apache-2.0
// All containers are ordered, so that equal inputs give equal frames.
#include "client/core/calls.h"

#include <algorithm>

#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::client {
namespace {

/// Returns the time-out field of a request, or nullptr if its operation has none.
Duration* timeout_of(Request& request) {
  return std::visit(
      [](auto& r) -> Duration* {
        if constexpr (requires { r.timeout; }) return &r.timeout;
        return nullptr;
      },
      request);
}

/// Writes into a request how long its caller has waited already, if the operation has such a field.
void set_waited(Request& request, Duration waited) {
  std::visit(
      [waited](auto& r) {
        if constexpr (requires { r.waited; }) r.waited = waited;
      },
      request);
}

/// Returns whether the daemon must remember the request until its reply has come.
bool is_held(const Request& request) {
  const Dedup dedup = info_of(request).dedup;
  return dedup == Dedup::reply || dedup == Dedup::delivery;
}

bool is_pop(const Call& call) { return info_of(call.request).dedup == Dedup::delivery; }

// First part of Call::place if the call has no sequence. Puts these calls behind all calls that
// have a sequence.
constexpr std::uint64_t kUnnumbered = ~std::uint64_t{0};

}  // namespace

const Call& Calls::add(Request request, Duration limit, TimePoint now) {
  const std::uint64_t id = next_id_++;
  Call& call = calls_[id];
  call.id = id;
  call.request = std::move(request);
  call.started = now;
  const Duration* own = timeout_of(call.request);
  call.waits = own != nullptr && *own > Duration::zero();
  call.limit =
      std::clamp<Duration>(call.waits ? *own : limit, Duration::zero(), limits::kTimeoutMax);
  call.due = now + call.limit;
  call.deadline = call.due + (call.waits ? kGrace : Duration::zero());
  deadlines_.emplace(call.deadline, id);
  queue(call);
  return call;
}

void Calls::queue(Call& call) {
  call.on_wire = false;
  call.place = call.sequence != 0 ? std::pair(call.sequence, std::uint64_t{0})
                                  : std::pair(kUnnumbered, order_++);
  queued_.emplace(call.place, call.id);
}

const Call* Calls::find(std::uint64_t id) const {
  const auto it = calls_.find(id);
  return it == calls_.end() ? nullptr : &it->second;
}

const Call* Calls::find_sequence(std::uint64_t sequence) const {
  const auto it = by_sequence_.find(sequence);
  return it == by_sequence_.end() ? nullptr : find(it->second);
}

std::uint64_t Calls::acked_below() const { return held_.empty() ? next_ : *held_.begin(); }

const Call* Calls::send_next(std::size_t window, TimePoint now) {
  requeue_blocked_pop(window);
  if (queued_.empty() || calls_.size() - queued_.size() >= window) return nullptr;
  Call& call = calls_.at(queued_.begin()->second);
  if ((call.sequence != 0 ? call.sequence : next_) >= acked_below() + window) return nullptr;
  queued_.erase(queued_.begin());
  if (call.sequence == 0) {
    call.sequence = next_++;
    by_sequence_.emplace(call.sequence, call.id);
    if (is_held(call.request)) held_.insert(call.sequence);
  }
  call.on_wire = true;
  if (call.waits) {
    // Send at least 1 ns: with a time-out of 0 the daemon would reply not_found, not timed_out.
    Duration& left = *timeout_of(call.request);
    left = std::max<Duration>(call.due - now, Duration(1));
    set_waited(call.request, std::max<Duration>(call.limit - left, Duration::zero()));
  }
  return &call;
}

/// Prevents a pop that blocks for hours from filling the window: the daemon must remember the pop's
/// sequence, so the window cannot advance past this sequence. Acts only if other calls wait to be
/// sent, and the oldest sequence in held_ is a blocked pop that is at least `window` / 2 sequences
/// old. Then cancels the pop and moves it to the end of the queue.
void Calls::requeue_blocked_pop(std::size_t window) {
  if (held_.empty() || queued_.empty() || queued_.begin()->first.first != kUnnumbered) return;
  const std::uint64_t oldest = *held_.begin();
  if (next_ - oldest < std::max<std::size_t>(window / 2, 1)) return;
  const auto it = by_sequence_.find(oldest);
  if (it == by_sequence_.end()) return;  // the pop is being cancelled already
  Call& call = calls_.at(it->second);
  if (!is_pop(call) || !call.waits) return;
  by_sequence_.erase(it);
  cancels_.emplace(oldest, false);
  call.sequence = 0;
  call.sent_before = false;
  queue(call);
}

std::optional<std::uint64_t> Calls::cancel_next() {
  for (auto& [sequence, on_wire] : cancels_) {
    if (!std::exchange(on_wire, true)) return sequence;
  }
  return std::nullopt;
}

bool Calls::cancelled(std::uint64_t sequence) {
  const auto it = cancels_.find(sequence);
  if (it == cancels_.end() || !it->second) return false;
  cancels_.erase(it);
  held_.erase(sequence);
  return true;
}

void Calls::connection_lost() {
  // The daemon ends all waits of a connection that is lost, so a wait needs no Cancel any more. A
  // pop still needs its Cancel, because the daemon may have delivered an item to the pop.
  std::erase_if(cancels_, [&](const auto& cancel) { return !held_.contains(cancel.first); });
  for (auto& [sequence, on_wire] : cancels_) on_wire = false;
  for (const auto& [sequence, id] : by_sequence_) {
    Call& call = calls_.at(id);
    if (!call.on_wire) continue;
    call.sent_before = true;
    queue(call);
  }
}

std::vector<Call> Calls::session_lost() {
  std::vector<Call> unknown;
  for (const auto& [sequence, id] : std::exchange(by_sequence_, {})) {
    Call& call = calls_.at(id);
    if (info_of(call.request).dedup == Dedup::reply) {
      unknown.push_back(take(id));  // it may have been applied
    } else {
      call.sequence = 0;
      call.sent_before = true;
    }
  }
  held_.clear();
  cancels_.clear();
  queued_.clear();
  for (auto& [id, call] : calls_) queue(call);
  return unknown;
}

Call Calls::take(std::uint64_t id) {
  auto node = calls_.extract(id);
  C10DD_ASSERT(!node.empty());
  Call call = std::move(node.mapped());
  deadlines_.erase({call.deadline, id});
  if (!call.on_wire) queued_.erase(call.place);
  by_sequence_.erase(call.sequence);
  held_.erase(call.sequence);
  return call;
}

Call Calls::abandon(std::uint64_t id) {
  Call call = take(id);
  const bool pop = is_pop(call) && call.sequence != 0;
  // The Cancel returns the item of the pop to the queue. So the daemon must remember the pop until
  // the reply to the Cancel has arrived.
  if (pop) held_.insert(call.sequence);
  if (pop || (call.waits && call.on_wire)) cancels_.emplace(call.sequence, false);
  return call;
}

std::vector<Call> Calls::abandon_expired(TimePoint now) {
  std::vector<Call> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(abandon(deadlines_.begin()->second));
  }
  return expired;
}

std::vector<Call> Calls::abandon_all() {
  std::vector<Call> all;
  while (!calls_.empty()) all.push_back(abandon(calls_.begin()->first));
  return all;
}

std::string Calls::audit() const {
  std::size_t queued = 0;
  std::size_t sent = 0;
  for (const auto& [id, pending] : calls_) {
    const Call& call = pending;
    const auto wrong = [&call](const char* what) {
      return format("call {} ({}, sequence {}) {}", call.id, info_of(call.request).name,
                    call.sequence, what);
    };
    if (!deadlines_.contains({call.deadline, id})) return wrong("has no deadline");
    queued += call.on_wire ? 0 : 1;
    sent += call.sequence != 0 ? 1 : 0;
    const auto place = queued_.find(call.place);
    if (!call.on_wire && (place == queued_.end() || place->second != id)) {
      return wrong("is not in the queue");
    }
    if (call.sequence == 0) {
      if (call.on_wire) return wrong("was sent without a sequence");
      continue;
    }
    const auto known = by_sequence_.find(call.sequence);
    if (known == by_sequence_.end() || known->second != id) {
      return wrong("has the sequence of another call");
    }
    if (is_held(call.request) != held_.contains(call.sequence)) return wrong("is held wrongly");
    if (call.sequence >= next_) return wrong("has a sequence that was not assigned yet");
  }
  if (deadlines_.size() != calls_.size()) return "deadlines without calls";
  if (queued_.size() != queued) return "places in the queue without calls";
  if (by_sequence_.size() != sent) return "sequences without calls";
  for (const std::uint64_t sequence : held_) {
    if (!by_sequence_.contains(sequence) && !cancels_.contains(sequence)) {
      return format("sequence {} is held, but no call or Cancel has it", sequence);
    }
  }
  return {};
}

std::optional<TimePoint> Calls::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace c10dd::client
