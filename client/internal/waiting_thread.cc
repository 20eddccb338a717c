// SPDX-License-Identifier: Apache-2.0
// A name is that of a slot and how often slots were taken, so it is not used again.
#include "client/internal/waiting_thread.h"

#include <array>
#include <atomic>

#include "client/internal/per_process.h"

namespace c10dd::client {
namespace {

struct Slot {
  std::atomic<std::uint64_t> thread = 0;  // the name of the thread that has it; 0: free
  std::atomic<std::uint64_t> waits = 0;   // only the thread that has it writes
};

struct Slots {
  std::array<Slot, kNamedThreads> all;
  std::atomic<std::uint64_t> taken = 0;

  Slot& of(std::uint64_t thread) { return all[thread % kNamedThreads]; }
  std::uint64_t take() noexcept {
    for (std::size_t i = 0; i < kNamedThreads; ++i) {
      const std::uint64_t name = taken.fetch_add(1, std::memory_order_relaxed) + kNamedThreads;
      std::uint64_t free = 0;
      if (of(name).thread.compare_exchange_strong(free, name, std::memory_order_acq_rel)) {
        return name;
      }
    }
    return 0;
  }
};

Slots& slots() { return of_this_process<Slots>(); }

/// What is known of one thread, which alone uses it.
class ThisThread {
 public:
  ~ThisThread() {
    if (has_name()) slots_->of(name_).thread.store(0, std::memory_order_release);
  }

  std::uint64_t name() noexcept {
    if (has_name()) return name_;
    slots_ = &slots();
    name_ = slots_->take();
    if (waits_ > 0) count();
    return name_;
  }
  void begin_wait() noexcept {
    if (waits_++ == 0 && has_name()) count();
  }
  void end_wait() noexcept {
    if (--waits_ == 0 && has_name()) count();
  }

 private:
  bool has_name() const { return name_ != 0 && slots_ == &slots(); }
  void count() noexcept {
    if (name_ == 0) return;
    std::atomic<std::uint64_t>& waits = slots_->of(name_).waits;
    waits.store(waits.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  Slots* slots_ = nullptr;
  std::uint64_t name_ = 0;
  unsigned waits_ = 0;
};

thread_local ThisThread this_thread;

}  // namespace

WaitingThread::WaitingThread() noexcept { this_thread.begin_wait(); }

WaitingThread::~WaitingThread() { this_thread.end_wait(); }

std::uint64_t name_of_this_thread() noexcept { return this_thread.name(); }

std::optional<std::uint64_t> waits_of(std::uint64_t thread) noexcept {
  const Slot& slot = slots().of(thread);
  const std::uint64_t waits = slot.waits.load(std::memory_order_relaxed);
  if (slot.thread.load(std::memory_order_acquire) != thread) return std::nullopt;
  return waits;
}

}  // namespace c10dd::client
