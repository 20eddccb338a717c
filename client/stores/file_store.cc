// SPDX-License-Identifier: Apache-2.0
// A store whose state is a log in a file; each process applies the log to its own copy in memory. A
// wait polls the length of the file, with pauses that grow to kLongestPause.
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/errors.h"
#include "client/internal/throw_failure.h"
#include "client/stores/file_log.h"
#include "client/stores/local_store.h"
#include "protocol/limits.h"

namespace c10dd {
namespace {

using client::FileLog;
using Clock = std::chrono::steady_clock;

constexpr Duration kFirstPause = std::chrono::microseconds(200);
constexpr Duration kLongestPause = std::chrono::milliseconds(10);
constexpr Duration kOpenPatience = std::chrono::seconds(30);
// How long a call may wait for the lock of the file after its time-out has passed. Also the time
// that leave() waits for the lock.
constexpr Duration kGrace = std::chrono::seconds(1);

/// Returns the value of a result, or throws its failure.
template <class T>
T checked(Result<T> result) {
  if (!result) client::throw_failure(result.error());
  return std::move(*result);
}
void checked(const Result<void>& result) {
  if (!result) client::throw_failure(result.error());
}

/// A lock with a deadline, for the threads of this process. Not a std::timed_mutex, because the
/// thread sanitizer of GCC 12 does not support that class.
class TurnOfThreads {
 public:
  /// Blocks until the lock is free. If it is not free at the time `until`, throws TimedOut.
  TurnOfThreads(std::mutex& mutex, std::condition_variable& free, bool& taken,
                Clock::time_point until)
      : mutex_(mutex), free_(free), taken_(taken) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_until(lock, until, [&] { return !taken_; })) {
      client::throw_failure(failure(Code::timed_out,
                                    "file store: another thread of this process still waits for "
                                    "the lock of the file, which another process may hold; check "
                                    "the processes that have the file open"));
    }
    taken_ = true;
  }
  ~TurnOfThreads() {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    free_.notify_one();
  }
  TurnOfThreads(const TurnOfThreads&) = delete;

 private:
  std::mutex& mutex_;
  std::condition_variable& free_;
  bool& taken_;
};

class FileStore final : public client::LocalStore {
 public:
  FileStore(FileLog log, std::uint32_t world_size)
      : log_(std::move(log)), world_size_(world_size), owner_(getpid()) {}

  ~FileStore() override {
    // A forked child must not call leave(), because world_size_ does not count the child's copy of
    // this store.
    if (world_size_ == 0 || getpid() != owner_) return;
    try {
      leave();
    } catch (const Error&) {  // if leave() fails, the file stays
    }
  }

 private:
  /// Runs `attempt` on the state, and again after each change of the state, until `attempt` returns
  /// true or the time-out has passed.
  bool run(Access access, Timeout timeout, const Attempt& attempt) override {
    const Clock::time_point now = Clock::now();
    const Timeout bounded = std::clamp<Timeout>(timeout, Timeout::zero(), limits::kTimeoutMax);
    const Clock::time_point end = now + bounded;
    // The time until which run() waits for the lock of the file.
    const Clock::time_point patience =
        bounded > Timeout::zero() ? end + kGrace
                                  : now + std::min<Timeout>(default_timeout(), limits::kTimeoutMax);
    std::uint64_t tried = 0;
    for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      {
        const TurnOfThreads turn(mutex_, free_, taken_, patience);
        // Skips the attempt if no process has changed the store since the last attempt.
        if ((tried != version_ || log_.changed()) && try_once(access, patience, attempt)) {
          return true;
        }
        tried = version_;
      }
      const Clock::time_point later = Clock::now();
      if (later >= end) return false;
      std::this_thread::sleep_for(std::min<Duration>(pause, end - later));
    }
  }

  /// Locks the file, runs `attempt` on the newest state, and stores the changes that `attempt`
  /// lists. Returns the result of `attempt`.
  bool try_once(Access access, Clock::time_point patience, const Attempt& attempt) {
    const auto lock = access == Access::look ? FileLog::Lock::shared : FileLog::Lock::exclusive;
    const FileLog::Turn turn = checked(log_.turn(lock, patience));
    if (checked(log_.read(turn, state_))) ++version_;
    Changes changes;
    if (!attempt(state_, changes)) return false;
    if (changes.empty()) return true;
    checked(log_.append(turn, changes));
    // read() will not apply these changes: append() has moved the log's position past their record.
    for (const client::LocalChange& change : changes) state_.apply(change);
    ++version_;
    log_.compact(turn, state_);
    return true;
  }

  /// Removes the file if this is the last of world_size_ stores. Otherwise records the closing.
  void leave() {
    const FileLog::Turn turn = checked(log_.turn(FileLog::Lock::exclusive, Clock::now() + kGrace));
    checked(log_.read(turn, state_));
    if (state_.leaves() + 1 >= world_size_) return log_.remove();
    checked(log_.append(turn, {{client::LocalChange::Kind::leave, {}, {}}}));
  }

  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;  // true while a thread uses log_, state_ and version_
  FileLog log_;
  client::LocalState state_;
  std::uint64_t version_ = 1;  // incremented at each change of state_; never 0
  const std::uint32_t world_size_;
  const pid_t owner_;
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, std::uint32_t world_size) {
  if (path.empty()) {
    client::throw_failure(failure(Code::invalid_argument, "file store: the path is empty"));
  }
  return std::make_shared<FileStore>(checked(FileLog::open(path, Clock::now() + kOpenPatience)),
                                     world_size);
}

}  // namespace c10dd
