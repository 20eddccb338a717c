// SPDX-License-Identifier: Apache-2.0
// The workers of a node together: real processes, some that fail, that ignore signals, that read
// the standard input, and folders that cannot be made.
#include "client/launcher/workers.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <fstream>
#include <functional>
#include <sstream>

#include "protocol/exit_codes.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::Pipe;
using test::ReplacedStream;

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Two workers, ranks 3 and 4 of 5, in generation 7 of the launch "now".
class WorkersTest : public testing::Test {
 protected:
  WorkersTest() {
    options_.daemon.daemons = {{"127.0.0.1", 9}};
    options_.daemon.job = "job";
    options_.log_dir = home_.path() + "/logs";
    plan_.generation = 7;
    plan_.first_rank = 3;
    plan_.local_size = 2;
    plan_.world_size = 5;
    plan_.store_in_rank0 = true;
    plan_.launch = "now";
  }

  std::unique_ptr<Workers> workers_that_run(const std::string& script) {
    options_.command = {"sh", "-c", script};
    return std::make_unique<Workers>(workers_context_, options_, plan_);
  }
  std::unique_ptr<Workers> start(const std::string& script) {
    auto workers = workers_that_run(script);
    workers->start();
    return workers;
  }
  std::string log_of(int rank, const std::string& stream = "stdout") const {
    return text_of_file(folder_ + "/" + std::to_string(rank) + "/" + stream + ".log");
  }
  bool run_until(const std::function<bool()>& condition) {
    return test::comes_true([&] {
      loop_.run_one_for(10ms);
      return condition();
    });
  }
  bool run_to_end(const Workers& workers) {
    return run_until([&] { return workers.running() == 0; });
  }
  bool logs_are(const std::string& of_3, const std::string& of_4) {
    return run_until([&] { return log_of(3) == of_3 && log_of(4) == of_4; });
  }

  TemporaryDirectory home_;
  const std::string folder_ = home_.path() + "/logs/now/7";
  OrphanKiller orphan_killer_{""};
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      loop_.get_executor()};
  Console console_{true, true};
  WorkersContext workers_context_{loop_,
                                  orphan_killer_,
                                  console_,
                                  "/bin/sh",
                                  {{"PATH", "/usr/bin:/bin"}, {"RANK", "99"}},
                                  home_.path() + "/scratch"};
  Options options_;
  Plan plan_;
};

TEST_F(WorkersTest, EachWorkerHasItsRankAndTheFilterOfTheConsoleIsByLocalRank) {
  options_.console_ranks = {1};
  Pipe out;
  {
    const ReplacedStream shown(STDOUT_FILENO, out.in());
    const auto workers = start("echo $0 $RANK $LOCAL_RANK; echo error $RANK >&2");
    EXPECT_EQ(workers->running(), 2u);
    EXPECT_TRUE(run_to_end(*workers));
    EXPECT_FALSE(workers->failure());
    EXPECT_EQ(workers->stopped(), 0u);
    console_.finish();
  }
  EXPECT_EQ(out.rest(), "[4] sh 4 1\n");
  EXPECT_EQ(log_of(3), "sh 3 0\n");
  EXPECT_EQ(log_of(4), "sh 4 1\n");
  EXPECT_EQ(log_of(3, "stderr"), "error 3\n");
  EXPECT_EQ(log_of(4, "stderr"), "error 4\n");
}

TEST_F(WorkersTest, WithoutALogFolderItWritesNoLogs) {
  options_.log_dir.clear();
  options_.console_ranks = {5};  // nobody
  const auto workers = start("echo $TORCHELASTIC_ERROR_FILE");
  EXPECT_TRUE(run_to_end(*workers));
  EXPECT_TRUE(std::filesystem::is_directory(home_.path() + "/scratch/7/3"));
  EXPECT_TRUE(std::filesystem::is_directory(home_.path() + "/scratch/7/4"));
  EXPECT_TRUE(std::filesystem::is_empty(home_.path() + "/scratch/7/4"));
}

TEST_F(WorkersTest, TheFirstFailureIsKeptWithWhatTheWorkerSaid) {
  Pipe input;
  const ReplacedStream replaced(STDIN_FILENO, input.out());
  options_.stdin_rank = 3;
  const auto workers = start(
      "if [ $RANK = 3 ]; then read x; exit 5; fi; "
      "echo '{\"message\": \"boom\"}' > $TORCHELASTIC_ERROR_FILE; echo why >&2; exit 3");
  EXPECT_TRUE(run_until([&] { return workers->failure().has_value(); }));
  EXPECT_EQ(workers->running(), 1u);
  input.write("\n");
  EXPECT_TRUE(run_to_end(*workers));
  EXPECT_EQ(workers->failure()->rank, 4u);
  EXPECT_EQ(workers->failure()->exit.code, 3);
  EXPECT_EQ(workers->failure()->message, "boom");
  EXPECT_EQ(workers->failure()->last.lines(), std::deque<std::string>{"why"});
  EXPECT_FALSE(workers->stopping());
}

TEST_F(WorkersTest, OneWorkerReadsTheStandardInputAndTheOtherNothing) {
  Pipe input;
  const ReplacedStream replaced(STDIN_FILENO, input.out());
  options_.stdin_rank = 4;
  const auto workers = start("cat; echo end");
  EXPECT_TRUE(logs_are("end\n", ""));
  input.write("for 4\n");
  EXPECT_TRUE(logs_are("end\n", "for 4\n"));
  input.close_in();
  EXPECT_TRUE(run_to_end(*workers));
  EXPECT_EQ(log_of(4), "for 4\nend\n");
}

TEST_F(WorkersTest, WhoEndsAfterASignalHasNotFailedAndWhoIgnoresItIsKilled) {
  const auto workers =
      start("if [ $RANK = 4 ]; then trap '' TERM; fi; echo ready; sleep 1000; sleep 1000");
  EXPECT_TRUE(logs_are("ready\n", "ready\n"));
  workers->stop();
  EXPECT_TRUE(workers->stopping());
  EXPECT_TRUE(run_until([&] { return workers->running() == 1; }));
  workers->stop();
  workers->kill();
  EXPECT_TRUE(run_to_end(*workers));
  EXPECT_EQ(workers->stopped(), 2u) << "of the first signal";
  EXPECT_FALSE(workers->failure());
}

/// A real-time signal, because a fault in the code under test may send it to every process of the
/// machine that handles it, and few programs handle this one.
constexpr int kSave = 41;

TEST_F(WorkersTest, ForwardsASignalToWhoHandlesItAndWakesAll) {
  const auto workers = start(
      "if [ $RANK = 4 ]; then trap 'echo saved; exit 0' 41; fi; "
      "sleep 1000 >/dev/null 2>&1 & echo ready; kill -STOP $$; echo awake; wait");
  const auto stopped = [&](int rank) {
    const std::string log = log_of(rank);
    return log == "ready\n";
  };
  EXPECT_TRUE(run_until([&] { return stopped(3) && stopped(4); }));
  EXPECT_TRUE(run_until([&] {
    EXPECT_EQ(workers->forward(SIGCONT), 0u);
    return log_of(3) == "ready\nawake\n" && log_of(4) == "ready\nawake\n";
  }));
  EXPECT_EQ(workers->forward(kSave), 1u);
  EXPECT_TRUE(run_until([&] { return workers->running() == 1; }));
  EXPECT_EQ(log_of(4), "ready\nawake\nsaved\n");
  EXPECT_EQ(log_of(3), "ready\nawake\n");
  EXPECT_FALSE(workers->failure());
  EXPECT_FALSE(workers->stopping());
}

TEST_F(WorkersTest, ItsEndKillsTheWorkersAndKeepsNothing) {
  loop_.poll();
  std::ptrdiff_t before = 0;
  for (int round = 0; round < 2; ++round) {  // the loop keeps what the first round has opened
    before = test::open_descriptors();
    auto workers = start("echo $$; sleep 1000");
    EXPECT_TRUE(run_until([&] { return log_of(3).ends_with("\n") && log_of(4).ends_with("\n"); }));
    const pid_t first = std::stoi(log_of(3));
    const pid_t second = std::stoi(log_of(4));
    EXPECT_EQ(kill(first, 0) + kill(second, 0), 0);
    workers.reset();
    loop_.poll();
    EXPECT_NE(kill(first, 0), 0);
    EXPECT_NE(kill(second, 0), 0);
    std::filesystem::remove_all(folder_);
  }
  EXPECT_LE(test::open_descriptors(), before);
}

int code_of_start(Workers& workers) {
  try {
    workers.start();
    return 0;
  } catch (const Fatal& fatal) {
    return fatal.code();
  }
}

TEST_F(WorkersTest, AFolderOrLogThatCannotBeMadeEndsTheStart) {
  options_.log_dir = "/dev/null/logs";
  EXPECT_EQ(code_of_start(*workers_that_run("exit 0")), exit_code::kCannotCreate);
  options_.log_dir = home_.path() + "/logs";
  std::filesystem::create_directories(folder_ + "/4/stderr.log");
  auto workers = workers_that_run("echo $$; sleep 1000");
  EXPECT_EQ(code_of_start(*workers), exit_code::kCannotCreate);
  EXPECT_EQ(workers->running(), 1u) << "rank 3 was started before";
  EXPECT_TRUE(run_until([&] { return log_of(3).ends_with("\n"); }));
  workers.reset();
  EXPECT_NE(kill(std::stoi(log_of(3)), 0), 0);
}

TEST_F(WorkersTest, TheStoreIsAPortOfTheNodeUnlessRank0HasIt) {
  plan_.master_address = "10.0.0.1";
  plan_.master_port = "1234";
  const std::string script = "echo $MASTER_ADDR:$MASTER_PORT; sleep 1000";
  auto of_rank0 = start(script);
  EXPECT_TRUE(logs_are("10.0.0.1:1234\n", "10.0.0.1:1234\n"));
  of_rank0.reset();
  std::filesystem::remove_all(folder_);
  plan_.store_in_rank0 = false;
  auto workers = start(script);
  EXPECT_TRUE(run_until([&] { return log_of(3).ends_with("\n") && log_of(4).ends_with("\n"); }));
  const std::string address = log_of(3).substr(0, log_of(3).size() - 1);
  EXPECT_EQ(log_of(3), log_of(4));
  EXPECT_TRUE(address.starts_with("127.0.0.1:"));
  EXPECT_TRUE(client::dial(address, -1, 60s));
  workers.reset();
  EXPECT_EQ(client::dial(address, -1, 60s).error().code, Code::not_found);
}

}  // namespace
}  // namespace c10dd::run
