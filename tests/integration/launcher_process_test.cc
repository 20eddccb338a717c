// SPDX-License-Identifier: Apache-2.0
// The processes of c10drun: started, heard to the last byte, signalled by group, reaped.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/launcher/options.h"
#include "client/launcher/workers.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool holds_within(std::chrono::seconds limit, const std::function<bool()>& condition) {
  for (const auto end = Clock::now() + limit; Clock::now() < end;) {
    if (condition()) return true;
    std::this_thread::yield();
  }
  return condition();
}

bool is_alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  return (stat >> number >> name >> state) && state != "Z";
}

class LauncherWorkers : public testing::Test {
 protected:
  Workers& start(const std::string& script, std::uint32_t size = 1) {
    options_.log_dir = folder_.path() + "/logs";
    options_.command = {"sh", "-c", script};
    options_.daemon = {{{"127.0.0.1", 1}}, "j"};
    Plan plan;
    plan.generation = 1;
    plan.local_size = plan.world_size = size;
    workers_ = std::make_unique<Workers>(home_, options_, plan);
    workers_->start();
    return *workers_;
  }
  void run_until(const std::function<bool()>& condition) {
    const auto end = Clock::now() + 20s;
    while (!condition() && Clock::now() < end) loop_.run_one_for(100ms);
    ASSERT_TRUE(condition());
  }
  void run_to_the_end() {
    run_until([this] { return workers_->running() == 0; });
  }
  std::string log(int rank, const std::string& name) {
    return contents(options_.log_dir + "/1/" + std::to_string(rank) + "/" + name + ".log");
  }

  TemporaryDirectory folder_;
  OrphanKiller orphan_killer_{""};
  boost::asio::io_context loop_;
  Console console_{false, false};
  Options options_;
  WorkersContext home_{
      loop_, orphan_killer_, console_, "/bin/sh", {{"PATH", "/bin:/usr/bin"}}, folder_.path()};
  std::unique_ptr<Workers> workers_;
};

TEST_F(LauncherWorkers, KeepsEveryByteInOrder) {
  start("seq 1 50000; printf end >&2; printf last", 2);
  run_to_the_end();
  EXPECT_FALSE(workers_->failure().has_value());
  std::string expected;
  for (int i = 1; i <= 50'000; ++i) expected += std::to_string(i) + "\n";
  for (const int rank : {0, 1}) {
    EXPECT_EQ(log(rank, "stdout"), expected + "last");
    EXPECT_EQ(log(rank, "stderr"), "end");
  }
}

TEST_F(LauncherWorkers, HasNoStandardInput) {
  start("cat; echo ended");
  run_to_the_end();
  EXPECT_EQ(log(0, "stdout"), "ended\n");
}

TEST_F(LauncherWorkers, RemembersTheFirstThatFailsWithItsLastLines) {
  start("[ $RANK = 1 ] || exec sleep 60; echo out; echo one >&2; printf two >&2; exit 3", 3);
  run_until([this] { return workers_->failure().has_value(); });
  EXPECT_EQ(workers_->failure()->rank, 1u);
  EXPECT_EQ(workers_->failure()->exit.text(), "exited with code 3");
  EXPECT_EQ(workers_->failure()->last.text(100, ""), "one\ntwo\n");
  workers_->stop();
  EXPECT_EQ(workers_->stopped(), 2u);
  run_to_the_end();
  EXPECT_EQ(workers_->failure()->rank, 1u);
}

TEST_F(LauncherWorkers, ShowsStandardOutputWhenThereIsNoOther) {
  start("echo out; kill -SEGV $$");
  run_to_the_end();
  ASSERT_TRUE(workers_->failure().has_value());
  EXPECT_EQ(workers_->failure()->exit.text(), "was killed by SIGSEGV");
  EXPECT_EQ(workers_->failure()->exit.shell_code(), 139);
  EXPECT_EQ(workers_->failure()->last.text(100, ""), "out\n");
}

TEST_F(LauncherWorkers, WorkersCanBeAskedBeforeTheyAreKilled) {
  start("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.01; done");
  run_until([this] { return log(0, "stdout") == "ready\n"; });
  workers_->stop();
  run_to_the_end();
  EXPECT_EQ(log(0, "stdout"), "ready\nasked\n");
  EXPECT_FALSE(workers_->failure().has_value());
}

TEST_F(LauncherWorkers, ChildrenOfAWorkerEndWithIt) {
  start("sleep 600 & echo $!; exit 0");
  run_to_the_end();
  const pid_t grandchild = std::stoi(log(0, "stdout"));
  EXPECT_TRUE(holds_within(5s, [&] { return !is_alive(grandchild); }));
}

TEST_F(LauncherWorkers, SaysWhyAProgramCannotBeExecuted) {
  const std::string script = folder_.path() + "/script";
  std::ofstream(script) << "#!/nowhere/interpreter\n";
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  home_.program = script;
  start("");
  run_to_the_end();
  ASSERT_TRUE(workers_->failure().has_value());
  EXPECT_EQ(workers_->failure()->exit.code, 127);
  EXPECT_NE(workers_->failure()->last.text(1000, "").find(
                "is the interpreter that its first line names missing?"),
            std::string::npos);
}

TEST_F(LauncherWorkers, DoesNotWaitForWhoKeepsTheOutputOpenOutsideOfTheGroup) {
  const std::string escaped_now = folder_.path() + "/escaped";
  start("setsid sh -c 'touch " + escaped_now + "; exec sleep 600' & echo $!; while [ ! -e " +
        escaped_now + " ]; do sleep 0.01; done");
  run_to_the_end();
  const pid_t escaped = std::stoi(log(0, "stdout"));
  EXPECT_TRUE(is_alive(escaped));
  kill(escaped, SIGKILL);
}

TEST(LauncherOrphanKiller, KillsTheGroupsWhenTheLauncherIsGone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    OrphanKiller orphan_killer("");
    // The child of the worker is not killed by the kernel.
    Child worker = spawn("/bin/sh", {"sh", "-c", "sleep 600 & echo $!; wait"}, {"PATH=/bin"});
    orphan_killer.watch(worker.pid);
    char text[32] = {};
    while (::read(worker.out.get(), text, sizeof text) <= 0) {
    }
    if (::write(ends[1], text, sizeof text) < 0) _exit(1);
    raise(SIGKILL);
  }
  char text[32] = {};
  ASSERT_GT(::read(ends[0], text, sizeof text), 0);
  const pid_t grandchild = std::stoi(text);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(holds_within(5s, [&] { return !is_alive(grandchild); }));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace c10dd::run
