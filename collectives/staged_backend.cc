// SPDX-License-Identifier: Apache-2.0
#include "collectives/staged_backend.h"

#include <new>
#include <utility>
#include <vector>

#include "collectives/device_copies.h"
#include "collectives/used_tensors.h"

namespace c10dd::collectives {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Returns memory of the host.
std::shared_ptr<std::byte> make_memory(std::size_t bytes) {
  constexpr std::align_val_t kAlign{kAlignment};
  return {static_cast<std::byte*>(::operator new(bytes, kAlign)),
          [](std::byte* memory) { ::operator delete(memory, kAlign); }};
}

/// Returns the copies of the module that knows CUDA, or null if they cannot be used.
const DeviceCopies* find_copies() {
  const auto module = load_backend_module("nccl");
  if (!module || (*module)->device_copies == nullptr) return nullptr;
  const auto copies = (*module)->device_copies();
  return copies ? *copies : nullptr;
}

/// An operation on copies of its tensors. Frees itself at the end.
class Staged final : public Completion {
 public:
  Staged(const DeviceCopies& copies, const Operation& operation, Completion& completion)
      : copies_(copies), operation_(operation), completion_(completion) {}

  /// Replaces the tensors by copies in memory of the host. Waits for their streams.
  Result<void> begin() {
    const bool in_place = info_of(operation_.collective).layout == Layout::in_place;
    const auto [inputs, outputs] = used_tensors(operation_);
    std::size_t bytes = kAlignment;
    for (const Tensor* one : inputs) bytes += aligned(one->bytes());
    for (const Tensor* one : outputs) bytes += aligned(one->bytes());
    const std::shared_ptr<std::byte> memory = make_memory(bytes);
    std::byte* next = memory.get();
    const auto place = [&](Tensor& tensor, bool copied_in) -> Result<void> {
      Tensor copy = tensor;
      copy.device = {};
      copy.data = std::exchange(next, next + aligned(tensor.bytes()));
      copy.owner = memory;
      if (copied_in && tensor.count > 0) {
        if (Result<void> copied = copies_.to_host(copy.data, tensor); !copied) return copied;
      }
      tensor = std::move(copy);
      return {};
    };
    for (Tensor* one : inputs) {
      if (Result<void> placed = place(*one, true); !placed) return placed;
    }
    for (Tensor* one : outputs) {
      const Tensor own = *one;
      if (Result<void> placed = place(*one, in_place); !placed) return placed;
      if (own.count > 0) outputs_.push_back({own, one->data});
    }
    return {};
  }

  const Operation& operation() const { return operation_; }

  void complete(Result<void> result) noexcept override {
    for (const Output& output : outputs_) {
      if (result) result = copy_out(output, output.tensor.bytes());
    }
    Completion& completion = completion_;
    delete this;
    completion.complete(std::move(result));
  }

  void complete_message(Result<Received> result) noexcept override {
    for (const Output& output : outputs_) {  // at most one
      if (!result) break;
      const std::size_t bytes = result->count * size_of(output.tensor.dtype);
      if (const Result<void> copied = copy_out(output, bytes); !copied) result = copied.error();
    }
    Completion& completion = completion_;
    delete this;
    completion.complete_message(std::move(result));
  }

  void enqueued(std::shared_ptr<DeviceEnd>) noexcept override {}  // it is not on a stream
  void begun() noexcept override { completion_.begun(); }

 private:
  /// A tensor of the caller, and its copy.
  struct Output {
    Tensor tensor;
    const void* copy;
  };

  Result<void> copy_out(const Output& output, std::size_t bytes) const {
    return copies_.to_device(output.tensor, output.copy, bytes);
  }

  const DeviceCopies& copies_;
  Operation operation_;
  Completion& completion_;
  std::vector<Output> outputs_;
};

class StagedBackend final : public Backend {
 public:
  explicit StagedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  Traits traits() const override { return inner_->traits(); }

  bool supports(Collective collective, DType dtype, ReduceOp reduce, Device device) const override {
    if (device.kind != Device::Kind::cpu && find_copies() == nullptr) return false;
    return inner_->supports(collective, dtype, reduce, {});
  }

  std::string refuses(const Operation& message) const override { return inner_->refuses(message); }

  void start(const Operation& operation, Completion& completion) override {
    if (operation.common().device.kind == Device::Kind::cpu) {
      return inner_->start(operation, completion);
    }
    const DeviceCopies* const copies = find_copies();  // supports() has found them
    auto staged = std::make_unique<Staged>(*copies, operation, completion);
    if (const Result<void> begun = staged->begin(); !begun)
      return fail(operation, completion, begun.error());
    Staged* const started = staged.get();
    inner_->start(started->operation(), *started);
    static_cast<void>(staged.release());  // it may have ended, and freed itself
  }

  void progress() override { inner_->progress(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  Result<std::shared_ptr<void>> allocate(std::size_t bytes, Device device) override {
    return inner_->allocate(bytes, device);
  }
  std::string describe() const override { return inner_->describe(); }

 private:
  /// Ends an operation whose tensors could not be copied, and with it the group.
  void fail(const Operation& operation, Completion& completion, const Failure& why) {
    inner_->abort(why.detail);
    if (info_of(operation.collective).message) return completion.complete_message(why);
    completion.complete(why);
  }

  const std::unique_ptr<Backend> inner_;
};

}  // namespace

std::unique_ptr<Backend> with_staging(std::unique_ptr<Backend> inner) {
  return std::make_unique<StagedBackend>(std::move(inner));
}

}  // namespace c10dd::collectives
