// SPDX-License-Identifier: Apache-2.0
// Tells other threads when a proxy is not used any more: clients have connected, and the last one
// has gone. It outlives the proxy, so a thread may wait while another one closes the proxy.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "protocol/types.h"

namespace c10dd::proxy {

class ClientsLeft {
 public:
  /// Notes whether all clients have gone.
  void set(bool all_left);
  /// Makes present and later calls of wait() fail with Code::closed.
  void close();

  /// Blocks up to `limit` until all clients have gone. Throws TimedOut, Error with Code::closed,
  /// and Aborted if the caller of this thread ends the call.
  void wait(Duration limit);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool all_left_ = false;
  bool closed_ = false;
};

}  // namespace c10dd::proxy
