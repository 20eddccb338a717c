// SPDX-License-Identifier: Apache-2.0
// Gloo writes to sockets in a way that raises SIGPIPE when the peer is dead, which by default ends
// the process. Here the signal is kept from the threads that write, and from them only: the
// program's own handling of SIGPIPE is not changed.
#pragma once

#include <csignal>
#include <ctime>

namespace c10dd::collectives {

/// For its scope, in this thread and in threads that it starts: writing to a dead peer is only an
/// error.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&only_);
    sigaddset(&only_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }

  ~NoSigpipe() {
    // One that was raised meanwhile would be delivered as soon as it is not blocked any more.
    const timespec now = {};
    if (!was_pending_) sigtimedwait(&only_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace c10dd::collectives
