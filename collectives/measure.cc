// SPDX-License-Identifier: Apache-2.0
// Counts each collective, in a series for each kind of collective.
#include "collectives/measure.h"

#include <array>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>
#include <utility>

#include "collectives/backend_names.h"

namespace c10dd {
namespace {

class MeasureHook final : public Hook {
 public:
  MeasureHook(std::shared_ptr<CollectiveRecorder> recorder, std::string backend)
      : recorder_(std::move(recorder)), backend_(std::move(backend)) {}

  void opened(const World& world) noexcept override {
    group_kind_ = world.kind;
    size_ = world.size;
  }

  void enqueued(const CollectiveCall& call) noexcept override {
    series_of(call.operation).add_in_flight(1);
  }

  void finished(const CollectiveCall& call) noexcept override {
    const Operation& operation = call.operation;
    CollectiveSeries& series = series_of(operation);
    series.add_in_flight(-1);
    if (call.started == CollectiveCall::Clock::time_point{}) return;  // abandoned
    const std::size_t bytes = operation.payload(size_);
    series.record(call.finished - call.started, call.started - call.enqueued, bytes,
                  bus_bytes(operation.collective, bytes, size_), call.outcome == Code::ok);
  }

 private:
  CollectiveSeries& series_of(const Operation& operation) {
    const Device::Kind kind = operation.common().device.kind;
    const auto index =
        static_cast<std::size_t>(operation.collective) + (kind == Device::Kind::cpu ? 0 : kKinds);
    if (CollectiveSeries* known = known_[index].load(std::memory_order_acquire)) return *known;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<CollectiveSeries>& series = series_[index];
    if (!series) {
      series = recorder_->series(group_kind_, name_of(operation.collective),
                                 collectives::name_for(backend_, kind));
    }
    known_[index].store(series.get(), std::memory_order_release);
    return *series;
  }

  static constexpr std::size_t kKinds = std::size(kOperations);

  const std::shared_ptr<CollectiveRecorder> recorder_;
  const std::string backend_;
  std::string group_kind_;  // set by opened()
  Rank size_ = 1;           // set by opened()
  std::mutex mutex_;
  // For tensors in memory of the cpu, then for others. Null until it is needed.
  std::array<std::shared_ptr<CollectiveSeries>, 2 * kKinds> series_;
  std::array<std::atomic<CollectiveSeries*>, 2 * kKinds> known_{};  // the same, without the lock
};

}  // namespace

std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size) {
  const double factor = info_of(collective).bus_factor(size);
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(payload_bytes) * factor));
}

std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string backend) {
  return std::make_shared<MeasureHook>(std::move(recorder), std::move(backend));
}

}  // namespace c10dd
