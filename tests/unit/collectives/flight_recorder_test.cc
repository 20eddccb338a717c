// SPDX-License-Identifier: Apache-2.0
// What a process records of its operations, and the files that it writes, as c10ddctl flight reads
// them.
#include "collectives/flight_recorder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

#include "client/ctl/flight_files.h"
#include "collectives/flight_ring.h"
#include "tests/unit/client/flight_records.h"
#include "tests/unit/collectives/thread_ranks.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::collectives {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = CollectiveCall::Clock;
using Texts = std::vector<std::string>;

/// One rank of a group, whose operations the test drives.
class Member {
 public:
  explicit Member(World world, const std::string& job = "llm") : recorder_(job) {
    recorder_.opened(world);
    recorder_.identify(7);
  }

  CollectiveCall issue(const Operation& operation, std::uint64_t sequence) {
    CollectiveCall call{.operation = operation, .enqueued = Clock::now()};
    call.operation.sequence = sequence;
    call.operation.timeout = 10min;
    recorder_.enqueued(call);
    return call;
  }
  void begin(CollectiveCall& call) {
    call.started = call.begun = Clock::now();
    recorder_.begun(call);
  }
  void end(CollectiveCall& call, Code outcome = Code::ok) {
    if (call.begun == Clock::time_point{}) begin(call);
    call.finished = Clock::now();
    call.outcome = outcome;
    recorder_.finished(call);
  }
  void run(const Operation& operation, std::uint64_t sequence) {
    CollectiveCall call = issue(operation, sequence);
    end(call);
  }

 private:
  FlightRecorder recorder_;
};

World world_of(Rank rank, Rank size, const std::string& name = "dp") {
  World world{.rank = rank, .size = size, .name = name};
  for (Rank one = 0; one < size; ++one) {
    world.members.push_back({one, {format("node{}", one), 100 + one}});
  }
  return world;
}

std::array<float, 8> values;

Operation all_reduce(std::size_t count = 4, ReduceOp op = ReduceOp::sum) {
  return {.collective = Collective::all_reduce,
          .output = tensor_of(values.data(), count),
          .reduce = op};
}

class FlightRecorderTest : public testing::Test {
 protected:
  FlightRecorderTest() {
    ::setenv("C10DD_FLIGHT_DIR", folder_.path().c_str(), 1);
    ::unsetenv("C10DD_FLIGHT");
  }
  ~FlightRecorderTest() override { ::unsetenv("C10DD_FLIGHT_DIR"); }

  /// Writes the records, and returns what they show.
  std::string diagnosed() const {
    FlightRecorder::dump("a test");
    const ctl::FlightFiles files = ctl::read_flight_files({folder_.path()});
    EXPECT_EQ(files.odd, Texts());
    return test::diagnosed(files.records);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  const TemporaryDirectory folder_;
};

TEST_F(FlightRecorderTest, RecordsOfAHangNameTheRank) {
  Member zero(world_of(0, 3));
  Member one(world_of(1, 3));
  Member two(world_of(2, 3));
  for (Member* const each : {&zero, &one, &two}) each->run(all_reduce(), 0);
  EXPECT_EQ(diagnosed(), "running none [] ");
  CollectiveCall waits = zero.issue(all_reduce(), 1);
  zero.begin(waits);
  CollectiveCall fails = one.issue(all_reduce(), 1);
  one.end(fails, Code::timed_out);
  EXPECT_EQ(diagnosed(),
            "waiting missing [2] all_reduce 1 of group \"dp\" waits for rank 2 on node2 (pid " +
                std::to_string(::getpid()) + "), which is outside of collectives; 2 ranks wait");
  CollectiveCall differs = two.issue(all_reduce(4, ReduceOp::max), 1);
  two.begin(differs);
  EXPECT_EQ(diagnosed().substr(0, 33), "stuck mismatch [2] all_reduce 1 o");
  FlightRecorder::dump("again");
  EXPECT_EQ(ctl::read_flight_files({folder_.path()}).records.size(), 3u)
      << "the newer file replaces the older one";
  EXPECT_EQ(ctl::read_flight_files({folder_.path()}).others, 0u);
}

TEST_F(FlightRecorderTest, EachOperationIsWrittenAsPyTorchWouldWriteIt) {
  Member zero(world_of(0, 2));
  const auto tensor = [](std::size_t count) { return tensor_of(values.data(), count); };
  std::uint64_t sequence = 0;
  std::uint64_t message = 0;
  for (const OperationInfo& info : kOperations) {
    Operation one{.collective = info.collective, .output = tensor(4), .input = tensor(2)};
    one.peer = 1;
    zero.run(one, info.message ? message++ : sequence++);
  }
  zero.run({.collective = Collective::all_gather,
            .input = tensor(1),
            .lists = true,
            .outputs = {tensor(1), tensor(3)}},
           sequence++);
  FlightRecorder::dump("");
  const ctl::FlightFiles files = ctl::read_flight_files({path("c10dd-flight-llm-0")});
  ASSERT_EQ(files.records.size(), 1u);
  const ctl::FlightRecord& record = files.records[0].record;
  EXPECT_EQ(record.job, "llm");
  EXPECT_EQ(record.host, "node0");
  ASSERT_EQ(record.groups.size(), 1u);
  EXPECT_EQ(record.groups[0].identity, "0000000000000007");
  Texts calls;
  for (const ctl::FlightOperation& one : record.groups[0].operations) {
    EXPECT_EQ(one.state, ctl::FlightOperation::State::completed);
    EXPECT_EQ(one.sequence, calls.size());
    calls.push_back(record.calls[one.call].text);
  }
  EXPECT_EQ(calls, (Texts{"all_reduce of 4 float32 sum", "broadcast of 4 float32 from rank 0",
                          "reduce of 4 float32 sum to rank 0", "all_gather of 2 float32",
                          "reduce_scatter of 4 float32 sum", "gather of 2 float32 to rank 0",
                          "scatter of 4 float32 from rank 0", "all_to_all of 2 float32", "barrier",
                          "all_gather of 4 float32"}));
}

TEST_F(FlightRecorderTest, EndsOfAMessageAreNumberedByTheirRanksInTheJob) {
  // Rank 0 of the group is rank 5 of the job, and rank 1 is rank 3.
  World world{.rank = 0, .size = 2, .name = "pp", .members = {{5, {}}, {3, {}}}};
  Member five(world);
  world.rank = 1;
  Member three(world);
  const Tensor tensor = tensor_of(values.data(), 4);
  five.issue({.collective = Collective::send, .input = tensor, .peer = 1}, 0);
  EXPECT_EQ(diagnosed(),
            format("waiting missing [3] send 0 of group \"pp\" waits for rank 3 (pid {}), which is "
                   "outside of collectives; 1 rank waits",
                   ::getpid()));
  CollectiveCall received =
      three.issue({.collective = Collective::recv, .output = tensor, .peer = 0}, 0);
  EXPECT_EQ(diagnosed().substr(0, 12), "waiting hung");
  three.end(received, Code::size_mismatch);
  EXPECT_EQ(diagnosed().substr(0, 19), "waiting missing [3]") << "the group of rank 3 goes on";
}

TEST_F(FlightRecorderTest, KeepsTheNewestOperationsOfAllGroups) {
  Member dp(world_of(0, 1));
  Member tp(world_of(0, 1, "tp"));
  const std::uint64_t count = FlightRing::kOperations;
  std::vector<CollectiveCall> calls;  // more at once than a recorder finds by their places
  for (std::uint64_t i = 0; i < count; ++i) calls.push_back(dp.issue(all_reduce(), i));
  for (CollectiveCall& call : calls) dp.end(call);
  for (std::uint64_t i = 0; i < 10; ++i) tp.run(all_reduce(), i);
  FlightRecorder::dump("");
  const ctl::FlightFiles files = ctl::read_flight_files({folder_.path()});
  ASSERT_EQ(files.records.size(), 1u);
  const auto& groups = files.records[0].record.groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].operations.size(), count - 10);
  EXPECT_EQ(groups[0].operations.front().sequence, 10u);
  EXPECT_EQ(groups[1].operations.size(), 10u);
  for (const ctl::FlightOperation& one : groups[0].operations) EXPECT_TRUE(one.is_over());
}

TEST_F(FlightRecorderTest, AGroupThatIsGoneIsForgotten) {
  World ended = world_of(0, 2);
  ended.generation = 1;
  {
    Member member(ended);
    CollectiveCall aborted = member.issue(all_reduce(), 0);
    member.end(aborted, Code::aborted);
    EXPECT_EQ(diagnosed(),
              "waiting missing [1] all_reduce 0 of group \"dp\" waits for rank 1, which is without "
              "a flight record; 1 rank waits");
  }
  ended.generation = 2;
  Member next(ended);
  next.run(all_reduce(), 0);
  EXPECT_EQ(diagnosed(), "running none [] ");
}

TEST_F(FlightRecorderTest, AHookOfAGroupRecordsIt) {
  const auto groups = test::open_groups(2, {.backend = "loopback", .timeout = 60s},
                                        [](Rank, GroupOptions& options) {
                                          options.hooks = {std::make_shared<FlightRecorder>("llm")};
                                        });
  std::array<std::array<float, 2>, 2> each{};
  test::run_ranks(2, [&](Rank rank) { groups[rank]->all_reduce(tensor_of(each[rank].data(), 2)); });
  EXPECT_EQ(diagnosed(), "running none [] ");
  const WorkPtr work =
      groups[0]->all_reduce(tensor_of(each[0].data(), 2), ReduceOp::sum, {.async = true});
  EXPECT_EQ(diagnosed().substr(0, 32), "waiting missing [1] all_reduce 1");
  work->abort("the test is over");
}

TEST_F(FlightRecorderTest, AFolderThatCannotBeWrittenStopsNobody) {
  Member member(world_of(0, 1));
  ::setenv("C10DD_FLIGHT_DIR", path("none").c_str(), 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(FlightRecorder::dump("").size(), 0u);
  EXPECT_EQ(FlightRecorder::dump("").size(), 0u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "c10dd: cannot write the flight record " + path("none") +
                "/c10dd-flight-llm-0: No such file or directory; set C10DD_FLIGHT_DIR to a folder "
                "with room\n")
      << "once";
  ::setenv("C10DD_FLIGHT_DIR", "/dev/full", 1);
  EXPECT_EQ(FlightRecorder::dump("").size(), 0u);
}

TEST_F(FlightRecorderTest, ALinkInTheFolderIsNotFollowed) {
  Member member(world_of(0, 1), "../a b");
  std::ofstream(path("victim")) << "mine";
  const std::string file = path("c10dd-flight-___a_b-0");
  fs::create_symlink(path("victim"), file);
  fs::create_symlink(path("victim"), format("{}.{}.tmp", file, ::getpid()));
  EXPECT_EQ(FlightRecorder::dump(""), Texts{file});
  EXPECT_FALSE(fs::is_symlink(file));
  EXPECT_EQ(fs::file_size(path("victim")), 4u);
}

TEST_F(FlightRecorderTest, OffMeansOff) {
  ::setenv("C10DD_FLIGHT", "off", 1);
  Member member(world_of(0, 1));
  member.run(all_reduce(), 0);
  EXPECT_EQ(FlightRecorder::dump("").size(), 0u);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(FlightRecorderTest, AForkedProcessBeginsAnew) {
  Member member(world_of(0, 1));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool nothing = FlightRecorder::dump("").empty();
    auto* const own = new Member(world_of(3, 4));
    const bool writes = FlightRecorder::dump("").size() == 1;
    delete own;
    ::_exit(nothing && writes && fs::exists(path("c10dd-flight-llm-3")) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(fs::exists(path("c10dd-flight-llm-0")));
}

TEST_F(FlightRecorderTest, ThreadsMayRecordWhileItIsWritten) {
  Member dp(world_of(0, 1));
  Member tp(world_of(0, 1, "tp"));
  constexpr std::uint64_t kMany = 20'000;
  std::vector<std::thread> threads;
  for (Member* const member : {&dp, &tp}) {
    threads.emplace_back([member] {
      for (std::uint64_t i = 0; i < kMany; ++i) member->run(all_reduce(), i);
    });
  }
  for (int i = 0; i < 5; ++i) diagnosed();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(diagnosed(), "running none [] ");
}

}  // namespace
}  // namespace c10dd::collectives
