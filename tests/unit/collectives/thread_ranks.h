// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one test: an in-process Bootstrap and a way to run one function per rank.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/errors.h"
#include "collectives/process_group.h"

#ifdef __SANITIZE_THREAD__
// Debian's libgloo is not instrumented: the sanitizer sees its mutexes but not its atomics, such as
// the atomic with which a buffer's destructor waits for the event loop.
extern "C" [[gnu::used, gnu::visibility("default")]] inline const char*
__tsan_default_suppressions() {
  return "race:libgloo.so\nrace:c10dd::collectives::StoppableBuffer::~StoppableBuffer\n";
}
// With a short history, the sanitizer loses the stack frames of libgloo, and cannot match them.
extern "C" [[gnu::used, gnu::visibility("default")]] inline const char* __tsan_default_options() {
  return "history_size=7";
}
#endif

namespace c10dd::test {

using Groups = std::vector<std::shared_ptr<ProcessGroup>>;

inline constexpr CallOptions kAsync{.async = true};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Returns the text of the error that `call` throws.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// The backends that this build has and that run on a cpu, for parameterised suites.
inline std::vector<std::string> backends() {
#if C10DD_WITH_GLOO
  return {"loopback", "gloo"};
#else
  return {"loopback"};
#endif
}

/// Lets the ranks of one test exchange parts, in any number of rounds, one round at a time.
class ThreadExchange {
 public:
  explicit ThreadExchange(Rank size) : parts_(size) {}

  std::vector<std::string> transpose(Rank rank, std::vector<std::string> parts, Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return parts_[rank].empty(); });
    parts_[rank] = std::move(parts);
    ++arrived_;
    changed_.notify_all();
    if (!changed_.wait_for(lock, timeout, [&] { return arrived_ >= parts_.size(); })) {
      throw TimedOut("not all ranks came", {});
    }
    std::vector<std::string> mine;
    for (const auto& from : parts_) mine.push_back(from[rank]);
    if (++left_ == parts_.size()) {
      for (auto& one : parts_) one.clear();
      arrived_ = left_ = 0;
      changed_.notify_all();
    }
    return mine;
  }

  Rank size() const { return static_cast<Rank>(parts_.size()); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::string>> parts_;
  std::size_t arrived_ = 0;
  std::size_t left_ = 0;
};

class ThreadBootstrap final : public Bootstrap {
 public:
  ThreadBootstrap(std::shared_ptr<ThreadExchange> point, Rank rank)
      : point_(std::move(point)), rank_(rank) {}

  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    return point_->transpose(rank_, std::move(parts), timeout);
  }
  std::string local_address() const override { return "127.0.0.1"; }

 private:
  std::shared_ptr<ThreadExchange> point_;
  Rank rank_;
};

/// Runs `body(rank)` on one thread per rank; rethrows the first exception when all have ended.
inline void run_ranks(Rank size, const std::function<void(Rank)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

/// One group per rank, by rank.
inline std::vector<std::shared_ptr<ProcessGroup>> open_groups(
    Rank size, const GroupOptions& options,
    const std::function<void(Rank, GroupOptions&)>& adjust = {}) {
  const auto point = std::make_shared<ThreadExchange>(size);
  std::vector<std::shared_ptr<ProcessGroup>> groups(size);
  run_ranks(size, [&](Rank rank) {
    GroupOptions own = options;
    if (adjust) adjust(rank, own);
    groups[rank] = ProcessGroup::open(std::make_shared<ThreadBootstrap>(point, rank),
                                      World{.rank = rank, .size = size}, own);
  });
  return groups;
}

}  // namespace c10dd::test
