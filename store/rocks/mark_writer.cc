// SPDX-License-Identifier: Apache-2.0
#include "store/rocks/mark_writer.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace c10dd::store {

class MarkWriter::Impl {
 public:
  Impl(HighWaterFile file, std::function<void(HighWaterMark&)> complete,
       std::chrono::milliseconds pause)
      : file_(std::move(file)),
        complete_(std::move(complete)),
        pause_(pause),
        noted_(file_.mark()),
        thread_([this] { work(); }) {}

  ~Impl() { stop(); }

  Result<void> note(const HighWaterMark& mark) {
    const std::lock_guard lock(mutex_);
    noted_ = mark;
    if (!std::exchange(changed_, true)) arrived_.notify_one();
    return written_;
  }

  HighWaterMark noted() const {
    const std::lock_guard lock(mutex_);
    return noted_;
  }

  Result<void> close(HighWaterMark mark) {
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
      HighWaterMark mark = noted_;
      lock.unlock();
      complete_(mark);
      Result<void> written = file_.write(mark);
      lock.lock();
      written_ = std::move(written);
      stopped_.wait_for(lock, pause_, [this] { return stopping_; });
    }
  }

  HighWaterFile file_;  // while the thread runs, only the thread uses the file
  const std::function<void(HighWaterMark&)> complete_;
  const std::chrono::milliseconds pause_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable stopped_;
  HighWaterMark noted_;
  bool changed_ = false;
  bool stopping_ = false;
  Result<void> written_;  // result of the last write; no mark is written after a failure
  std::thread thread_;    // last member, because the thread uses the other members
};

MarkWriter::MarkWriter(HighWaterFile file, std::function<void(HighWaterMark&)> complete,
                       std::chrono::milliseconds pause)
    : impl_(std::make_unique<Impl>(std::move(file), std::move(complete), pause)) {}

MarkWriter::~MarkWriter() = default;

Result<void> MarkWriter::note(const HighWaterMark& mark) { return impl_->note(mark); }

HighWaterMark MarkWriter::noted() const { return impl_->noted(); }

Result<void> MarkWriter::close(const HighWaterMark& mark) { return impl_->close(mark); }

}  // namespace c10dd::store
