// SPDX-License-Identifier: Apache-2.0
// Protects threads that write to sockets from SIGPIPE. A write by Gloo to a dead peer raises this
// signal, which by default ends the process. The program's own handler of SIGPIPE is not changed.
#pragma once

#include <csignal>
#include <ctime>

namespace c10dd::collectives {

/// While the object exists, blocks SIGPIPE in this thread and in threads that this thread starts.
/// Writing to a dead peer is then only an error.
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
    // Consumes a SIGPIPE that was raised while blocked. Otherwise unblocking would deliver it.
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
