// SPDX-License-Identifier: Apache-2.0
// Lets a thread that blocks in a call of the SDK ask its caller, from time to time, whether to go
// on: a program in Python ends a call by Ctrl-C.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "client/internal/boot_time.h"
#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::client {

/// What the calls of a thread obey besides their arguments.
struct Caller {
  /// Called on the thread of the call, every kAskCaller while the call blocks, without a lock of
  /// the SDK. If it returns false, the call fails with Code::aborted. Must not throw. May be empty.
  std::function<bool()> go_on = {};
  /// Replaces the time-out of calls that have none of their own (ClientOptions::timeout).
  std::optional<Duration> limit = {};
};

inline constexpr Duration kAskCaller = std::chrono::milliseconds(100);

/// Sets what the calls of this thread obey until the scope is destroyed. `caller` must outlive it.
class CallerScope {
 public:
  explicit CallerScope(const Caller& caller);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;

 private:
  const Caller* outer_;
};

/// Returns the time-out of a call of this thread that would be `usual` without a CallerScope.
Duration call_limit(Duration usual);

/// Returns how long a call of this thread may block before it asks its caller: `wait`, or less.
Duration until_asked(Duration wait);

/// Returns whether the caller of this thread goes on; true if there is none to ask.
bool caller_goes_on();

/// Returns the failure of a call that its caller has ended.
Failure ended_by_caller();
bool is_ended_by_caller(const Failure& reason);

/// Why wait_until() has returned.
enum class Waited { ready, late, ended_by_caller };

/// Blocks until `ready()`, which `changed` announces, until `end`, or until the caller of this
/// thread does not go on. Calls `ready` under the lock, and the caller without it.
template <class Ready>
Waited wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  TimePoint end, Ready ready) {
  for (TimePoint now = boot_time(); !ready(); now = boot_time()) {
    if (now >= end) return Waited::late;
    if (changed.wait_for(lock, until_asked(end - now), ready)) break;
    lock.unlock();
    const bool goes_on = caller_goes_on();
    lock.lock();
    if (!goes_on) return Waited::ended_by_caller;
  }
  return Waited::ready;
}

}  // namespace c10dd::client
