// SPDX-License-Identifier: Apache-2.0
// The copies by which the backend nccl runs operations on tensors in cpu memory, over its
// stand-ins: what goes in and out, and blocks that are used again, also after an allocation failed.
#include "collectives/nccl/host_copy.h"

#include <numeric>
#include <set>
#include <string>

#include "tests/unit/collectives/nccl/nccl_parts.h"

namespace c10dd::collectives::nccl {
namespace {

using test::contains;
using test::cuda_device;

class HostCopyTest : public test::NcclTest {
 protected:
  static std::unique_ptr<HostCopy> begin(Operation& operation, int device = 0, Rank rank = 0) {
    auto copy = HostCopy::begin(cuda_device(device), operation, rank);
    EXPECT_TRUE(copy) << copy.error().detail;
    return copy ? std::move(*copy) : nullptr;
  }
  /// Waits until the stream has done what it has.
  static void drain(int device, void* stream) {
    const auto event = *cuda_device(device).make_event();
    ASSERT_TRUE(event->record(stream));
    ASSERT_TRUE(test::await([&] { return *event->reached(); }));
  }
  static Operation sum_of(std::vector<float>& values) {
    return {.collective = Collective::all_reduce, .output = tensor_of(values)};
  }
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }

  void* stream = *cuda_device(0).make_stream();
  void TearDown() override {
    cuda_device(0).destroy_stream(stream);
    NcclTest::TearDown();
  }
};

TEST_F(HostCopyTest, InputsGoInAndOutputsComeBack) {
  std::vector<float> in = {1, 2, 3};
  std::vector<float> out(6, -1.0F);
  Operation operation{
      .collective = Collective::all_gather, .output = tensor_of(out), .input = tensor_of(in)};
  const auto copy = begin(operation);
  EXPECT_EQ(operation.input.device.kind, Device::Kind::cuda);
  EXPECT_EQ(operation.output.device.kind, Device::Kind::cuda);
  EXPECT_NE(operation.input.data, in.data());
  std::fill_n(floats(operation.input), 3, 0.0F);
  in = {7, 7, 7};  // the copy was made when the operation was issued
  ASSERT_TRUE(copy->copy_in(stream));
  drain(0, stream);
  EXPECT_EQ(std::vector<float>(floats(operation.input), floats(operation.input) + 3),
            (std::vector<float>{1, 2, 3}));
  std::iota(floats(operation.output), floats(operation.output) + 6, 10.0F);
  ASSERT_TRUE(copy->copy_out(stream));
  drain(0, stream);
  EXPECT_EQ(out, std::vector<float>(6, -1.0F)) << "before finish()";
  copy->finish();
  EXPECT_EQ(out, (std::vector<float>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(in, (std::vector<float>{7, 7, 7}));
}

TEST_F(HostCopyTest, OnlyTheRootOfAReduceIsChanged) {
  for (const Rank rank : {0u, 1u}) {
    std::vector<float> values = {1, 2};
    Operation operation{.collective = Collective::reduce, .output = tensor_of(values), .root = 1};
    const auto copy = begin(operation, 0, rank);
    ASSERT_TRUE(copy->copy_in(stream));
    drain(0, stream);
    EXPECT_EQ(floats(operation.output)[1], 2.0F) << "it is read on each rank";
    floats(operation.output)[1] = 5.0F;
    ASSERT_TRUE(copy->copy_out(stream));
    drain(0, stream);
    copy->finish();
    EXPECT_EQ(values[1], rank == 1 ? 5.0F : 2.0F);
  }
}

TEST_F(HostCopyTest, TwoOperationsHaveTwoBlocksAndALaterOneHasOneOfThem) {
  std::vector<float> values(10);
  std::set<void*> used;
  {
    Operation first = sum_of(values);
    Operation second = sum_of(values);
    const auto one = begin(first);
    const auto two = begin(second);
    used = {first.output.data, second.output.data};
    EXPECT_EQ(used.size(), 2u);
  }
  Operation third = sum_of(values);
  Operation fourth = sum_of(values);
  const auto three = begin(third);
  const auto four = begin(fourth);
  EXPECT_EQ((std::set<void*>{third.output.data, fourth.output.data}), used);
  std::vector<float> other(10);
  Operation elsewhere = sum_of(other);
  const auto on_two = begin(elsewhere, 2);
  EXPECT_FALSE(used.contains(elsewhere.output.data)) << "a block belongs to a device";
}

TEST_F(HostCopyTest, ABlockOfAnotherSizeIsNotTaken) {
  std::vector<float> small(10);
  std::vector<float> large(10'000);
  void* first = nullptr;
  {
    Operation operation = sum_of(small);
    const auto copy = begin(operation);
    first = operation.output.data;
  }
  Operation bigger = sum_of(large);
  const auto copy = begin(bigger);
  EXPECT_NE(bigger.output.data, first);
  std::fill_n(floats(bigger.output), large.size(), 1.0F);  // the sanitizer sees a small block
}

TEST_F(HostCopyTest, TensorsOfOneBlockDoNotOverlap) {
  std::vector<std::vector<float>> memory(6, std::vector<float>(63, 1.0F));
  Operation operation{.collective = Collective::all_to_all, .lists = true};
  for (std::size_t i = 0; i < 3; ++i) {
    operation.inputs.push_back(tensor_of(memory[i]));
    operation.outputs.push_back(tensor_of(memory[3 + i]));
  }
  const auto copy = begin(operation);
  std::vector<std::byte*> places;
  for (const auto* list : {&operation.inputs, &operation.outputs}) {
    for (const Tensor& one : *list) places.push_back(static_cast<std::byte*>(one.data));
  }
  std::ranges::sort(places);
  for (std::size_t i = 1; i < places.size(); ++i) EXPECT_GE(places[i] - places[i - 1], 63 * 4);
}

TEST_F(HostCopyTest, AnAllocationThatFailsLosesNothing) {
  std::vector<float> values(300'000);  // of a size that no other test has
  const auto error = [&](int allocations) {
    Operation operation = sum_of(values);
    cuda.memory_left = allocations;
    const auto copy = HostCopy::begin(cuda_device(0), operation, 0);
    cuda.memory_left = 0;
    EXPECT_EQ(operation.output.data, copy ? operation.output.data : values.data());
    return copy ? std::string("none") : copy.error().detail;
  };
  // Blocks that a test before this one has left would be taken first.
  std::vector<Operation> operations(100, sum_of(values));
  std::vector<std::unique_ptr<HostCopy>> others;
  cuda.memory_left = 1;
  while (auto copy = HostCopy::begin(cuda_device(0), operations[others.size()], 0)) {
    others.push_back(std::move(*copy));
  }
  EXPECT_TRUE(contains(error(1), "of page-locked memory: out of memory"));
  EXPECT_TRUE(contains(error(2), "bytes on cuda:0: out of memory"));
  EXPECT_EQ(error(2), "none") << "the memory of the host that it had was kept";
  EXPECT_EQ(error(1), "none") << "the block that it had was kept";
}

TEST_F(HostCopyTest, BooleansThatAreReducedAreMadeZeroOrOne) {
  std::vector<std::uint8_t> values = {0, 7, 1};
  Operation operation{
      .collective = Collective::all_reduce, .output = tensor_of(values), .reduce = ReduceOp::max};
  operation.output.dtype = DType::boolean;
  const auto copy = begin(operation);
  ASSERT_TRUE(copy->copy_in(stream));
  drain(0, stream);
  const auto* const bytes = static_cast<const std::uint8_t*>(operation.output.data);
  EXPECT_EQ(std::vector<std::uint8_t>(bytes, bytes + 3), (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(values[1], 7) << "the tensor of the caller stays until the end";
}

}  // namespace
}  // namespace c10dd::collectives::nccl
