// SPDX-License-Identifier: Apache-2.0
// A Completion that a test waits for, and that counts how often it was called.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "collectives/backend.h"

namespace c10dd::test {

/// The end of one operation. A second end fails the test. Thread-safe.
class SeenCompletion final : public collectives::Completion {
 public:
  void complete(Result<void> result) noexcept override {
    end(result ? failure(Code::ok, "") : result.error(), false);
  }
  void complete_message(Result<Received> result) noexcept override {
    if (result) received_ = *result;
    end(result ? failure(Code::ok, "") : result.error(), true);
  }
  void enqueued(std::shared_ptr<collectives::DeviceEnd> end) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "it was enqueued after its end";
    device_end = std::move(end);
    changed_.notify_all();
  }

  void begun() noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(begun_) << "it has begun twice";
    EXPECT_FALSE(ended_) << "it has begun after its end";
    begun_ = true;
  }

  bool has_begun() const {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return ended_.has_value();
  }
  /// These wait for the end.
  Code code() { return end().code; }
  std::string text() { return end().detail; }
  Failure end() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return ended_.has_value(); })) {
      ADD_FAILURE() << "the operation has not ended";
      return failure(Code::internal, "not ended");
    }
    return *ended_;
  }
  Received received() {
    EXPECT_EQ(code(), Code::ok);
    return received_;
  }
  bool was_message() {
    end();
    return message_;
  }

  std::shared_ptr<collectives::DeviceEnd> device_end;  ///< read it only after the end

 private:
  void end(Failure how, bool message) {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "it has ended twice: " << how.detail;
    ended_ = std::move(how);
    message_ = message;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> ended_;
  bool begun_ = false;
  bool message_ = false;
  Received received_;
};

}  // namespace c10dd::test
