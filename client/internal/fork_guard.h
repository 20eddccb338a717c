// SPDX-License-Identifier: Apache-2.0
// Objects with threads and locks belong to the process that made them. In a process that was forked
// from it they do not work and cannot be destroyed: their threads do not exist there, and their
// locks may be held for ever. So their calls throw Forked there, and their destructors are not run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace c10dd::client {

/// The process that made this object; copies name the same process. Thread-safe.
class HomeProcess {
 public:
  HomeProcess();

  /// Returns whether the present process was forked from that one. Makes no system call.
  bool forked() const;

  /// Throws Forked in a forked process. The text has `what` ("client") and `remedy` ("connect
  /// again").
  void require(const char* what, const char* remedy) const;

 private:
  std::uint64_t forks_;
  pid_t pid_;
};

/// Returns an owner of the object that destroys it only in the present process; in a forked process
/// the object is not touched.
template <class T>
std::shared_ptr<T> owned_by_this_process(T* object) {
  return std::shared_ptr<T>(object, [home = HomeProcess()](T* owned) {
    if (!home.forked()) delete owned;
  });
}

}  // namespace c10dd::client
