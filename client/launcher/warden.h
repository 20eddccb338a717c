// SPDX-License-Identifier: Apache-2.0
// A small process that outlives the launcher by a moment. The kernel kills the workers of a
// launcher that was killed, but not their children: the warden notices the launcher's end and kills
// the process groups that it was told of, and removes its temporary folder.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/internal/socket.h"

namespace c10dd::run {

class Warden {
 public:
  /// Forks: to be made before there are threads. folder: empty for none.
  explicit Warden(const std::string& folder);
  /// Lets it end, and waits for that.
  ~Warden();
  Warden(const Warden&) = delete;
  Warden& operator=(const Warden&) = delete;

  void watch(pid_t group);
  /// To be called before the group's number can be given to somebody else.
  void forget(pid_t group);

 private:
  void tell(pid_t group);

  pid_t pid_ = -1;
  client::Descriptor pipe_;
};

}  // namespace c10dd::run
