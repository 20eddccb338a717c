// SPDX-License-Identifier: Apache-2.0
// Detects a fork by a counter. Comparing process ids would cost a system call, and ids are reused.
#include "client/internal/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "client/errors.h"
#include "protocol/error.h"
#include "protocol/format.h"

namespace c10dd::client {
namespace {

std::atomic<std::uint64_t> forks{0};

/// Returns a counter. Each fork after the first call of this function adds 1 to it in the child.
std::uint64_t watched_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  C10DD_ASSERT(registered == 0);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace

HomeProcess::HomeProcess() : forks_(watched_forks()), pid_(getpid()) {}

bool HomeProcess::forked() const { return forks.load(std::memory_order_relaxed) != forks_; }

void HomeProcess::require(const char* what, const char* remedy) const {
  if (!forked()) return;
  throw Forked(
      format("this {} belongs to process {}, from which this one was forked; {} after fork", what,
             pid_, remedy));
}

}  // namespace c10dd::client
