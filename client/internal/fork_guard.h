// SPDX-License-Identifier: Apache-2.0
// Protects an object that has threads and locks from use in a forked child process. The threads do
// not exist in the child, and the locks may be held for ever. So the object does not work in the
// child and cannot be destroyed there. In the child the calls of the object throw Forked, and its
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

/// Returns a shared pointer that owns the object. The last copy deletes the object. In a forked
/// child of the present process, the last copy leaks the object instead.
template <class T>
std::shared_ptr<T> owned_by_this_process(T* object) {
  return std::shared_ptr<T>(object, [home = HomeProcess()](T* owned) {
    if (!home.forked()) delete owned;
  });
}

}  // namespace c10dd::client
