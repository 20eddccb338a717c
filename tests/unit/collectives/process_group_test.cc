// SPDX-License-Identifier: Apache-2.0
// The group around the backends: opening, finding modules, hooks and samples.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "collectives/measure.h"
#include "collectives/process_group.h"
#include "collectives/wording.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/entries.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::contains;
using test::error_of;
using test::open_groups;
using test::run_ranks;
using test::ThreadBootstrap;
using test::ThreadExchange;

std::string error_of_opening(const GroupOptions& options, World world = {}) {
  const auto point = std::make_shared<ThreadExchange>(world.size);
  try {
    ProcessGroup::open(std::make_shared<ThreadBootstrap>(point, 0), world, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class CountingBootstrap final : public Bootstrap {
 public:
  CountingBootstrap(std::shared_ptr<Bootstrap> inner) : inner_(std::move(inner)) {}
  std::vector<std::string> transpose(std::vector<std::string> parts, Duration timeout) override {
    ++calls;
    for (const std::string& part : parts) bytes += part.size();
    return inner_->transpose(std::move(parts), timeout);
  }
  std::string local_address() const override { return inner_->local_address(); }

  int calls = 0;
  std::size_t bytes = 0;

 private:
  std::shared_ptr<Bootstrap> inner_;
};

TEST(ProcessGroup, GlooMeetsWithOneExchangeOfCompactAddresses) {
  constexpr Rank kSize = 4;
  const auto point = std::make_shared<ThreadExchange>(kSize);
  run_ranks(kSize, [&](Rank rank) {
    auto bootstrap =
        std::make_shared<CountingBootstrap>(std::make_shared<ThreadBootstrap>(point, rank));
    const auto group = ProcessGroup::open(bootstrap, {.rank = rank, .size = kSize}, {});
    group->barrier()->wait();
    EXPECT_EQ(bootstrap->calls, 1);
    EXPECT_EQ(bootstrap->bytes, (kSize - 1) * 6u);  // an IPv4 address and a port each
    EXPECT_EQ(group->rank(), rank);
    EXPECT_EQ(group->size(), kSize);
    EXPECT_EQ(group->kind(), "dp");
    EXPECT_EQ(group->backend(), "gloo");
  });
}

TEST(ProcessGroup, UnknownBackendSaysWhereItWasLookedFor) {
  setenv("C10DD_BACKEND_PATH", "/no/such/folder:/nor/this", 1);
  const std::string error = error_of_opening({.backend = "nosuch"});
  unsetenv("C10DD_BACKEND_PATH");
  EXPECT_TRUE(contains(error, "no file libc10dd_nosuch.so in /no/such/folder, /nor/this, "))
      << error;
  EXPECT_TRUE(contains(error, "/lib, ")) << error;
  EXPECT_TRUE(contains(error, "C10DD_BACKEND_PATH")) << error;
}

TEST(ProcessGroup, BackendNameIsNoPath) {
  EXPECT_TRUE(contains(error_of_opening({.backend = "../gloo"}), "invalid backend name"));
  EXPECT_TRUE(contains(error_of_opening({.backend = ""}), "invalid backend name"));
}

TEST(ProcessGroup, BrokenModuleIsAnErrorAndNotSkipped) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("c10dd-module-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "libc10dd_broken.so") << "this is no shared object";
  setenv("C10DD_BACKEND_PATH", folder.c_str(), 1);
  const std::string error = error_of_opening({.backend = "broken"});
  unsetenv("C10DD_BACKEND_PATH");
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(contains(error, "cannot be loaded")) << error;
  EXPECT_TRUE(contains(error, "libc10dd_broken.so")) << error;
}

TEST(ProcessGroup, WorldAndTimeOutsAreChecked) {
  EXPECT_TRUE(contains(error_of_opening({.backend = "loopback"}, {.rank = 2, .size = 2}),
                       "rank 2 must be below the world size 2"));
  EXPECT_TRUE(contains(error_of_opening({.backend = "loopback", .timeout = 0s}),
                       "timeout must be positive, got 0 ns"));
  EXPECT_TRUE(contains(error_of_opening({.backend = "loopback", .open_timeout = -1s}),
                       "open_timeout must be positive, got -1000000000 ns"));
  EXPECT_TRUE(
      contains(error_of_opening({.backend = "loopback", .hooks = {nullptr}}), "hooks[0] is null"));
  EXPECT_THROW(ProcessGroup::open(std::shared_ptr<Bootstrap>(), {}, {.backend = "loopback"}),
               InvalidArgument);
}

TEST(ProcessGroup, SaysWhatIsWrongWithTheArgumentsOfACollective) {
  const auto groups = test::open_groups(1, {.backend = "loopback"});
  ProcessGroup& group = *groups[0];
  std::vector<float> floats(4);
  std::vector<std::int16_t> whole(4);
  const Tensor good = tensor_of(floats);
  Tensor tensor = good;
  const auto reduced = [&](const Tensor& of, ReduceOp op) {
    return error_of([&] { group.all_reduce(of, op); });
  };
  EXPECT_EQ(reduced(good, ReduceOp::band),
            "all_reduce: reduction band does not support elements of type float32");
  EXPECT_EQ(reduced(tensor_of(whole), premul_sum(2)),
            "all_reduce: reduction premul_sum does not support elements of type int16");
  tensor.dtype = DType::boolean;
  EXPECT_EQ(reduced(tensor, ReduceOp::avg),
            "all_reduce: reduction avg does not support elements of type bool");
  tensor.dtype = static_cast<DType>(10);
  EXPECT_EQ(reduced(tensor, ReduceOp::sum),
            "all_reduce: unknown element type 10; valid types are 0 to 9");
  tensor = good;
  tensor.data = nullptr;
  EXPECT_EQ(reduced(tensor, ReduceOp::sum), "all_reduce: data is null, but count is 4");
  tensor = good;
  tensor.device.kind = Device::Kind::cuda;
  EXPECT_EQ(reduced(tensor, ReduceOp::sum),
            "all_reduce: backend \"loopback\" does not support sum of float32 elements in cuda:0 "
            "memory");
  EXPECT_TRUE(contains(reduced(good, static_cast<ReduceOp::Kind>(9)),
                       "unknown reduction 9; valid reductions are 0 to 8"));
  EXPECT_TRUE(contains(error_of([&] { group.broadcast(good, 1); }), "root 1 is not a rank"));
  EXPECT_TRUE(contains(error_of([&] { group.all_gather_single(good, tensor_of(whole)); }),
                       "the output has 4 float32 elements, but must have 1 times the 4 int16"));
  EXPECT_TRUE(contains(error_of([&] { group.reduce(good, 7); }), "reduce: root 7 is not a rank"));
  EXPECT_TRUE(contains(error_of([&] { group.all_to_all_single(good, good); }),
                       "all_to_all_single: input and output overlap"));
  EXPECT_TRUE(
      contains(error_of([&] { group.reduce_scatter_single(good, good.slice(0, 3)); }),
               "reduce_scatter_single: the input has 3 float32 elements, but must have 1 times "
               "the 4 float32 elements of the output"));
  EXPECT_TRUE(
      contains(error_of([&] { group.barrier({.timeout = 0s}); }), "must be positive, got 0 ns"));
  EXPECT_TRUE(contains(error_of([&] { group.issue({.collective = static_cast<Collective>(11)}); }),
                       "unknown operation 11; valid operations are 0 to 10"));
  group.issue({.collective = Collective::all_reduce, .output = good, .root = 9})->wait();
  group.all_reduce(good)->wait();  // a refused call has hurt nothing
}

TEST(ProcessGroup, RefusesMoreElementsThanMemoryCanHave) {
  const auto group = open_groups(1, {.backend = "loopback"}).front();
  float value = 0;
  EXPECT_EQ(error_of([&] { group->all_reduce(tensor_of(&value, std::size_t{1} << 61)); }),
            "all_reduce: count is 2305843009213693952, but a tensor can have at most "
            "2305843009213693951 elements of type float32");
  EXPECT_EQ(error_of([&] { group->allocate(DType::float64, std::size_t{1} << 61); }),
            "allocate: count is 2305843009213693952, but a tensor can have at most "
            "1152921504606846975 elements of type float64");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process
  EXPECT_THROW(group->allocate(DType::uint8, std::size_t{1} << 62), Unavailable);
#endif
  EXPECT_THROW(group->allocate(static_cast<DType>(88), 4), InvalidArgument);
}

TEST(ProcessGroup, OnlyTheRootHasATensorForAll) {
  const auto groups = test::open_groups(2, {.backend = "loopback"});
  std::vector<float> two(2);
  std::vector<float> three(3);
  ProcessGroup& other = *groups[1];
  EXPECT_EQ(
      error_of([&] { other.gather_single(tensor_of(two), tensor_of(two), 0); }),
      "gather_single: the output has 2 elements, but must be empty on ranks other than the root");
  EXPECT_EQ(
      error_of([&] { other.scatter_single(tensor_of(two), tensor_of(two), 0); }),
      "scatter_single: the input has 2 elements, but must be empty on ranks other than the root");
  EXPECT_EQ(error_of([&] { other.gather_single(tensor_of(three), tensor_of(two), 1); }),
            "gather_single: the output has 3 float32 elements, but must have 2 times the 2 float32 "
            "elements of the input");
  std::vector<float> more(3);
  EXPECT_EQ(
      error_of([&] { other.all_to_all_single(tensor_of(three), tensor_of(more)); }),
      "all_to_all_single: 3 elements cannot be divided equally among the 2 ranks of process group "
      "\"world\"");
}

TEST(ProcessGroup, SaysWhatIsWrongWithListsOfTensors) {
  const auto groups = test::open_groups(2, {.backend = "loopback"});
  std::vector<float> values(10);
  std::vector<double> doubles(10);
  const Tensor all = tensor_of(values);
  ProcessGroup& group = *groups[0];
  EXPECT_EQ(error_of([&] { group.all_gather({all}, all); }),
            "all_gather: outputs has 1 tensors, but must have 2, one for each rank");
  EXPECT_EQ(error_of([&] {
              group.all_gather({all, tensor_of(doubles)}, all);
            }),
            "all_gather: outputs[1] has float64 elements, but another tensor has float32; all "
            "tensors must have the same type and device");
  EXPECT_EQ(error_of([&] {
              group.all_gather({all.slice(0, 3), all}, all);
            }),
            "all_gather: this rank sends 10 elements to itself, but its output for them has 3");
  EXPECT_EQ(error_of([&] {
              group.gather({all, all}, all, 1);
            }),
            "gather: outputs has 2 tensors, but must have 0 on this rank");
  EXPECT_EQ(error_of([&] { group.scatter(all, {}, 0); }),
            "scatter: inputs has 0 tensors, but must have 2, one for each rank");
  EXPECT_EQ(error_of([&] {
              group.reduce_scatter(all.slice(0, 3), {all, all});
            }),
            "reduce_scatter: this rank sends 10 elements to itself, but its output for them has 3");
  EXPECT_EQ(
      error_of([&] {
        group.all_to_all_single(all, all, {5, 5}, {5, 6});
      }),
      "all_to_all_single: the splits of the input add up to 11, but the tensor has 10 elements");
  EXPECT_EQ(error_of([&] {
              group.all_to_all_single(all, all, {5, 5}, {10});
            }),
            "all_to_all_single: the number of splits of the input is 1, but must be 2, one for "
            "each rank");
  EXPECT_EQ(error_of([&] { group.issue({.collective = Collective::barrier, .lists = true}); }),
            "barrier does not take lists of tensors");
}

TEST(ProcessGroup, BootstrapTimeOutArrivesUnchanged) {
  const auto point = std::make_shared<ThreadExchange>(2);
  for (const char* backend : {"loopback", "gloo"}) {
    const auto lonely = std::make_shared<ThreadExchange>(2);
    try {
      ProcessGroup::open(std::make_shared<ThreadBootstrap>(lonely, 0), {.rank = 0, .size = 2},
                         {.backend = backend, .open_timeout = 20ms});
      ADD_FAILURE() << backend << " opened alone";
    } catch (const TimedOut& error) {
      EXPECT_STREQ(error.what(), "not all ranks came");
    }
  }
}

TEST(ProcessGroup, GlooRefusesAnAddressOrInterfaceThatIsNotOurs) {
  const std::string name = error_of_opening({.hostname = "no-such-host.invalid"});
  EXPECT_TRUE(contains(name, "no-such-host.invalid")) << name;
  EXPECT_TRUE(contains(name, "C10DD_GLOO_INTERFACE")) << name;
  const std::string interface = error_of_opening({.interface = "nosuch0"});
  EXPECT_TRUE(contains(interface, "interface \"nosuch0\"")) << interface;
  const std::string foreign = error_of_opening({.hostname = "192.0.2.1"});
  EXPECT_TRUE(contains(foreign, "address \"192.0.2.1\"")) << foreign;
  setenv("C10DD_GLOO_INTERFACE", "nosuch1", 1);
  const std::string variable = error_of_opening({});
  unsetenv("C10DD_GLOO_INTERFACE");
  EXPECT_TRUE(contains(variable, "interface \"nosuch1\"")) << variable;
}

TEST(ProcessGroup, GlooTellsAllRanksThatOneCannotListen) {
  const auto point = std::make_shared<ThreadExchange>(2);
  const auto opened = [&](Rank rank, GroupOptions options) {
    return std::async(std::launch::async, [&, rank, options] {
      return error_of([&] {
        ProcessGroup::open(std::make_shared<ThreadBootstrap>(point, rank),
                           {.rank = rank, .size = 2}, options);
      });
    });
  };
  const auto begun = std::chrono::steady_clock::now();
  auto good = opened(0, {});
  auto bad = opened(1, {.hostname = "fe80::1"});
  const std::string told = good.get();
  for (const std::string& text : {bad.get(), told}) {
    EXPECT_TRUE(contains(text,
                         "\"fe80::1\" cannot be bound on this machine: it is a link-local "
                         "address, which needs the name of its interface, such as "
                         "fe80::1%eth0"))
        << text;
  }
  EXPECT_TRUE(contains(told, "gloo: rank 1 has no address to listen on")) << told;
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

/// Opens `count` groups of two ranks, uses them, and returns how many threads the process has then.
std::size_t threads_of_groups(int count) {
  std::vector<std::vector<std::shared_ptr<ProcessGroup>>> all;
  for (int i = 0; i < count; ++i) all.push_back(open_groups(2, {}));
  run_ranks(2, [&](Rank rank) {
    for (const auto& groups : all) {
      std::vector<float> value = {1.0f};
      groups[rank]->all_reduce(tensor_of(value));
      EXPECT_EQ(value[0], 2.0f);
    }
  });
  return test::threads_here();
}

TEST(ProcessGroup, ManyGroupsShareTheirThreadsAndLeaveNothingBehind) {
  std::thread([] {}).join();  // with the first thread, a sanitizer starts one of its own
  const std::size_t own = test::threads_here();
  const auto await_own = [own] {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (test::threads_here() > own && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_EQ(test::threads_here(), own);
  };
  threads_of_groups(2);  // what stays for ever, such as the memory of the allocator
  await_own();
  const std::size_t descriptors = test::entries("/proc/self/fd");
  [[maybe_unused]] const std::size_t maps = mappings();
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  EXPECT_LE(threads_of_groups(32), own + cores + 1);  // Gloo's loops, and the timer
  for (int i = 0; i < 20; ++i) threads_of_groups(2);
  await_own();
  EXPECT_EQ(test::entries("/proc/self/fd"), descriptors);
#ifndef __SANITIZE_THREAD__          // which maps memory for what it remembers
  EXPECT_LE(mappings(), maps + 16);  // the allocator's arenas grow with the threads of the test
#endif
}

struct Recorded {
  std::string group_kind;
  std::string collective;
  std::string backend;
  CollectiveSample sample;
};

class ListRecorder final : public CollectiveRecorder {
 public:
  std::shared_ptr<CollectiveSeries> series(std::string_view process_group,
                                           std::string_view collective,
                                           std::string_view backend) override {
    auto list = std::make_shared<List>(*this);
    list->kind = {std::string(process_group), std::string(collective), std::string(backend), {}};
    return list;
  }
  std::vector<Recorded> samples() {
    const std::lock_guard lock(mutex_);
    return samples_;
  }
  std::int64_t in_flight() const { return in_flight_; }

 private:
  struct List final : CollectiveSeries {
    explicit List(ListRecorder& to) : all(to) {}
    void record(std::chrono::nanoseconds duration, std::chrono::nanoseconds queued,
                std::uint64_t payload_bytes, std::uint64_t bus_bytes,
                bool succeeded) noexcept override {
      Recorded one = kind;
      one.sample.duration = duration;
      one.sample.queued = queued;
      one.sample.payload_bytes = payload_bytes;
      one.sample.bus_bytes = bus_bytes;
      one.sample.succeeded = succeeded;
      const std::lock_guard lock(all.mutex_);
      all.samples_.push_back(std::move(one));
    }
    void add_in_flight(std::int64_t change) noexcept override { all.in_flight_ += change; }
    ListRecorder& all;
    Recorded kind;
  };

  std::mutex mutex_;
  std::vector<Recorded> samples_;
  std::atomic<std::int64_t> in_flight_ = 0;
};

TEST(ProcessGroup, EveryCollectiveIsMeasuredBeforeItsWaitReturns) {
  constexpr Rank kSize = 4;
  std::vector<std::shared_ptr<ListRecorder>> recorders;
  for (Rank rank = 0; rank < kSize; ++rank) recorders.push_back(std::make_shared<ListRecorder>());
  const auto groups =
      open_groups(kSize, {.backend = "loopback"}, [&](Rank rank, GroupOptions& options) {
        options.hooks = {measure_into(recorders[rank], options.backend)};
      });
  run_ranks(kSize, [&](Rank rank) {
    std::vector<float> values(1000);
    std::vector<float> gathered(4000);
    ProcessGroup& group = *groups[rank];
    group.all_reduce(tensor_of(values))->wait();
    group.broadcast(tensor_of(values), 1)->wait();
    group.all_gather_single(tensor_of(gathered), tensor_of(values))->wait();
    group.barrier()->wait();
    const bool root = rank == 1;
    const Tensor all = root ? tensor_of(gathered) : Tensor{};
    group.reduce(tensor_of(values), 1)->wait();
    group.reduce_scatter_single(tensor_of(values), tensor_of(gathered))->wait();
    group.gather_single(all, tensor_of(values), 1)->wait();
    group.scatter_single(tensor_of(values), all, 1)->wait();
    std::vector<float> exchanged(4000);
    group.all_to_all_single(tensor_of(exchanged), tensor_of(gathered))->wait();
    EXPECT_EQ(recorders[rank]->samples().size(), 9u);
    EXPECT_EQ(recorders[rank]->in_flight(), 0);
  });
  const std::vector<Recorded> samples = recorders[0]->samples();
  const char* const names[] = {"all_reduce",     "broadcast", "all_gather", "barrier",   "reduce",
                               "reduce_scatter", "gather",    "scatter",    "all_to_all"};
  const std::uint64_t payload[] = {4000, 4000, 16000, 0, 4000, 16000, 16000, 16000, 16000};
  const std::uint64_t bus[] = {6000, 4000, 12000, 0, 4000, 12000, 12000, 12000, 12000};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    EXPECT_EQ(samples[i].collective, names[i]);
    EXPECT_EQ(samples[i].group_kind, "dp");
    EXPECT_EQ(samples[i].backend, "loopback");
    EXPECT_EQ(samples[i].sample.payload_bytes, payload[i]);
    EXPECT_EQ(samples[i].sample.bus_bytes, bus[i]);
    EXPECT_TRUE(samples[i].sample.succeeded);
    EXPECT_GT(samples[i].sample.duration, Duration{0});
    EXPECT_EQ(samples[i].sample.queued, Duration{0}) << "no other operation was running";
  }
}

/// Remembers whether an operation had something in its input or its lists.
struct UnusedHook final : Hook {
  void enqueued(const CollectiveCall& call) noexcept override {
    const Operation& operation = call.operation;
    any = any || operation.input.data != nullptr || !operation.inputs.empty() ||
          !operation.outputs.empty();
  }
  std::atomic<bool> any = false;
};

TEST(ProcessGroup, NoBackendSeesTensorsThatAnOperationDoesNotHave) {
  const auto hook = std::make_shared<UnusedHook>();
  const auto groups = open_groups(1, {.backend = "loopback", .hooks = {hook}});
  std::vector<float> values(4);
  Tensor unused = tensor_of(values);
  unused.device = {Device::Kind::cuda, 0};
  for (const Collective collective : {Collective::barrier, Collective::all_reduce}) {
    groups[0]->issue({.collective = collective,
                      .output = tensor_of(values),
                      .input = unused,
                      .outputs = {unused},
                      .inputs = {unused}},
                     {});
  }
  EXPECT_FALSE(hook->any);
}

TEST(ProcessGroup, TensorsOfOneOperationHaveOneStream) {
  const auto groups = open_groups(1, {.backend = "loopback"});
  std::vector<float> values(4);
  Tensor output = tensor_of(values);
  output.device = {Device::Kind::cuda, 0};
  Tensor input = output;
  input.stream = &values;
  EXPECT_EQ(error_of([&] { groups[0]->all_gather_single(output, input); }),
            "all_gather_single: the tensors have different streams; use one stream for all "
            "tensors of an operation, and let it wait for the other streams");
  const std::string lists = error_of([&] { groups[0]->all_gather({output}, input); });
  EXPECT_TRUE(contains(lists, "different streams")) << lists;
}

TEST(ProcessGroup, MemoryOfAGroupOutlivesTheGroup) {
  auto groups = open_groups(1, {.backend = "loopback"});
  const Tensor memory = groups[0]->allocate(DType::float16, 1000);
  EXPECT_EQ(memory.bytes(), 2000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data) % 64, 0u);
  groups.clear();
  const auto* const bytes = static_cast<const std::byte*>(memory.data);
  for (std::size_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(bytes[i], std::byte{0});
  groups = open_groups(1, {.backend = "loopback"});
  EXPECT_THROW(groups[0]->allocate(DType::float32, 1, {Device::Kind::cuda, 0}), Error);
}

TEST(Wording, FoldsRanksIntoRanges) {
  using collectives::folded;
  EXPECT_EQ(folded({}), "[]");
  EXPECT_EQ(folded({519, 17, 512, 513, 514, 513}), "[17,512-514,519]");
}

}  // namespace
}  // namespace c10dd
