// SPDX-License-Identifier: Apache-2.0
// Objects with threads and locks belong to the process that made them. In one that was forked from
// it they neither work nor can be destroyed: its threads are not there, its locks may be held for
// ever. So calls throw Forked there, and destructors are not run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace c10dd::client {

/// The process in which it was made. Copies are of the same one.
class HomeProcess {
 public:
  HomeProcess();

  /// Whether this is another process, forked from that one. Costs no system call.
  bool forked() const;

  /// Throws Forked elsewhere. `what`: "client"; `remedy`: "connect again".
  void require(const char* what, const char* remedy) const;

 private:
  std::uint64_t forks_;
  pid_t pid_;
};

/// Owns an object where it was made; elsewhere the object is left as it is.
template <class T>
std::shared_ptr<T> owned_by_this_process(T* object) {
  return std::shared_ptr<T>(object, [home = HomeProcess()](T* owned) {
    if (!home.forked()) delete owned;
  });
}

}  // namespace c10dd::client
