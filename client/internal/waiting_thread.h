// SPDX-License-Identifier: Apache-2.0
// Names threads of this process, and tells other threads whether a named one waits for other ranks:
// in a barrier, an exchange or a join, or for the end of an operation of a process group. A wait
// for a key does not count, because many programs wait for one with a limit, again and again.
// Thread-safe. A forked child starts anew.
#pragma once

#include <cstdint>
#include <optional>

namespace c10dd::client {

/// While the object exists, its thread waits for other ranks. Several objects of one thread count
/// once. Destroyed by the thread that has made it.
class WaitingThread {
 public:
  WaitingThread() noexcept;
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;
  ~WaitingThread();
};

/// How many living threads have a name at most.
inline constexpr std::size_t kNamedThreads = 1024;

/// Returns the name of this thread, which no other thread of the process has or gets. Returns 0 if
/// kNamedThreads others have one.
std::uint64_t name_of_this_thread() noexcept;

/// Returns how often a thread has begun or ended a wait, so it waits while the number is odd, and
/// is in the same wait while the number stays. Returns nothing if the thread has ended.
std::optional<std::uint64_t> waits_of(std::uint64_t thread) noexcept;

}  // namespace c10dd::client
