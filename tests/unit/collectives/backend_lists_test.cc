// SPDX-License-Identifier: Apache-2.0
// Collectives on lists of tensors, of any sizes, over every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/process_group.h"
#include "tests/unit/collectives/expected.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::each_type;
using test::input_of;
using test::Inputs;
using test::inputs_of;
using test::open_groups;
using test::reduction_of;
using test::run_ranks;
using test::tensor;

class BackendLists : public ::testing::TestWithParam<std::tuple<std::string, Rank>> {
 protected:
  std::vector<std::shared_ptr<ProcessGroup>> open() const {
    return open_groups(size(), {.backend = std::get<0>(GetParam()), .timeout = 60s});
  }
  Rank size() const { return std::get<1>(GetParam()); }
};

/// Elements that rank `from` has for rank `to` in the tests of lists: some have none.
std::size_t part(Rank from, Rank to) { return (from * 3 + to * 5 + 1) % 4 * 701; }

TEST_P(BackendLists, MovesListsOfTensorsOfAnySizes) {
  const auto groups = open();
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    const auto lists = [&](const auto& count_of) {
      Inputs<T> memory(size());
      for (Rank rank = 0; rank < size(); ++rank) memory[rank].resize(count_of(rank));
      return memory;
    };
    const auto tensors = [&](Inputs<T>& memory) {
      std::vector<Tensor> all;
      for (std::vector<T>& one : memory) all.push_back(tensor(one, dtype));
      return all;
    };
    for (Rank root = 0; root < size(); ++root) {
      run_ranks(size(), [&](Rank rank) {
        ProcessGroup& group = *groups[rank];
        // Rank i has part(i, root) elements.
        std::vector<T> own = input_of<T>(rank, part(rank, root), dtype);
        Inputs<T> all = lists([&](Rank from) { return part(from, root); });
        group.all_gather(tensors(all), tensor(own, dtype));
        for (Rank from = 0; from < size(); ++from) {
          EXPECT_TRUE(all[from] == input_of<T>(from, part(from, root), dtype)) << name_of(dtype);
          std::fill(all[from].begin(), all[from].end(), T{});
        }
        const bool is_root = rank == root;
        group.gather(is_root ? tensors(all) : std::vector<Tensor>{}, tensor(own, dtype), root);
        for (Rank from = 0; is_root && from < size(); ++from) {
          EXPECT_TRUE(all[from] == input_of<T>(from, part(from, root), dtype)) << name_of(dtype);
        }
        std::fill(own.begin(), own.end(), T{});
        group.scatter(tensor(own, dtype), is_root ? tensors(all) : std::vector<Tensor>{}, root);
        EXPECT_TRUE(own == input_of<T>(rank, part(rank, root), dtype)) << name_of(dtype);
      });
    }
    run_ranks(size(), [&](Rank rank) {
      Inputs<T> inputs = lists([&](Rank to) { return part(rank, to); });
      Inputs<T> outputs = lists([&](Rank from) { return part(from, rank); });
      std::vector<T> input;
      std::vector<std::size_t> in_splits;
      std::vector<std::size_t> out_splits;
      for (Rank other = 0; other < size(); ++other) {
        inputs[other] = input_of<T>(rank + 10 * other, part(rank, other), dtype);
        input.insert(input.end(), inputs[other].begin(), inputs[other].end());
        in_splits.push_back(part(rank, other));
        out_splits.push_back(part(other, rank));
      }
      groups[rank]->all_to_all(tensors(outputs), tensors(inputs));
      std::vector<T> expected;
      for (Rank from = 0; from < size(); ++from) {
        EXPECT_TRUE(outputs[from] == input_of<T>(from + 10 * rank, part(from, rank), dtype));
        expected.insert(expected.end(), outputs[from].begin(), outputs[from].end());
      }
      std::vector<T> output(expected.size());
      groups[rank]->all_to_all_single(tensor(output, dtype), tensor(input, dtype), out_splits,
                                      in_splits);
      EXPECT_TRUE(output == expected) << name_of(dtype);
    });
  });
}

TEST_P(BackendLists, ReducesAndScattersPartsOfAnySizes) {
  const auto groups = open();
  each_type([&]<class T>(DType dtype, std::type_identity<T>) {
    for (const ReduceOp::Kind kind : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (!combines(kind, dtype)) continue;
      run_ranks(size(), [&](Rank rank) {
        Inputs<T> inputs;
        std::vector<Tensor> tensors;
        for (Rank to = 0; to < size(); ++to) {
          inputs.push_back(input_of<T>(rank, part(to, 1), dtype));
        }
        const Inputs<T> before = inputs;
        for (auto& one : inputs) tensors.push_back(tensor(one, dtype));
        std::vector<T> output(part(rank, 1));
        groups[rank]->reduce_scatter(tensor(output, dtype), tensors, kind);
        const std::vector<T> expected =
            reduction_of(inputs_of<T>(size(), output.size(), dtype), kind, dtype);
        EXPECT_TRUE(test::matches(output, expected, kind))
            << name_of(dtype) << " " << name_of(kind);
        EXPECT_TRUE(inputs == before) << "an input has changed";
      });
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendLists,
                         ::testing::Combine(::testing::ValuesIn(test::backends()),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return std::get<0>(instance.param) +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace c10dd
