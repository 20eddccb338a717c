// SPDX-License-Identifier: Apache-2.0
// Every operation with every type over NCCL's stand-in, on tensors of a device and of the host.
// Results are compared with a serial computation.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/matrix/values.h"
#include "tests/unit/collectives/nccl/nccl_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using matrix::Bytes;
using matrix::check_reduction;
using matrix::factor_of;
using test::contains;
using test::error_of;
using test::Groups;
using test::on_device;
using test::open_groups;
using test::over_nccl;
using test::run_ranks;

using Inputs = std::vector<Bytes>;  // of all ranks

/// Returns `count` elements of each input, which begin at `first`.
Inputs parts_of(const Inputs& inputs, std::size_t first, std::size_t count, DType dtype) {
  Inputs parts;
  for (const Bytes& input : inputs) {
    const std::byte* const begin = input.data() + first * size_of(dtype);
    parts.emplace_back(begin, begin + count * size_of(dtype));
  }
  return parts;
}

Bytes blank(std::size_t count, DType dtype) { return Bytes(count * size_of(dtype)); }

void for_each_type(const std::function<void(DType)>& f) {
  for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) f(static_cast<DType>(dtype));
}

/// The parameters: whether the tensors are on the device, and the number of ranks.
class NcclOperations : public test::NcclTest,
                       public ::testing::WithParamInterface<std::tuple<bool, Rank>> {
 protected:
  Rank size() const { return std::get<1>(GetParam()); }

  template <class T>
  Tensor place(std::vector<T>& values, DType dtype, Rank rank) const {
    Tensor tensor{
        .data = values.data(), .count = values.size() * sizeof(T) / size_of(dtype), .dtype = dtype};
    if (std::get<0>(GetParam())) tensor.device = {Device::Kind::cuda, static_cast<int>(rank)};
    return tensor;
  }

  static bool lacks(ReduceOp op, DType dtype) {
    const bool bits = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
    if (dtype == DType::boolean) return op == ReduceOp::bxor;
    return bits || dtype == DType::int16;
  }
};

constexpr std::size_t kCount = 1021;

TEST_P(NcclOperations, ReduceEveryTypeByEveryOperationThatNcclHas) {
  const Groups groups = open_groups(size(), over_nccl());
  for_each_type([&](DType dtype) {
    const Inputs inputs = matrix::small_inputs(size(), kCount, dtype);
    for (std::size_t kind = 0; kind < kReduceOps; ++kind) {
      const ReduceOp op(static_cast<ReduceOp::Kind>(kind));
      if (!combines(op, dtype)) continue;
      run_ranks(size(), [&](Rank rank) {
        const ReduceOp mine(op.kind, factor_of(rank));
        Bytes values = inputs[rank];
        const Tensor tensor = place(values, dtype, rank);
        if (lacks(op, dtype)) {
          const std::string error = error_of([&] { groups[rank]->all_reduce(tensor, mine); });
          EXPECT_TRUE(contains(error, "all_reduce: backend \"nccl\" does not support ")) << error;
          return;
        }
        groups[rank]->all_reduce(tensor, mine)->wait_on_host();
        EXPECT_EQ(check_reduction(dtype, op.kind, inputs, values), "")
            << name_of(dtype) << " " << name_of(op);
        const Rank root = static_cast<Rank>(kind) % size();
        values = inputs[rank];
        groups[rank]->reduce(place(values, dtype, rank), root, mine)->wait_on_host();
        if (rank == root) {
          EXPECT_EQ(check_reduction(dtype, op.kind, inputs, values), "")
              << name_of(dtype) << " " << name_of(op) << " to " << root;
        } else {
          EXPECT_TRUE(values == inputs[rank]) << name_of(dtype) << " " << name_of(op);
        }
      });
    }
  });
}

TEST_P(NcclOperations, ReduceAndScatterPartsAndLists) {
  const Groups groups = open_groups(size(), over_nccl());
  for_each_type([&](DType dtype) {
    if (dtype == DType::int16) return;
    const Inputs inputs = matrix::small_inputs(size(), kCount * size(), dtype);
    run_ranks(size(), [&](Rank rank) {
      const Inputs parts = parts_of(inputs, rank * kCount, kCount, dtype);
      Bytes input = inputs[rank];
      Bytes output = blank(kCount, dtype);
      const Tensor in = place(input, dtype, rank);
      groups[rank]->reduce_scatter_single(place(output, dtype, rank), in)->wait_on_host();
      EXPECT_EQ(check_reduction(dtype, ReduceOp::sum, parts, output), "") << name_of(dtype);
      EXPECT_TRUE(input == inputs[rank]) << name_of(dtype);
      groups[rank]->reduce_scatter_single(in.slice(rank * kCount, kCount), in)->wait_on_host();
      const std::span<const std::byte> in_place =
          std::span(input).subspan(rank * output.size(), output.size());
      EXPECT_EQ(check_reduction(dtype, ReduceOp::sum, parts, in_place), "") << name_of(dtype);
      // Rank r gets r elements.
      input = inputs[rank];
      std::vector<Tensor> lists;
      std::size_t first = 0;
      for (Rank to = 0; to < size(); first += to++) lists.push_back(in.slice(first, to));
      Bytes own = blank(rank, dtype);
      groups[rank]->reduce_scatter(place(own, dtype, rank), lists)->wait_on_host();
      const std::size_t begin = std::size_t{rank} * (rank + 1) / 2 - rank;
      EXPECT_EQ(check_reduction(dtype, ReduceOp::sum, parts_of(inputs, begin, rank, dtype), own),
                "");
    });
  });
}

TEST_P(NcclOperations, MoveEveryType) {
  const Groups groups = open_groups(size(), over_nccl());
  for_each_type([&](DType dtype) {
    const Inputs inputs = matrix::small_inputs(size(), kCount, dtype);
    Bytes all;
    for (const Bytes& one : inputs) all.insert(all.end(), one.begin(), one.end());
    run_ranks(size(), [&](Rank rank) {
      ProcessGroup& group = *groups[rank];
      const Rank root = static_cast<Rank>(dtype) % size();
      Bytes own = inputs[rank];
      Bytes many = blank(kCount * size(), dtype);
      const Tensor part = place(own, dtype, rank);
      const Tensor whole = place(many, dtype, rank);
      group.all_gather_single(whole, part)->wait_on_host();
      EXPECT_TRUE(many == all) << "all_gather of " << name_of(dtype);
      std::ranges::fill(many, std::byte{});
      std::ranges::copy(own, many.begin() + static_cast<std::ptrdiff_t>(rank * own.size()));
      group.all_gather_single(whole, whole.slice(rank * kCount, kCount))->wait_on_host();
      EXPECT_TRUE(many == all) << "all_gather in place of " << name_of(dtype);
      std::ranges::fill(many, std::byte{});
      const bool is_root = rank == root;
      group.gather_single(is_root ? whole : place(own, dtype, rank).slice(0, 0), part, root)
          ->wait_on_host();
      EXPECT_TRUE(!is_root || many == all) << "gather of " << name_of(dtype);
      std::ranges::fill(own, std::byte{});
      group.scatter_single(part, is_root ? whole : part.slice(0, 0), root)->wait_on_host();
      EXPECT_TRUE(own == inputs[rank]) << "scatter of " << name_of(dtype);
      group.broadcast(part, root)->wait_on_host();
      EXPECT_TRUE(own == inputs[root]) << "broadcast of " << name_of(dtype);
    });
  });
}

TEST_P(NcclOperations, ExchangePartsAndListsOfAnySizes) {
  const Groups groups = open_groups(size(), over_nccl());
  run_ranks(size(), [&](Rank rank) {
    ProcessGroup& group = *groups[rank];
    std::vector<std::int32_t> out;
    for (Rank to = 0; to < size(); ++to) out.push_back(static_cast<std::int32_t>(10 * rank + to));
    std::vector<std::int32_t> in(size());
    group.all_to_all_single(place(in, DType::int32, rank), place(out, DType::int32, rank))
        ->wait_on_host();
    for (Rank from = 0; from < size(); ++from) {
      EXPECT_EQ(in[from], static_cast<std::int32_t>(10 * from + rank));
    }
    // Rank a sends a * b elements to rank b, and gathers a elements of each rank a.
    std::vector<std::vector<std::int32_t>> sent(size());
    std::vector<std::vector<std::int32_t>> received(size());
    std::vector<std::vector<std::int32_t>> gathered(size());
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    std::vector<Tensor> all;
    for (Rank other = 0; other < size(); ++other) {
      sent[other].assign(rank * other, static_cast<std::int32_t>(rank));
      received[other].resize(rank * other);
      gathered[other].resize(other);
      inputs.push_back(place(sent[other], DType::int32, rank));
      outputs.push_back(place(received[other], DType::int32, rank));
      all.push_back(place(gathered[other], DType::int32, rank));
    }
    std::vector<std::int32_t> own(rank, static_cast<std::int32_t>(rank));
    group.all_to_all(outputs, inputs)->wait_on_host();
    group.all_gather(all, place(own, DType::int32, rank))->wait_on_host();
    for (Rank other = 0; other < size(); ++other) {
      const auto number = static_cast<std::int32_t>(other);
      EXPECT_EQ(received[other], std::vector<std::int32_t>(rank * other, number));
      EXPECT_EQ(gathered[other], std::vector<std::int32_t>(other, number));
    }
  });
}

class NcclMessages : public NcclOperations {};

TEST_P(NcclMessages, GoAroundARing) {
  const Groups groups = open_groups(size(), over_nccl());
  run_ranks(size(), [&](Rank rank) {
    std::vector<std::int16_t> out(kCount, static_cast<std::int16_t>(rank));
    std::vector<std::int16_t> in(kCount);
    const Rank next = (rank + 1) % size();
    const Rank last = (rank + size() - 1) % size();
    const WorkPtr work = groups[rank]->coalesce(
        {{.collective = Collective::send, .input = place(out, DType::int16, rank), .peer = next},
         {.collective = Collective::recv,
          .output = place(in, DType::int16, rank),
          .peer = last,
          .tag = kAnyTag}});
    work->wait_on_host();
    EXPECT_EQ(in, std::vector<std::int16_t>(kCount, static_cast<std::int16_t>(last)));
    if (rank == 0) {
      groups[0]->isend(place(out, DType::int16, 0), 1)->wait_on_host();
    } else if (rank == 1) {
      const WorkPtr got = groups[1]->irecv(place(in, DType::int16, 1), 0);
      got->wait_on_host();
      EXPECT_EQ(got->received().source, 0u);
      EXPECT_EQ(got->received().count, kCount);
    }
  });
}

std::string name(const ::testing::TestParamInfo<std::tuple<bool, Rank>>& instance) {
  return std::string(std::get<0>(instance.param) ? "device" : "host") +
         std::to_string(std::get<1>(instance.param));
}
INSTANTIATE_TEST_SUITE_P(Places, NcclOperations,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 2, 3, 4)),
                         name);
INSTANTIATE_TEST_SUITE_P(Places, NcclMessages,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(2, 3, 4)), name);

class NcclForms : public test::NcclTest {};

TEST_F(NcclForms, BarrierHoldsNobodyBackLongerThanTheLast) {
  const Groups groups = open_groups(3, over_nccl());
  std::atomic<Rank> arrived = 0;
  for (Rank round = 1; round <= 20; ++round) {
    run_ranks(3, [&](Rank rank) {
      ++arrived;
      groups[rank]->barrier();
      EXPECT_EQ(arrived.load(), round * 3);
    });
  }
}

TEST_F(NcclForms, BooleansOfAnyByteOnTheHostBecome0Or1) {
  const Groups groups = open_groups(2, over_nccl());
  run_ranks(2, [&](Rank rank) {
    std::vector<std::uint8_t> bytes = {0, static_cast<std::uint8_t>(2 << rank), 255};
    Tensor tensor = tensor_of(bytes);
    tensor.dtype = DType::boolean;
    groups[rank]->all_reduce(tensor);
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{0, 1, 1}));
    bytes = {static_cast<std::uint8_t>(7 + rank), 255, 0};
    groups[rank]->broadcast(tensor, 0);  // which only moves them
    EXPECT_EQ(bytes, (std::vector<std::uint8_t>{7, 255, 0}));
  });
}

TEST_F(NcclForms, CoalescedCollectivesAreOneGroupOfNccl) {
  const Groups groups = open_groups(2, over_nccl());
  const int before = nccl.groups;
  run_ranks(2, [&](Rank rank) {
    std::vector<float> a(8, 1.0f);
    std::vector<float> b(8, 2.0f);
    std::vector<float> none;
    std::vector<Operation> operations;
    for (std::vector<float>* values : {&a, &none, &b}) {
      operations.push_back(
          {.collective = Collective::all_reduce, .output = on_device(*values, rank)});
    }
    operations.back().reduce = premul_sum(rank == 0 ? 1 : 3);
    groups[rank]->coalesce(std::move(operations))->wait_on_host();
    EXPECT_EQ(a[7], 2.0f);
    EXPECT_EQ(b[7], 8.0f);
  });
  EXPECT_EQ(nccl.groups - before, 2);  // one on each rank
}

TEST_F(NcclForms, WhatNcclLacksIsRefusedInOneSentence) {
  const Groups groups = open_groups(2, over_nccl());
  ProcessGroup& group = *groups[0];
  std::vector<std::int32_t> values(4);
  const Tensor tensor = on_device(values, 0);
  EXPECT_EQ(error_of([&] { group.send(tensor, 1, 5); }),
            "send: backend \"nccl\" does not support tags: use tag 0 instead of 5");
  EXPECT_EQ(error_of([&] { group.recv(tensor, kAnyRank); }),
            "recv: backend \"nccl\" cannot receive from any rank: name one rank");
  EXPECT_EQ(
      error_of([&] { group.all_reduce(tensor, ReduceOp::bxor); }),
      "all_reduce: backend \"nccl\" does not support bxor of int32 elements in cuda:0 memory");
  EXPECT_TRUE(contains(error_of([&] { group.all_reduce(on_device(values, 1)); }), "cuda:1 memory"));
  run_ranks(2, [&](Rank rank) { groups[rank]->barrier(); });  // a refused call has hurt nothing
}

TEST_F(NcclForms, MemoryOfTheDeviceIsZeroedAndOutlivesTheGroup) {
  Groups groups = open_groups(2, over_nccl());
  const Tensor memory = groups[1]->allocate(DType::float16, 1000, {Device::Kind::cuda, 1});
  EXPECT_EQ(groups[1]->allocate(DType::float16, 10).device.kind, Device::Kind::cpu);
  EXPECT_TRUE(contains(error_of([&] {
                         groups[1]->allocate(DType::float16, 1, {Device::Kind::cuda, 0});
                       }),
                       "this rank of the group uses cuda:1, not cuda:0"));
  groups.clear();
  const auto* const bytes = static_cast<const std::byte*>(memory.data);
  for (std::size_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(bytes[i], std::byte{0});
}

}  // namespace
}  // namespace c10dd
