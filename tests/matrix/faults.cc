// SPDX-License-Identifier: Apache-2.0
#include "tests/matrix/faults.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace c10dd::matrix {
namespace {

/// Returns whether this is the first thread of the process that has asked.
bool is_first_thread() {
  static const std::thread::id first = std::this_thread::get_id();
  return std::this_thread::get_id() == first;
}

class FaultyGroup final : public ProcessGroup {
 public:
  FaultyGroup(std::shared_ptr<ProcessGroup> group, std::size_t fault)
      : group_(std::move(group)), fault_(kFaults[fault]) {}

  WorkPtr issue(Operation operation, CallOptions options) override {
    const Operation asked = operation;
    std::vector<std::byte> last = end_of(asked.output);
    change(operation);
    WorkPtr work = group_->issue(std::move(operation), options);
    if (!options.async) spoil(asked, last);
    return work;
  }

  WorkPtr coalesce(std::vector<Operation> operations, CallOptions options) override {
    return group_->coalesce(std::move(operations), options);
  }
  void monitored_barrier(std::optional<Duration> timeout) override {
    group_->monitored_barrier(timeout);
  }
  std::shared_ptr<ProcessGroup> new_group(const std::vector<Rank>& ranks,
                                          SubgroupOptions options) override {
    return group_->new_group(ranks, std::move(options));
  }
  std::shared_ptr<ProcessGroup> split(std::int32_t color, std::int32_t key,
                                      SubgroupOptions options) override {
    return group_->split(color, key, std::move(options));
  }
  Tensor allocate(DType dtype, std::size_t count, Device device) override {
    return group_->allocate(dtype, count, device);
  }
  const World& world() const override { return group_->world(); }
  std::string_view backend() const override { return group_->backend(); }
  std::string describe() const override { return group_->describe(); }
  void abort(const std::string& reason) override { group_->abort(reason); }
  void shutdown() override { group_->shutdown(); }

 private:
  bool is_summed_first(const Operation& operation) const {
    const bool is_float = combines(ReduceOp::premul_sum, operation.output.dtype);
    return fault_ == (is_float ? "avg of floats is summed first" : "avg is summed first") &&
           operation.reduce == ReduceOp::avg;
  }

  /// Changes an operation before it is issued.
  void change(Operation& operation) const {
    if (fault_ == "max is sum" && operation.reduce == ReduceOp::max)
      operation.reduce = ReduceOp::sum;
    const bool sums = fault_ == "avg is not divided" || is_summed_first(operation);
    if (sums && operation.reduce == ReduceOp::avg) {
      operation.reduce = ReduceOp::sum;
    }
    // Only broadcast has the same tensors on the root and on the other ranks.
    if (fault_ == "root is off by one" && operation.collective == Collective::broadcast) {
      operation.root = (operation.root + 1) % size();
    }
    if (fault_ == "elements of 8 bytes are 4" && operation.output.dtype == DType::int64 &&
        operation.collective == Collective::all_reduce &&
        combines(operation.reduce, DType::int32)) {
      operation.output.dtype = DType::int32;
    }
  }

  static std::vector<std::byte> end_of(const Tensor& tensor) {
    if (tensor.count == 0) return {};
    const auto* const bytes = static_cast<const std::byte*>(tensor.data);
    return {bytes + tensor.bytes() - size_of(tensor.dtype), bytes + tensor.bytes()};
  }

  /// Changes the tensors of an operation that has ended.
  void spoil(const Operation& operation, const std::vector<std::byte>& last) const {
    const Tensor& output = operation.output;
    if (output.count == 0) return;
    auto* const bytes = static_cast<std::byte*>(output.data);
    const bool is_lost =
        fault_ == "last element is not done" ||
        (fault_ == "last element behind 64 KiB is not done" && output.bytes() > 64 * 1024) ||
        (fault_ == "only the first rank of a process is done" && !is_first_thread());
    if (is_lost) {
      std::copy(last.begin(), last.end(), bytes + output.bytes() - last.size());
    }
    if (is_summed_first(operation)) {
      with_dtype(output.dtype, [&]<class T>(std::type_identity<T>) {
        using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
        using Loaded = std::conditional_t<std::is_class_v<T>, float, Wide>;
        auto* const sums = static_cast<T*>(output.data);
        for (std::size_t i = 0; i < output.count; ++i) {
          sums[i] = static_cast<T>(static_cast<Loaded>(sums[i]) / static_cast<Loaded>(size()));
        }
      });
    }
    if (fault_ == "NaN is dropped on rank 1" && rank() == 1 && output.dtype == DType::float32) {
      auto* const values = static_cast<float*>(output.data);
      const auto is_nan = [](float value) { return value != value; };
      std::replace_if(values, values + output.count, is_nan, 0.0f);
    }
    if (fault_ == "one bit differs on rank 1" && rank() == 1) bytes[0] ^= std::byte{1};
    if (fault_ == "input is overwritten" && operation.input.count > 0) {
      *static_cast<std::byte*>(operation.input.data) ^= std::byte{0xff};
    }
    const bool has_parts =
        operation.input.count > 0 && output.count == operation.input.count * size();
    if (fault_ == "first two parts are swapped" && has_parts && size() > 1) {
      const std::size_t part = operation.input.bytes();
      std::swap_ranges(bytes, bytes + part, bytes + part);
    }
  }

  const std::shared_ptr<ProcessGroup> group_;
  const std::string_view fault_;
};

}  // namespace

std::shared_ptr<ProcessGroup> with_fault(std::shared_ptr<ProcessGroup> group, std::size_t fault) {
  return std::make_shared<FaultyGroup>(std::move(group), fault);
}

}  // namespace c10dd::matrix
