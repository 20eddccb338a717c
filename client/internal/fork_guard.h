// SPDX-License-Identifier: Apache-2.0
// An object with threads and locks belongs to the process that made it. In a child that was forked
// from that process, the threads do not exist and the locks may be held for ever, so the object
// does not work and cannot be destroyed. There the calls of the object throw Forked, and the
// destructor does not run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace c10dd::client {

/// Remembers the process that made this object. Copies remember the same process. Thread-safe.
class HomeProcess {
 public:
  HomeProcess();

  /// Returns whether the present process was forked from the remembered one. Makes no system call.
  bool forked() const;

  /// Throws Forked in a forked process. The error text contains `what`, for example "client", and
  /// `remedy`, for example "connect again".
  void require(const char* what, const char* remedy) const;

 private:
  std::uint64_t forks_;
  pid_t pid_;
};

/// Returns an owner of the object. The owner destroys the object in the present process only; in a
/// forked process it does not touch the object.
template <class T>
std::shared_ptr<T> owned_by_this_process(T* object) {
  return std::shared_ptr<T>(object, [home = HomeProcess()](T* owned) {
    if (!home.forked()) delete owned;
  });
}

}  // namespace c10dd::client
