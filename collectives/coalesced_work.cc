// SPDX-License-Identifier: Apache-2.0
#include "collectives/coalesced_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <utility>

#include "client/errors.h"

namespace c10dd::collectives {
namespace {

/// Calls f for each part, also after an exception. Then throws the first exception.
template <class F>
void each(const std::vector<WorkPtr>& parts, F f) {
  std::exception_ptr first;
  for (const WorkPtr& part : parts) {
    try {
      f(*part);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

/// Returns the first part that has failed or was abandoned; otherwise any.
const Work& CoalescedWork::decisive() const {
  for (const WorkPtr& part : parts_) {
    const Status status = part->status();
    if (status == Status::failed || status == Status::abandoned) return *part;
  }
  return *parts_.front();
}

Work::Status CoalescedWork::status() const {
  const auto pending = [](const WorkPtr& part) { return part->status() == Status::pending; };
  return std::ranges::any_of(parts_, pending) ? Status::pending : decisive().status();
}

bool CoalescedWork::test() {
  bool ended = true;
  for (const WorkPtr& part : parts_) ended = part->test() && ended;
  return ended;
}

void CoalescedWork::wait() {
  each(parts_, [](Work& part) { part.wait(); });
}

void CoalescedWork::wait(void* stream) {
  each(parts_, [&](Work& part) { part.wait(stream); });
}

void CoalescedWork::wait_on_host() {
  each(parts_, [](Work& part) { part.wait_on_host(); });
}

void CoalescedWork::wait(Duration timeout) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + timeout;
  each(parts_,
       [&](Work& part) { part.wait(std::max<Duration>(until - Clock::now(), Duration{0})); });
}

void CoalescedWork::on_end(std::function<void(Work&)> callback) {
  if (!callback) throw InvalidArgument("on_end: the callback is empty");
  const auto left = std::make_shared<std::atomic<std::size_t>>(parts_.size());
  for (const WorkPtr& part : parts_) {
    part->on_end([self = shared_from_this(), left, callback](Work&) {
      if (--*left == 0) callback(*self);
    });
  }
}

Duration CoalescedWork::duration() const {
  Duration longest{0};
  for (const WorkPtr& part : parts_) longest = std::max(longest, part->duration());
  return longest;
}

}  // namespace c10dd::collectives
