// SPDX-License-Identifier: Apache-2.0
// Counts forks; a process id would do, but for ids that are used again, and costs a system call.
#include "client/internal/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "client/errors.h"
#include "protocol/error.h"

namespace c10dd::client {
namespace {

std::atomic<std::uint64_t> forks{0};

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
  throw Forked("this " + std::string(what) + " belongs to process " + std::to_string(pid_) +
               ", from which this one was forked; " + remedy + " after fork");
}

}  // namespace c10dd::client
