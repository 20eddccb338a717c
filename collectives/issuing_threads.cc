// SPDX-License-Identifier: Apache-2.0
// Both numbers are in one word, so that they are read together.
#include "collectives/issuing_threads.h"

#include <atomic>
#include <cstdint>

#include "client/internal/per_process.h"

namespace c10dd::collectives {
namespace {

/// How many threads of this process issue operations (the upper half), and how many of these wait
/// (the lower half).
using ThreadCounts = std::atomic<std::uint64_t>;

constexpr std::uint64_t kWaits = 1;
constexpr std::uint64_t kIssues = std::uint64_t{1} << 32;

ThreadCounts& counts() { return client::of_this_process<ThreadCounts>(); }

/// What is known of one thread, which alone uses it.
class IssuingThread {
 public:
  ~IssuingThread() {
    if (issues()) counted_in_->fetch_sub(kIssues, std::memory_order_relaxed);
  }

  void note_issue() noexcept {
    if (issues()) return;
    counted_in_ = &counts();
    // A callback may issue the thread's first operation while it waits.
    counted_in_->fetch_add(kIssues + (waits_ > 0 ? kWaits : 0), std::memory_order_relaxed);
  }

  void begin_wait() noexcept {
    if (waits_++ == 0 && issues()) counted_in_->fetch_add(kWaits, std::memory_order_relaxed);
  }

  void end_wait() noexcept {
    if (--waits_ == 0 && issues()) counted_in_->fetch_sub(kWaits, std::memory_order_relaxed);
  }

 private:
  /// In a forked child, a thread that has issued operations in the parent has not done so yet.
  bool issues() const { return counted_in_ != nullptr && counted_in_ == &counts(); }

  ThreadCounts* counted_in_ = nullptr;
  unsigned waits_ = 0;
};

thread_local IssuingThread issuing_thread;

}  // namespace

void note_issuing_thread() noexcept { issuing_thread.note_issue(); }

WaitingForEnd::WaitingForEnd() noexcept { issuing_thread.begin_wait(); }

WaitingForEnd::~WaitingForEnd() { issuing_thread.end_wait(); }

bool all_issuing_threads_wait() noexcept {
  const std::uint64_t both = counts().load(std::memory_order_relaxed);
  return both != 0 && both / kIssues == both % kIssues;
}

}  // namespace c10dd::collectives
