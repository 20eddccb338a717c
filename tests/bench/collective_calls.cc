// SPDX-License-Identifier: Apache-2.0
// Scenario collective. Measures what a call of a process group costs its caller, without
// communication: an all_reduce of 8 floats in a loopback group of one rank. One group is opened by
// a client, so it has the hook that counts for a daemon; another has the hook with which groups of
// several ranks tell how far they have come; the third has no hooks. That hook is measured by
// itself, too. Calls are timed in batches, because reading the clock takes as long as a tenth of a
// call.
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "collectives/activity_hook.h"
#include "collectives/process_group.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatch = 32;

/// The Bootstrap of a group of one rank.
class Alone final : public Bootstrap {
 public:
  std::vector<std::string> transpose(std::vector<std::string> parts, Duration) override {
    return parts;
  }
  std::string local_address() const override { return "127.0.0.1"; }
};

/// Calls `batch`, which returns how long its kBatch calls took, until the time is over.
Sample measure(double seconds, const std::function<std::chrono::nanoseconds()>& batch) {
  Histogram each;
  std::chrono::nanoseconds total{0};
  for (int i = 0; i < 100; ++i) batch();  // warms up
  while (std::chrono::duration<double>(total).count() < seconds) {
    const std::chrono::nanoseconds took = batch();
    for (int i = 0; i < kBatch; ++i) each.add(took.count() / kBatch);
    total += took;
  }
  return sample_of(each, std::chrono::duration<double>(total).count());
}

std::chrono::nanoseconds call(ProcessGroup& group, const Tensor& tensor) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kBatch; ++i) group.all_reduce(tensor);
  return Clock::now() - start;
}

/// Lets the hook see a batch of operations from their issue to their end.
std::chrono::nanoseconds see(Hook& hook, CollectiveCall& seen) {
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kBatch; ++i) {
    hook.enqueued(seen);
    hook.started(seen);
    hook.begun(seen);
    hook.finished(seen);
    ++seen.operation.sequence;
  }
  const Clock::time_point end = Clock::now();
  seen.enqueued = seen.started = seen.begun = seen.finished = end;  // of the next batch
  return end - start;
}

/// Issues a batch, and waits for it afterwards. Counts only the time until the last was issued.
std::chrono::nanoseconds issue(ProcessGroup& group, const Tensor& tensor) {
  std::array<WorkPtr, kBatch> works;
  const Clock::time_point start = Clock::now();
  for (WorkPtr& work : works) work = group.all_reduce(tensor, ReduceOp::sum, {.async = true});
  const std::chrono::nanoseconds took = Clock::now() - start;
  for (const WorkPtr& work : works) work->wait();
  return took;
}

}  // namespace

ScenarioResult run_collective(const Options& options) {
  const DaemonServer daemon("memory:", "os");
  const Address at = daemon.address();
  const auto client =
      Client::connect("c10dd://" + at.host + ":" + std::to_string(at.port) + "/bench");
  const World world{};
  const GroupOptions loopback{.backend = "loopback"};
  const auto watched = ProcessGroup::open(client, world, loopback);
  const auto plain = ProcessGroup::open(std::make_shared<Alone>(), world, loopback);
  GroupOptions active_options = loopback;
  active_options.hooks = {std::make_shared<collectives::ActivityHook>()};
  const auto active = ProcessGroup::open(std::make_shared<Alone>(), world, active_options);
  std::vector<float> values(8);
  const Tensor tensor = tensor_of(values);
  collectives::ActivityHook hook;
  CollectiveCall seen;
  seen.operation = {.collective = Collective::all_reduce, .output = tensor};
  see(hook, seen);

  ScenarioResult result;
  result.name = "collective";
  result.counted = "calls";
  result.round_seconds = options.seconds;
  result.parameters = {{"elements", values.size()}, {"ranks", 1}};
  result.series = {{"synchronous, hooks", "of a group that a client has opened", {}},
                   {"synchronous, no hooks", "", {}},
                   {"asynchronous, hooks", "until the call returns", {}},
                   {"synchronous, activity hook", "", {}},
                   {"activity hook alone", "from enqueued() to finished()", {}}};
  const std::function<std::chrono::nanoseconds()> batches[] = {
      [&] { return call(*watched, tensor); },  [&] { return call(*plain, tensor); },
      [&] { return issue(*watched, tensor); }, [&] { return call(*active, tensor); },
      [&] { return see(hook, seen); },
  };
  for (const Series& one : result.series) result.facts.push_back({"p50, " + one.name, "ns", {}});
  for (unsigned n = 0; n < options.rounds; ++n) {
    for (std::size_t i = 0; i < result.series.size(); ++i) {
      const Sample sample = measure(options.seconds, batches[i]);
      result.series[i].rounds.push_back(sample);
      result.facts[i].rounds.push_back(1000 * sample.p50);
    }
  }
  return result;
}

}  // namespace c10dd::bench
