// SPDX-License-Identifier: Apache-2.0
// Says whether this process can still issue operations of process groups: not while all its threads
// that do so wait for the end of one. Thread-safe. A forked child starts anew.
#pragma once

#include "client/internal/waiting_thread.h"

namespace c10dd::collectives {

/// Notes that this thread issues an operation, or opens a group and so will. From then on until its
/// end it is a thread that issues operations.
void note_issuing_thread() noexcept;

/// While the object exists, this thread waits for the end of an operation, without a limit of its
/// own. Several objects of one thread count once. Destroyed by the thread that has made it.
class WaitingForEnd {
 public:
  WaitingForEnd() noexcept;
  WaitingForEnd(const WaitingForEnd&) = delete;
  WaitingForEnd& operator=(const WaitingForEnd&) = delete;
  ~WaitingForEnd();

 private:
  const client::WaitingThread waiting_;
};

/// Returns whether this process has threads that issue operations, and all of them wait for the end
/// of one.
bool all_issuing_threads_wait() noexcept;

}  // namespace c10dd::collectives
