// SPDX-License-Identifier: Apache-2.0
#include "store/rocks/mark_writer.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace c10dd::store {
namespace {

constexpr std::chrono::milliseconds kPause{200};

}  // namespace

class MarkWriter::Impl {
 public:
  Impl(HighWaterFile file, std::function<void(Mark&)> complete)
      : file_(std::move(file)),
        complete_(std::move(complete)),
        noted_(file_.mark()),
        thread_([this] { work(); }) {}

  ~Impl() { stop(); }

  Result<void> note(const Mark& mark) {
    const std::lock_guard lock(mutex_);
    noted_ = mark;
    if (!std::exchange(changed_, true)) arrived_.notify_one();
    return written_;
  }

  Mark noted() const {
    const std::lock_guard lock(mutex_);
    return noted_;
  }

  Result<void> close(Mark mark) {
    stop();
    if (!written_) return written_;
    complete_(mark);
    return file_.write(mark);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_one();
    stopped_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [this] { return stopping_ || changed_; });
      if (stopping_ || !written_) return;
      changed_ = false;
      Mark mark = noted_;
      lock.unlock();
      complete_(mark);
      Result<void> written = file_.write(mark);
      lock.lock();
      written_ = std::move(written);
      stopped_.wait_for(lock, kPause, [this] { return stopping_; });
    }
  }

  HighWaterFile file_;  // of the thread while it runs
  const std::function<void(Mark&)> complete_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable stopped_;
  Mark noted_;
  bool changed_ = false;
  bool stopping_ = false;
  Result<void> written_;
  std::thread thread_;  // last: it uses all of the above
};

MarkWriter::MarkWriter(HighWaterFile file, std::function<void(Mark&)> complete)
    : impl_(std::make_unique<Impl>(std::move(file), std::move(complete))) {}

MarkWriter::~MarkWriter() = default;

Result<void> MarkWriter::note(const Mark& mark) { return impl_->note(mark); }

Mark MarkWriter::noted() const { return impl_->noted(); }

Result<void> MarkWriter::close(const Mark& mark) { return impl_->close(mark); }

}  // namespace c10dd::store
