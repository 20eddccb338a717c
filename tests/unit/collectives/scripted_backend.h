// SPDX-License-Identifier: Apache-2.0
// A backend that the test plays: it remembers what was started, and ends each operation when the
// test says so, in any order, well or badly.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/backend.h"

namespace c10dd::test {

/// What a ScriptedBackend was asked for, and what it does. Outlives the backend. Thread-safe.
class BackendScript {
 public:
  struct Started {
    Operation operation;
    collectives::Completion* completion;  // null: it has ended
  };

  collectives::Traits traits = {.in_flight = 1024};
  std::atomic<bool> cannot_start = false;  ///< start() throws
  std::atomic<bool> lives_on = false;      ///< an abort ends nothing
  std::atomic<int> progress_calls = 0;
  std::function<void()> on_progress;
  /// Returns whether the operation ends at once.
  std::function<bool(const Operation&)> answers = [](const Operation&) { return false; };
  std::string name = "scripted";

  /// Waits until so many operations were started.
  bool await_started(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [&] { return started_.size() >= count; });
  }
  std::size_t started() const {
    const std::lock_guard lock(mutex_);
    return started_.size();
  }
  Operation operation(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return started_.at(index).operation;
  }
  collectives::Completion& completion(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return *started_.at(index).completion;
  }
  std::vector<std::string> aborts() const {
    const std::lock_guard lock(mutex_);
    return aborts_;
  }
  /// Ends an operation. It lets go of its tensors first.
  void end(std::size_t index, Result<void> result = {}) { take(index).complete(std::move(result)); }
  void end_message(std::size_t index, Result<Received> result) {
    take(index).complete_message(std::move(result));
  }

 private:
  friend class ScriptedBackend;

  collectives::Completion& take(std::size_t index) {
    const std::lock_guard lock(mutex_);
    started_.at(index).operation = {};
    return *std::exchange(started_.at(index).completion, nullptr);
  }
  void start(const Operation& operation, collectives::Completion& completion) {
    if (cannot_start) throw std::runtime_error("no thread");
    const bool ends = answers(operation);
    {
      const std::lock_guard lock(mutex_);
      started_.push_back({operation, ends ? nullptr : &completion});
      changed_.notify_all();
    }
    if (ends) completion.complete({});
  }
  void abort(const std::string& reason) {
    std::vector<std::pair<collectives::Completion*, bool>> ending;
    {
      const std::lock_guard lock(mutex_);
      aborts_.push_back(reason);
      for (Started& one : started_) {
        if (lives_on || one.completion == nullptr) continue;
        ending.emplace_back(std::exchange(one.completion, nullptr),
                            info_of(one.operation.collective).message);
      }
    }
    const Failure why = failure(Code::aborted, reason);
    for (const auto& [completion, message] : ending) {
      message ? completion->complete_message(why) : completion->complete(why);
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Started> started_;
  std::vector<std::string> aborts_;
};

class ScriptedBackend final : public collectives::Backend {
 public:
  explicit ScriptedBackend(BackendScript& script) : script_(script) {}

  collectives::Traits traits() const override { return script_.traits; }
  bool supports(Collective collective, DType, ReduceOp, Device) const override {
    return collective != Collective::scatter || script_.name != "lacks scatter";
  }
  std::string refuses(const Operation&) const override {
    return script_.name == "takes messages" ? "" : script_.name + " refuses";
  }
  bool starts_at_once(const Operation&) const override { return script_.name == "at once"; }
  void start(const Operation& operation, collectives::Completion& completion) override {
    script_.start(operation, completion);
  }
  void progress() override {
    ++script_.progress_calls;
    if (script_.on_progress) script_.on_progress();
  }
  void abort(const std::string& reason) override { script_.abort(reason); }
  std::string describe() const override { return script_.name; }

 private:
  BackendScript& script_;
};

}  // namespace c10dd::test
