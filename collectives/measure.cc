// SPDX-License-Identifier: Apache-2.0
// Gives the recorder one sample for each finished collective.
#include "collectives/measure.h"

#include <utility>

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

  void finished(const CollectiveCall& call) noexcept override {
    if (call.started == CollectiveCall::Clock::time_point{}) return;  // abandoned
    const Operation& operation = call.operation;
    const std::size_t bytes = operation.payload(size_);
    recorder_->record({.process_group = group_kind_,
                       .collective = name_of(operation.collective),
                       .backend = backend_,
                       .duration = call.finished - call.started,
                       .payload_bytes = bytes,
                       .bus_bytes = bus_bytes(operation.collective, bytes, size_),
                       .succeeded = call.outcome == Code::ok});
  }

 private:
  const std::shared_ptr<CollectiveRecorder> recorder_;
  const std::string backend_;
  std::string group_kind_;  // set by opened()
  Rank size_ = 1;           // set by opened()
};

}  // namespace

std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size) {
  const double factor = info_of(collective).bus_factor(size);
  return static_cast<std::uint64_t>(static_cast<double>(payload_bytes) * factor + 0.5);
}

std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string backend) {
  return std::make_shared<MeasureHook>(std::move(recorder), std::move(backend));
}

}  // namespace c10dd
