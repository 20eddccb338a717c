// SPDX-License-Identifier: Apache-2.0
#include "collectives/group_threads.h"

#include "client/internal/waiting_thread.h"

namespace c10dd::collectives {

void GroupThreads::note() noexcept {
  const std::uint64_t thread = client::name_of_this_thread();
  if (thread != 0 && newest_.load(std::memory_order_relaxed) == thread) return;
  add(thread);
  newest_.store(thread, std::memory_order_relaxed);
}

void GroupThreads::add(std::uint64_t thread) noexcept {
  std::atomic<std::uint64_t>* free = nullptr;
  for (std::atomic<std::uint64_t>& place : threads_) {
    const std::uint64_t other = place.load(std::memory_order_relaxed);
    if (thread != 0 && other == thread) return;
    if (free == nullptr && (other == 0 || !client::waits_of(other))) free = &place;
  }
  if (thread == 0 || free == nullptr) {
    others_.store(true, std::memory_order_relaxed);
  } else {
    free->store(thread, std::memory_order_relaxed);
  }
}

std::optional<std::uint64_t> GroupThreads::all_wait() const noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3u;  // FNV-1a, by number
  if (others_.load(std::memory_order_relaxed)) return std::nullopt;
  std::uint64_t in = 0;
  for (const std::atomic<std::uint64_t>& place : threads_) {
    const std::uint64_t thread = place.load(std::memory_order_relaxed);
    if (thread == 0) continue;
    const std::optional<std::uint64_t> waits = client::waits_of(thread);
    if (!waits) continue;  // it has ended
    if (*waits % 2 == 0) return std::nullopt;
    in = ((in ^ thread) * kPrime ^ *waits) * kPrime;
  }
  return in == 0 ? std::nullopt : std::optional(in);
}

}  // namespace c10dd::collectives
