// SPDX-License-Identifier: Apache-2.0
// A small process that lives a moment longer than the launcher. When the launcher is killed, the
// kernel kills the workers, but not their children. The orphan killer notices the launcher's end,
// kills the process groups that it watches, and removes the launcher's temporary folder.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/internal/socket.h"

namespace c10dd::run {

class OrphanKiller {
 public:
  /// Forks, so it must be called before any thread is started. When the orphan killer ends, it
  /// removes `folder`, unless `folder` is empty.
  explicit OrphanKiller(const std::string& folder);
  /// Ends the orphan killer and waits for its end.
  ~OrphanKiller();
  OrphanKiller(const OrphanKiller&) = delete;
  OrphanKiller& operator=(const OrphanKiller&) = delete;

  void watch(pid_t group);
  /// Tells the orphan killer to watch a process group no longer. Must be called before the child is
  /// reaped. After the child was reaped, a new process group can get the same number.
  void forget(pid_t group);

 private:
  void send(pid_t group);

  pid_t pid_ = -1;
  client::Descriptor pipe_;
};

}  // namespace c10dd::run
