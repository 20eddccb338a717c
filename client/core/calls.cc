// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of calls; every index is ordered, so equal inputs give equal frames.
#include "client/core/calls.h"

#include <algorithm>

#include "protocol/limits.h"

namespace c10dd::client {
namespace {

/// The time-out field of a request, or nullptr if its operation has none.
Duration* timeout_of(Request& request) {
  return std::visit(
      [](auto& r) -> Duration* {
        if constexpr (requires { r.timeout; }) return &r.timeout;
        return nullptr;
      },
      request);
}

}  // namespace

const Call& Calls::add(Request request, Duration limit, TimePoint now) {
  const std::uint64_t sequence = next_++;
  Call call;
  call.sequence = sequence;
  call.request = std::move(request);
  call.started = now;
  const Duration* own = timeout_of(call.request);
  call.waits = own != nullptr && *own > Duration::zero();
  call.limit =
      std::clamp<Duration>(call.waits ? *own : limit, Duration::zero(), limits::kTimeoutMax);
  call.due = now + call.limit;
  call.deadline = call.due + (call.waits ? kGrace : Duration::zero());
  deadlines_.emplace(call.deadline, sequence);
  queued_.insert(sequence);
  if (info_of(call.request).dedup == Dedup::reply) writes_.insert(sequence);
  return calls_.emplace(sequence, std::move(call)).first->second;
}

const Call* Calls::find(std::uint64_t sequence) const {
  const auto it = calls_.find(sequence);
  return it == calls_.end() ? nullptr : &it->second;
}

std::uint64_t Calls::acked_below() const { return writes_.empty() ? next_ : *writes_.begin(); }

const Call* Calls::send_next(std::size_t window, TimePoint now) {
  if (queued_.empty() || calls_.size() - queued_.size() >= window) return nullptr;
  const std::uint64_t sequence = *queued_.begin();
  if (sequence >= acked_below() + window) return nullptr;
  queued_.erase(queued_.begin());
  Call& call = calls_.at(sequence);
  call.on_wire = true;
  if (call.waits) {
    // Overdue is still a wait, not a look: a time-out of 0 would be answered with not_found.
    *timeout_of(call.request) = std::max<Duration>(call.due - now, Duration(1));
  }
  return &call;
}

void Calls::connection_lost() {
  for (auto& [sequence, call] : calls_) {
    if (!call.on_wire) continue;
    call.on_wire = false;
    call.sent_before = true;
    queued_.insert(sequence);
  }
}

Call Calls::take(std::uint64_t sequence) {
  auto node = calls_.extract(sequence);
  C10DD_ASSERT(!node.empty());
  Call call = std::move(node.mapped());
  deadlines_.erase({call.deadline, sequence});
  queued_.erase(sequence);
  writes_.erase(sequence);
  return call;
}

std::vector<Call> Calls::take_expired(TimePoint now) {
  std::vector<Call> expired;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    expired.push_back(take(deadlines_.begin()->second));
  }
  return expired;
}

std::vector<Call> Calls::take_all() {
  std::vector<Call> all;
  while (!calls_.empty()) all.push_back(take(calls_.begin()->first));
  return all;
}

std::optional<TimePoint> Calls::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

}  // namespace c10dd::client
