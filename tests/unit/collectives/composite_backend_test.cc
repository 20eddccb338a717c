// SPDX-License-Identifier: Apache-2.0
// The backend that is made of one for each kind of device, over two that the test plays: who gets
// what, places of a part, and the failure of one part.
#include "collectives/composite_backend.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/seen_completion.h"
#include "tests/unit/comes_true.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::BackendScript;
using test::ScriptedBackend;
using test::SeenCompletion;

constexpr Device kCuda0{Device::Kind::cuda, 0};

Operation operation_on(Device device, Collective collective = Collective::all_reduce) {
  static std::vector<float> memory(4);
  Tensor tensor = tensor_of(memory);
  tensor.device = device;
  Operation operation{.collective = collective, .output = tensor, .input = tensor, .peer = 1};
  return operation;
}

class CompositeParts : public testing::Test {
 protected:
  void open() {
    std::vector<BackendPart> parts;
    parts.push_back({{Device::Kind::cuda, "gpu"}, std::make_unique<ScriptedBackend>(cuda)});
    parts.push_back({{Device::Kind::cpu, "host"}, std::make_unique<ScriptedBackend>(cpu)});
    whole = compose(std::move(parts));
  }
  void start(const Operation& operation, SeenCompletion& end) { whole->start(operation, end); }

  BackendScript cuda;
  BackendScript cpu;
  std::unique_ptr<Backend> whole;
};

TEST_F(CompositeParts, GetWhatIsOnTheirDevice) {
  cpu.name = "at once";
  cuda.name = "lacks scatter";
  open();
  SeenCompletion ends[2];
  const Operation on_cpu = operation_on({});
  const Operation on_cuda = operation_on(kCuda0, Collective::send);
  start(on_cpu, ends[0]);
  start(on_cuda, ends[1]);
  EXPECT_EQ(cpu.started(), 1u);
  EXPECT_EQ(cuda.started(), 1u);
  EXPECT_EQ(cuda.operation(0).collective, Collective::send);
  EXPECT_EQ(whole->refuses(on_cpu), "at once refuses");
  EXPECT_EQ(whole->refuses(on_cuda), "lacks scatter refuses");
  EXPECT_TRUE(whole->starts_at_once(on_cpu));
  EXPECT_FALSE(whole->starts_at_once(on_cuda));
  EXPECT_TRUE(whole->supports(Collective::scatter, DType::int8, ReduceOp::sum, {}));
  EXPECT_FALSE(whole->supports(Collective::scatter, DType::int8, ReduceOp::sum, kCuda0));
  EXPECT_EQ(whole->describe(), "cuda: lacks scatter; cpu: at once");
  EXPECT_TRUE(whole->allocate(4, {}));
  EXPECT_FALSE(whole->allocate(4, kCuda0)) << "this one has only memory of the host";
  cuda.end_message(0, Received{1, 0, 4});
  cpu.end(0);
  EXPECT_EQ(ends[1].received().count, 4u);
  EXPECT_EQ(ends[0].code(), Code::ok);
  EXPECT_FALSE(ends[0].was_message());
}

TEST_F(CompositeParts, NeedWhatAnyOfThemNeeds) {
  open();
  EXPECT_TRUE(whole->traits().on_callers_thread);
  EXPECT_FALSE(whole->traits().needs_progress);
  EXPECT_GE(whole->traits().in_flight, 1024u);
  cpu.traits.needs_progress = true;
  cuda.traits.on_callers_thread = false;
  EXPECT_FALSE(whole->traits().on_callers_thread);
  EXPECT_TRUE(whole->traits().needs_progress);
  whole->progress();
  EXPECT_EQ(cpu.progress_calls, 1);
  EXPECT_EQ(cuda.progress_calls, 1);
}

TEST_F(CompositeParts, TellThatAnOperationHasBegunIfAnyOfThemDoes) {
  open();
  EXPECT_FALSE(whole->traits().tells_begin);
  SeenCompletion neither;
  start(operation_on({}), neither);
  EXPECT_FALSE(neither.has_begun()) << "the queue knows";
  cpu.end(0);
  cuda.traits.tells_begin = true;
  open();
  EXPECT_TRUE(whole->traits().tells_begin);
  SeenCompletion ends[2];
  start(operation_on({}), ends[0]);
  EXPECT_TRUE(ends[0].has_begun()) << "on the part that does not tell";
  start(operation_on(kCuda0), ends[1]);
  EXPECT_FALSE(ends[1].has_begun());
  cuda.completion(0).begun();
  EXPECT_TRUE(ends[1].has_begun());
  cuda.end(0);
  cpu.end(1);
}

TEST_F(CompositeParts, AFullPartTakesTheNextOperationWhenOneOfItsOwnHasEnded) {
  cuda.traits.in_flight = 2;
  open();
  std::vector<SeenCompletion> ends(40);
  const Operation on_cuda = operation_on(kCuda0);
  start(on_cuda, ends[0]);
  start(on_cuda, ends[1]);
  for (std::size_t i = 2; i < 40; ++i) {  // ends by success and by failure give a place back
    auto next = std::async(std::launch::async, [&] { start(on_cuda, ends[i]); });
    const int before = cuda.progress_calls;
    EXPECT_TRUE(test::comes_true([&] { return cuda.progress_calls > before + 2; }));
    EXPECT_EQ(cuda.started(), i) << "it has taken three";
    if (i == 2) {
      SeenCompletion other;
      start(operation_on({}), other);  // the other part has room
      SeenCompletion message;
      start(operation_on({}, Collective::send), message);
      cpu.end(0);
      cpu.end_message(1, Received{});
      EXPECT_EQ(other.code(), Code::ok);
      EXPECT_EQ(message.code(), Code::ok);
    }
    cuda.end(i - 2, i < 30 ? Result<void>() : failure(Code::internal, "drill"));
    next.get();
    EXPECT_EQ(cuda.started(), i + 1);
  }
  cuda.end(38);
  cuda.end(39);
}

TEST_F(CompositeParts, MessagesTakeNoPlace) {
  cuda.traits.in_flight = 1;
  open();
  SeenCompletion held;
  SeenCompletion messages[2];
  start(operation_on(kCuda0), held);
  for (SeenCompletion& one : messages) start(operation_on(kCuda0, Collective::recv), one);
  EXPECT_EQ(cuda.started(), 3u);
  cuda.end_message(1, Received{});
  cuda.end_message(2, Received{});
  auto next = std::async(std::launch::async, [&] {
    SeenCompletion end;
    start(operation_on(kCuda0), end);
    EXPECT_EQ(end.code(), Code::ok);
  });
  const int before = cuda.progress_calls;
  EXPECT_TRUE(test::comes_true([&] { return cuda.progress_calls > before + 2; }));
  EXPECT_EQ(cuda.started(), 3u) << "a message that has ended gives no place back";
  cuda.end(0);
  EXPECT_TRUE(cuda.await_started(4));
  cuda.end(3);
}

TEST_F(CompositeParts, AStartThatThrowsGivesItsPlaceBack) {
  cuda.traits.in_flight = 1;
  open();
  cuda.cannot_start = true;
  SeenCompletion never;
  for (int i = 0; i < 3; ++i) EXPECT_THROW(start(operation_on(kCuda0), never), std::runtime_error);
  EXPECT_THROW(start(operation_on(kCuda0, Collective::send), never), std::runtime_error);
  EXPECT_FALSE(never.has_ended());
  cuda.cannot_start = false;
  SeenCompletion end;
  start(operation_on(kCuda0), end);
  cuda.end(0);
  EXPECT_EQ(end.code(), Code::ok);
}

TEST_F(CompositeParts, APartThatNeedsProgressGetsItWhileItIsFull) {
  cuda.traits.in_flight = 1;
  cuda.on_progress = [this] {
    if (cuda.progress_calls == 3) cuda.end(0);
  };
  open();
  SeenCompletion ends[2];
  for (SeenCompletion& end : ends) start(operation_on(kCuda0), end);
  EXPECT_EQ(ends[0].code(), Code::ok);
  EXPECT_EQ(cpu.progress_calls, 0);
  cuda.end(1);
}

TEST_F(CompositeParts, TheFirstFailureEndsTheOtherPartAndIsTheReasonOfAll) {
  open();
  SeenCompletion failed;
  SeenCompletion other;
  SeenCompletion message;
  SeenCompletion later;
  start(operation_on(kCuda0), failed);
  start(operation_on({}), other);
  start(operation_on({}, Collective::recv), message);
  start(operation_on(kCuda0), later);
  cuda.end(0, failure(Code::unavailable, "rank 1 was lost"));
  for (SeenCompletion* const one : {&failed, &other, &message}) {
    EXPECT_EQ(one->code(), Code::unavailable);
    EXPECT_EQ(one->text(), "rank 1 was lost");
  }
  EXPECT_EQ(cpu.aborts(), std::vector<std::string>{"rank 1 was lost"});
  EXPECT_TRUE(cuda.aborts().empty()) << "a part knows that it has failed";
  cuda.end(1, failure(Code::internal, "something else"));
  EXPECT_EQ(later.text(), "rank 1 was lost");
  EXPECT_EQ(cpu.aborts().size(), 1u);
}

TEST_F(CompositeParts, AMessageOfTheWrongSizeEndsOnlyItself) {
  open();
  SeenCompletion message;
  SeenCompletion other;
  start(operation_on({}, Collective::recv), message);
  start(operation_on(kCuda0), other);
  cpu.end_message(0, failure(Code::size_mismatch, "it does not fit"));
  EXPECT_EQ(message.code(), Code::size_mismatch);
  EXPECT_TRUE(cuda.aborts().empty());
  SeenCompletion lost;
  start(operation_on({}, Collective::recv), lost);
  cpu.end_message(1, failure(Code::timed_out, "no message came"));
  EXPECT_EQ(lost.text(), "no message came");
  EXPECT_EQ(other.text(), "no message came");
}

TEST_F(CompositeParts, AreAbortedTogether) {
  open();
  SeenCompletion ends[2];
  start(operation_on({}), ends[0]);
  start(operation_on(kCuda0), ends[1]);
  whole->abort("enough");
  for (SeenCompletion& end : ends) EXPECT_EQ(end.text(), "enough");
}

/// Destroys the backend at the end of its operation.
class Destroyer final : public Completion {
 public:
  explicit Destroyer(std::unique_ptr<Backend>& backend) : backend_(backend) {}
  void complete(Result<void>) noexcept override { backend_.reset(); }
  void complete_message(Result<Received>) noexcept override { backend_.reset(); }
  void enqueued(std::shared_ptr<DeviceEnd>) noexcept override { ++enqueued_calls; }
  void begun() noexcept override {}
  int enqueued_calls = 0;

 private:
  std::unique_ptr<Backend>& backend_;
};

TEST_F(CompositeParts, MayBeDestroyedByTheEndOfAnOperation) {
  for (const bool message : {false, true}) {
    open();
    Destroyer end(whole);
    const std::size_t index = cuda.started();
    whole->start(operation_on(kCuda0, message ? Collective::send : Collective::all_reduce), end);
    cuda.completion(index).enqueued(nullptr);
    EXPECT_EQ(end.enqueued_calls, 1);
    message ? cuda.end_message(index, Received{}) : cuda.end(index);
    EXPECT_EQ(whole, nullptr);
  }
}

}  // namespace
}  // namespace c10dd::collectives
