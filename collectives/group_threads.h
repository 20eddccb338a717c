// SPDX-License-Identifier: Apache-2.0
// GroupThreads: which threads of this process issue the operations of one group, and whether one of
// them may issue the next. Costs an operation no lock and no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace c10dd::collectives {

class GroupThreads {
 public:
  /// The group remembers so many threads that live. If more have issued operations of it, it is not
  /// known whether all wait.
  static constexpr std::size_t kThreads = 16;

  /// Notes that this thread issues an operation. Called by one thread at a time.
  void note() noexcept;

  /// Returns nothing unless all living threads that have issued operations of the group wait
  /// (client/internal/waiting_thread.h), and there are any. Otherwise a number that stays while
  /// each of them is in the same wait. Thread-safe.
  std::optional<std::uint64_t> all_wait() const noexcept;

 private:
  void add(std::uint64_t thread) noexcept;

  std::atomic<std::uint64_t> newest_ = 0;  // the thread that has issued the last operation
  std::array<std::atomic<std::uint64_t>, kThreads> threads_{};
  std::atomic<bool> others_ = false;  // threads that are not in threads_ have issued operations
};

}  // namespace c10dd::collectives
