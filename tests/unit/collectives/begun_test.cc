// SPDX-License-Identifier: Apache-2.0
// When hooks see that an operation has begun, over a backend that tells it and one that does not.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/abortable_group.h"
#include "tests/unit/collectives/scripted_backend.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::kAsync;

/// Records the events of each operation as "e0 s0 b0 f0 ", and how operations have ended.
class BeginHook final : public Hook {
 public:
  void enqueued(const CollectiveCall& call) noexcept override { add('e', call); }
  void started(const CollectiveCall& call) noexcept override { add('s', call); }
  void begun(const CollectiveCall& call) noexcept override { add('b', call); }
  void finished(const CollectiveCall& call) noexcept override {
    add('f', call);
    const std::lock_guard lock(mutex_);
    ended_.push_back(call);
  }
  std::string events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<CollectiveCall> ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  void add(char what, const CollectiveCall& call) {
    const std::lock_guard lock(mutex_);
    events_ += what + std::to_string(call.operation.sequence) + " ";
  }

  std::mutex mutex_;
  std::string events_;
  std::vector<CollectiveCall> ended_;
};

class Begun : public testing::Test {
 protected:
  void open() {
    group = group_over(std::make_shared<test::ScriptedBackend>(script), {.size = 2},
                       {.timeout = 60s, .hooks = {hook}});
  }

  test::BackendScript script;
  const std::shared_ptr<BeginHook> hook = std::make_shared<BeginHook>();
  std::shared_ptr<ProcessGroup> group;
};

TEST_F(Begun, AnOperationThatRunsFromItsStartBeginsThen) {
  open();
  const WorkPtr work = group->barrier(kAsync);
  ASSERT_TRUE(script.await_started(1));
  EXPECT_EQ(hook->events(), "e0 s0 b0 ");
  script.end(0);
  work->wait();
  EXPECT_EQ(hook->events(), "e0 s0 b0 f0 ");
  EXPECT_EQ(hook->ended().at(0).begun, hook->ended().at(0).started);
}

TEST_F(Begun, AnOperationThatIsHandedOverBeginsWhenTheBackendSaysSo) {
  script.traits.tells_begin = true;
  open();
  const WorkPtr first = group->barrier(kAsync);
  const WorkPtr second = group->barrier(kAsync);
  ASSERT_TRUE(script.await_started(2));
  EXPECT_EQ(hook->events().find('b'), std::string::npos);
  script.completion(0).begun();
  EXPECT_NE(hook->events().find("b0 "), std::string::npos);
  EXPECT_EQ(hook->events().find("b1 "), std::string::npos);
  script.end(0);
  first->wait();
  EXPECT_GE(hook->ended().at(0).begun, hook->ended().at(0).started);
  EXPECT_LE(hook->ended().at(0).begun, hook->ended().at(0).finished);
  group->abort("enough");
  EXPECT_THROW(second->wait(), Aborted);
  EXPECT_EQ(hook->events().find("b1 "), std::string::npos);
  EXPECT_EQ(hook->ended().at(1).begun, CollectiveCall::Clock::time_point{});
}

TEST_F(Begun, AMessageThatIsHandedOverBeginsWhenTheBackendSaysSo) {
  script.traits.tells_begin = true;
  script.name = "takes messages";
  open();
  float value = 0;
  const WorkPtr work = group->issue(
      {.collective = Collective::recv, .output = tensor_of(&value, 1), .peer = 1}, kAsync);
  EXPECT_EQ(hook->events(), "e0 s0 ");
  script.completion(0).begun();
  script.end_message(0, Received{1, 0, 1});
  work->wait();
  EXPECT_EQ(hook->events(), "e0 s0 b0 f0 ");
}

TEST_F(Begun, AnEmptyOperationBeginsWithoutTheBackendAndAnAbandonedOneNever) {
  script.traits.tells_begin = true;
  open();
  group->all_reduce({.dtype = DType::float32});
  EXPECT_EQ(hook->events(), "e0 s0 b0 f0 ");
  group->shutdown();
  group->barrier(kAsync);
  EXPECT_EQ(hook->events(), "e0 s0 b0 f0 e1 f1 ");
}

}  // namespace
}  // namespace c10dd::collectives
