// SPDX-License-Identifier: Apache-2.0
// The inside of a watch: where it stands, and a way to call it back.
#pragma once

#include <atomic>
#include <memory>

#include "client/internal/connection.h"
#include "client/job_store.h"

namespace c10dd {

class KeyWatch::State {
 public:
  /// from 0 asks the daemon for the present revision; throws when that fails.
  State(std::shared_ptr<client::Connection> connection, Duration limit, Watch watch);

  WatchBatch next(Timeout timeout);
  void cancel();
  std::uint64_t from() const { return from_; }

 private:
  Changes ask(Timeout timeout);

  const std::shared_ptr<client::Connection> connection_;
  const Duration limit_;
  const Watch watch_;
  std::atomic<std::uint64_t> from_;
  std::uint32_t skip_ = 0;
  client::Recall recall_;
};

}  // namespace c10dd
