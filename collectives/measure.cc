// SPDX-License-Identifier: Apache-2.0
// Gives the recorder one sample for each finished collective.
#include "collectives/measure.h"

#include <utility>

namespace c10dd {
namespace {

class MeasureHook final : public Hook {
 public:
  MeasureHook(std::shared_ptr<CollectiveRecorder> recorder, std::string group_kind,
              std::string backend, Rank size)
      : recorder_(std::move(recorder)),
        group_kind_(std::move(group_kind)),
        backend_(std::move(backend)),
        size_(size) {}

  void before(const CollectiveCall&) noexcept override {}

  void after(const CollectiveCall& call) noexcept override {
    recorder_->record({.process_group = group_kind_,
                       .collective = name_of(call.collective),
                       .backend = backend_,
                       .duration = call.finished - call.started,
                       .payload_bytes = call.bytes,
                       .bus_bytes = bus_bytes(call.collective, call.bytes, size_),
                       .succeeded = call.outcome == Code::ok});
  }

 private:
  const std::shared_ptr<CollectiveRecorder> recorder_;
  const std::string group_kind_;
  const std::string backend_;
  const Rank size_;
};

}  // namespace

std::uint64_t bus_bytes(Collective collective, std::uint64_t payload_bytes, Rank size) {
  const double factor = info_of(collective).bus_factor(size);
  return static_cast<std::uint64_t>(static_cast<double>(payload_bytes) * factor + 0.5);
}

std::shared_ptr<Hook> measure_into(std::shared_ptr<CollectiveRecorder> recorder,
                                   std::string group_kind, std::string backend, Rank size) {
  return std::make_shared<MeasureHook>(std::move(recorder), std::move(group_kind),
                                       std::move(backend), size);
}

}  // namespace c10dd
