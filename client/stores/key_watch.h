// SPDX-License-Identifier: Apache-2.0
// The implementation of KeyWatch: its position, and a way to cancel it.
#pragma once

#include <atomic>
#include <memory>

#include "client/internal/connection.h"
#include "client/job_store.h"

namespace c10dd {

class KeyWatch::State {
 public:
  /// If watch.from is 0, asks the daemon for the present revision. Waits up to `limit` for the
  /// reply. Throws c10dd::Error if the daemon does not reply.
  State(std::shared_ptr<client::Connection> connection, Duration limit, Watch watch);

  /// Implements KeyWatch::next(). Must not be called by two threads at once. cancel() and from()
  /// are thread-safe.
  WatchBatch next(Timeout timeout);
  void cancel();
  std::uint64_t from() const { return from_; }

 private:
  Changes ask(Timeout timeout);

  const std::shared_ptr<client::Connection> connection_;
  const Duration limit_;
  const Watch watch_;
  std::atomic<std::uint64_t> from_;
  std::uint32_t skip_ = 0;  // number of changes of revision `from_` that next() has returned
  client::Recall recall_;
};

}  // namespace c10dd
