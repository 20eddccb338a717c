// SPDX-License-Identifier: Apache-2.0
// A store in the memory of one process. Every change wakes all waiters, which is cheap enough for
// the threads of one process.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "client/stores/local_store.h"
#include "protocol/limits.h"

namespace c10dd {
namespace {

using Clock = std::chrono::steady_clock;

class HashStore final : public client::LocalStore {
 private:
  bool run(Access access, Timeout timeout, const Attempt& attempt) override {
    const auto end = Clock::now() + std::min<Timeout>(timeout, limits::kTimeoutMax);
    std::unique_lock lock(mutex_);
    Changes changes;
    while (!attempt(state_, changes)) {  // `attempt` adds to `changes` only if it returns true
      if (Clock::now() >= end) return false;
      changed_.wait_until(lock, end);
    }
    if (access == Access::look) return true;
    for (const client::LocalChange& change : changes) state_.apply(change);
    if (!changes.empty()) changed_.notify_all();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  client::LocalState state_;
};

}  // namespace

std::shared_ptr<Store> make_hash_store() { return std::make_shared<HashStore>(); }

}  // namespace c10dd
