// SPDX-License-Identifier: Apache-2.0
// Operations on tensors of a device over a backend that knows only the host, which the test plays:
// what it gets, what comes back after success and failure, and that the copies are freed.
#include "collectives/staged_backend.h"

#include <stdexcept>

#include "tests/unit/collectives/nccl/nccl_ranks.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/seen_completion.h"

namespace c10dd::collectives {
namespace {

using test::contains;
using test::on_device;
using test::SeenCompletion;

class StagedBackendTest : public test::NcclTest {
 protected:
  static float* floats(const Tensor& tensor) { return static_cast<float*>(tensor.data); }
  static std::vector<float> values_of(const Tensor& tensor) {
    return {floats(tensor), floats(tensor) + tensor.count};
  }
  static Operation gather_of(std::vector<float>& out, std::vector<float>& in, Rank rank) {
    return {.collective = Collective::all_gather,
            .output = on_device(out, rank),
            .input = on_device(in, rank)};
  }

  test::BackendScript script;
  std::unique_ptr<Backend> staged = with_staging(std::make_unique<test::ScriptedBackend>(script));
};

TEST_F(StagedBackendTest, TheInnerBackendGetsCopiesAndItsResultsComeBack) {
  std::vector<float> in[2] = {{1, 2}, {3, 4}};
  std::vector<float> out[2] = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
  SeenCompletion ends[2];
  std::weak_ptr<void> held[2];
  for (Rank rank = 0; rank < 2; ++rank) {
    staged->start(gather_of(out[rank], in[rank], rank), ends[rank]);
    const Operation got = script.operation(rank);
    EXPECT_EQ(got.input.device, Device{});
    EXPECT_EQ(got.output.device, Device{});
    EXPECT_NE(got.input.data, in[rank].data());
    EXPECT_EQ(values_of(got.input), in[rank]);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.output.data) % 64, 0u);
    for (int i = 0; i < 4; ++i) floats(got.output)[i] = static_cast<float>(10 * rank + i);
    EXPECT_EQ(values_of(got.input), in[rank]) << "the copies overlap";
    held[rank] = got.input.owner;
  }
  for (const Rank rank : {1u, 0u}) {
    EXPECT_EQ(out[rank], std::vector<float>(4, -1.0F));
    script.end(rank);
    EXPECT_EQ(ends[rank].code(), Code::ok);
    const auto first = static_cast<float>(10 * rank);
    EXPECT_EQ(out[rank], (std::vector<float>{first, first + 1, first + 2, first + 3}));
    EXPECT_TRUE(held[rank].expired()) << "the copies are kept";
  }
  EXPECT_EQ(in[0], (std::vector<float>{1, 2}));
}

TEST_F(StagedBackendTest, AFailedOperationChangesNoTensor) {
  std::vector<float> values = {5, 5};
  SeenCompletion end;
  staged->start({.collective = Collective::all_reduce, .output = on_device(values, 0)}, end);
  EXPECT_EQ(values_of(script.operation(0).output), values) << "it is read, too";
  floats(script.operation(0).output)[0] = 9;
  const std::weak_ptr<void> held = script.operation(0).output.owner;
  script.end(0, failure(Code::unavailable, "lost"));
  EXPECT_EQ(end.text(), "lost");
  EXPECT_EQ(values, std::vector<float>(2, 5.0F));
  EXPECT_TRUE(held.expired());
}

TEST_F(StagedBackendTest, OnlyTheElementsOfAMessageComeBack) {
  std::vector<float> values(4, 1.0F);
  SeenCompletion ends[2];
  const Operation operation{.collective = Collective::recv, .output = on_device(values, 1)};
  staged->start(operation, ends[0]);
  std::fill_n(floats(script.operation(0).output), 4, 8.0F);
  script.end_message(0, Received{1, 7, 3});
  EXPECT_EQ(ends[0].received().tag, 7u);
  EXPECT_EQ(values, (std::vector<float>{8, 8, 8, 1}));
  staged->start(operation, ends[1]);
  std::fill_n(floats(script.operation(1).output), 4, 2.0F);
  script.end_message(1, failure(Code::size_mismatch, "too long"));
  EXPECT_EQ(ends[1].code(), Code::size_mismatch);
  EXPECT_EQ(values, (std::vector<float>{8, 8, 8, 1}));
}

TEST_F(StagedBackendTest, TheBeginIsPassedOn) {
  script.traits.tells_begin = true;
  EXPECT_TRUE(staged->traits().tells_begin);
  std::vector<float> values(4);
  SeenCompletion end;
  staged->start({.collective = Collective::all_reduce, .output = on_device(values, 0)}, end);
  EXPECT_FALSE(end.has_begun());
  script.completion(0).begun();
  EXPECT_TRUE(end.has_begun());
  script.end(0);
}

TEST_F(StagedBackendTest, TensorsOfTheHostAreUsedAsTheyAre) {
  std::vector<float> values(4);
  SeenCompletion end;
  staged->start({.collective = Collective::all_reduce, .output = tensor_of(values)}, end);
  EXPECT_EQ(script.operation(0).output.data, values.data());
  EXPECT_EQ(&script.completion(0), static_cast<Completion*>(&end));
  script.end(0);
}

TEST_F(StagedBackendTest, ATensorThatCannotBeCopiedEndsTheGroupAndItsOperation) {
  std::vector<float> values(4);
  const Tensor nowhere = on_device(values, 12);
  SeenCompletion waits;
  SeenCompletion ends[2];
  staged->start({.collective = Collective::all_reduce, .output = on_device(values, 0)}, waits);
  staged->start({.collective = Collective::all_reduce, .output = nowhere}, ends[0]);
  staged->start({.collective = Collective::send, .input = nowhere}, ends[1]);
  for (SeenCompletion& end : ends) {
    EXPECT_TRUE(contains(end.text(), "a tensor is on cuda:12")) << end.text();
  }
  EXPECT_FALSE(ends[0].was_message());
  EXPECT_TRUE(ends[1].was_message());
  EXPECT_EQ(script.started(), 1u);
  EXPECT_EQ(script.aborts().size(), 2u);
  EXPECT_EQ(waits.text(), ends[0].text());
}

TEST_F(StagedBackendTest, ResultsThatCannotBeCopiedBackFailTheOperation) {
  std::vector<float> values(4);
  Operation message{.collective = Collective::recv, .output = on_device(values, 12)};
  Operation gather{.collective = Collective::scatter, .output = on_device(values, 12)};
  SeenCompletion ends[2];
  staged->start(message, ends[0]);  // an output is not read, so nobody asks where it is
  staged->start(gather, ends[1]);
  script.end_message(0, Received{1, 0, 4});
  script.end(1);
  for (SeenCompletion& end : ends) {
    EXPECT_TRUE(contains(end.text(), "a tensor is on cuda:12")) << end.text();
  }
  SeenCompletion empty;
  staged->start(message, empty);
  script.end_message(2, failure(Code::aborted, "the first reason"));
  EXPECT_EQ(empty.text(), "the first reason");
}

TEST_F(StagedBackendTest, AStartThatThrowsIsPassedOnAndKeepsNothing) {
  std::vector<float> values(4);
  const auto owner = std::make_shared<int>();
  Operation operation{.collective = Collective::all_reduce, .output = on_device(values, 0)};
  operation.inputs.resize(1);
  operation.inputs[0].owner = owner;
  SeenCompletion end;
  script.cannot_start = true;
  EXPECT_THROW(staged->start(operation, end), std::runtime_error);
  EXPECT_FALSE(end.has_ended());
  operation = {};
  EXPECT_EQ(owner.use_count(), 1);
}

TEST_F(StagedBackendTest, EverythingElseIsThatOfTheInnerBackend) {
  script.traits.needs_progress = true;
  script.traits.in_flight = 7;
  script.name = "lacks scatter";
  EXPECT_EQ(staged->traits().in_flight, 7u);
  EXPECT_TRUE(staged->traits().needs_progress);
  EXPECT_EQ(staged->describe(), "lacks scatter");
  EXPECT_EQ(staged->refuses({}), "lacks scatter refuses");
  const Device cuda1{Device::Kind::cuda, 1};
  EXPECT_TRUE(staged->supports(Collective::gather, DType::int8, ReduceOp::sum, cuda1));
  EXPECT_FALSE(staged->supports(Collective::scatter, DType::int8, ReduceOp::sum, cuda1));
  EXPECT_TRUE(staged->supports(Collective::gather, DType::int8, ReduceOp::sum, {}));
  staged->progress();
  EXPECT_EQ(script.progress_calls, 1);
  staged->abort("enough");
  EXPECT_EQ(script.aborts(), std::vector<std::string>{"enough"});
  EXPECT_TRUE(staged->allocate(8, {}));
}

}  // namespace
}  // namespace c10dd::collectives
