// SPDX-License-Identifier: Apache-2.0
// A block has the inputs first, then the tensors that are changed in place, then the outputs: so
// one copy in and one copy out are enough.
#include "collectives/nccl/host_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "client/internal/per_process.h"
#include "collectives/reduce.h"
#include "collectives/used_tensors.h"

namespace c10dd::collectives::nccl {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kBlockMin = 4096;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

/// The blocks that no operation uses. Thread-safe.
class Blocks {
 public:
  Result<HostCopyBlock> take(const CudaDevice& device, std::size_t bytes) {
    const std::size_t size = std::max(std::bit_ceil(bytes), kBlockMin);
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[{device.index(), size}];
      if (!free.empty()) {
        const HostCopyBlock block = free.back();
        free.pop_back();
        return block;
      }
    }
    HostCopyBlock block{.bytes = size};
    const Result<void*> host = take_host(device, size);
    if (!host) return host.error();
    block.host = *host;
    const Result<void*> memory = device.allocate_for_ever(size);
    if (!memory) {
      const std::lock_guard lock(mutex_);
      halves_[{device.index(), size}].push_back(block.host);
      return memory.error();
    }
    block.device = *memory;
    return block;
  }

  void give_back(const CudaDevice& device, const HostCopyBlock& block) {
    const std::lock_guard lock(mutex_);
    free_[{device.index(), block.bytes}].push_back(block);
  }

 private:
  Result<void*> take_host(const CudaDevice& device, std::size_t size) {
    {
      const std::lock_guard lock(mutex_);
      auto& halves = halves_[{device.index(), size}];
      if (!halves.empty()) {
        void* const host = halves.back();
        halves.pop_back();
        return host;
      }
    }
    return device.allocate_host_for_ever(size);
  }

  std::mutex mutex_;
  using Key = std::pair<int, std::size_t>;  // device and size
  std::map<Key, std::vector<HostCopyBlock>> free_;
  std::map<Key, std::vector<void*>> halves_;  // memory of the host for which the device had none
};

std::byte* at(void* memory, std::size_t offset) { return static_cast<std::byte*>(memory) + offset; }

}  // namespace

Result<std::unique_ptr<HostCopy>> HostCopy::begin(const CudaDevice& device, Operation& operation,
                                                  Rank rank) {
  const OperationInfo& info = info_of(operation.collective);
  const bool in_place = info.layout == Layout::in_place;
  const bool changes = !in_place || info.root != Root::receives || operation.root == rank;
  const auto [inputs, outputs] = used_tensors(operation);
  std::size_t bytes = 0;
  for (const Tensor* one : inputs) bytes += aligned(one->bytes());
  for (const Tensor* one : outputs) bytes += aligned(one->bytes());
  const Result<HostCopyBlock> block = client::of_this_process<Blocks>().take(device, bytes);
  if (!block) return block.error();
  std::unique_ptr<HostCopy> copy(new HostCopy(device, *block));
  const auto place = [&](Tensor& tensor, bool copied_in) {
    const std::size_t offset = copy->end_;
    copy->end_ += aligned(tensor.bytes());
    void* const host = at(block->host, offset);
    if (copied_in && tensor.count > 0) {
      std::memcpy(host, tensor.data, tensor.bytes());
      Tensor copied = tensor;
      copied.data = host;
      // NCCL combines booleans as numbers, so they must be 0 or 1.
      if (info.reduces && tensor.dtype == DType::boolean) prepare(copied, ReduceOp::max, 1);
    }
    tensor.device = {Device::Kind::cuda, device.index()};
    tensor.data = at(block->device, offset);
    tensor.owner.reset();
  };
  for (Tensor* one : inputs) place(*one, true);
  copy->in_end_ = copy->out_begin_ = copy->end_;
  for (Tensor* one : outputs) {
    if (changes && one->count > 0) copy->outputs_.push_back({*one, copy->end_});
    place(*one, in_place);
  }
  if (in_place) copy->in_end_ = copy->end_;
  return copy;
}

HostCopy::~HostCopy() { client::of_this_process<Blocks>().give_back(device_, block_); }

Result<void> HostCopy::copy_in(void* stream) const {
  return device_.copy(block_.device, block_.host, in_end_, stream);
}

Result<void> HostCopy::copy_out(void* stream) const {
  return device_.copy(at(block_.host, out_begin_), at(block_.device, out_begin_), end_ - out_begin_,
                      stream);
}

void HostCopy::finish() const {
  for (const Part& part : outputs_) {
    std::memcpy(part.tensor.data, at(block_.host, part.offset), part.tensor.bytes());
  }
}

}  // namespace c10dd::collectives::nccl
