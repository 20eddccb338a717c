// SPDX-License-Identifier: Apache-2.0
// The daemon of --standalone: programs in its place that serve, lie, end, or ignore what they are
// told.
#include "client/launcher/standalone.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <fstream>
#include <functional>
#include <sstream>

#include "client/launcher/options.h"
#include "protocol/exit_codes.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;

class StandaloneTest : public testing::Test {
 protected:
  /// Starts a daemon whose program is a script of the shell.
  std::unique_ptr<Standalone> start(const std::string& script,
                                    const std::map<std::string, std::string>& more = {}) {
    // Each has a file of its own, because a shell reads its script while it runs.
    const std::string program = home_.path() + "/c10dd" + std::to_string(++started_);
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    chmod(program.c_str(), 0755);
    std::map<std::string, std::string> inherited = more;
    inherited["PATH"] = "/usr/bin:/bin";
    return std::make_unique<Standalone>(loop_, orphan_killer_, program, inherited, log_);
  }
  /// Returns why a daemon with this script does not start.
  std::string refusal(const std::string& script) {
    try {
      start(script);
    } catch (const Fatal& fatal) {
      EXPECT_EQ(fatal.code(), exit_code::kUnreachable);
      return fatal.what();
    }
    return "it serves";
  }
  std::string log() const {
    std::ostringstream text;
    text << std::ifstream(log_).rdbuf();
    return text.str();
  }
  bool run_until(const std::function<bool()>& condition) {
    return test::comes_true([&] {
      loop_.run_one_for(10ms);
      return condition();
    });
  }

  TemporaryDirectory home_;
  const std::string log_ = home_.path() + "/log";
  OrphanKiller orphan_killer_{""};
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      loop_.get_executor()};
  int started_ = 0;
};

TEST_F(StandaloneTest, StartsADaemonOfItsOwnAndEndsItInGoodOrder) {
  auto daemon = start(
      "echo \"$*|$C10DD_JOB|$C10DDX|$$\" >&2; trap 'echo bye >&2; exit 0' TERM; "
      "echo listening on 127.0.0.1:4321; echo more; sleep 1000 >/dev/null 2>&1 & wait",
      {{"C10DD_JOB", "other"}, {"C10DDX", "kept"}});
  EXPECT_EQ(daemon->port(), 4321);
  EXPECT_TRUE(daemon->running());
  EXPECT_TRUE(run_until([&] { return log().ends_with("\n"); }));
  const std::string told = log();
  EXPECT_TRUE(told.starts_with("--listen 127.0.0.1:0 --engine memory: --shards 1||kept|")) << told;
  const pid_t pid = std::stoi(told.substr(told.rfind('|') + 1));
  EXPECT_EQ(kill(pid, 0), 0);
  const auto second = start("echo listening on 127.0.0.1:4322; exec sleep 1000");
  EXPECT_EQ(second->port(), 4322);
  daemon.reset();
  EXPECT_NE(kill(pid, 0), 0) << "it was reaped";
  EXPECT_EQ(log(), told + "bye\n");
  EXPECT_TRUE(second->running());
}

TEST_F(StandaloneTest, ADaemonThatEndsAtOnceSaysWhy) {
  EXPECT_EQ(refusal("echo no memory >&2; exit 3"),
            "--standalone: the daemon did not start: it exited with code 3; last lines:\n"
            "  no memory\n");
  EXPECT_EQ(refusal("kill -SEGV $$"),
            "--standalone: the daemon did not start: it was killed by SIGSEGV");
}

TEST_F(StandaloneTest, ADaemonThatLiesOrClosesInTheMiddleOfItsLineIsKilled) {
  const std::string killed = "--standalone: the daemon did not start: it was killed by SIGKILL";
  for (const char* line : {"echo hello", "echo listening on nowhere", "echo at 127.0.0.1:4321",
                           "echo listening on 127.0.0.1:x", "printf 'listening on 127.0.0.1:43'"}) {
    EXPECT_EQ(refusal(std::string(line) + "; exec sleep 1000 >&-"), killed) << line;
  }
}

TEST_F(StandaloneTest, ALineThatComesInPiecesIsReadWhole) {
  const auto daemon =
      start("printf 'listening on '; sleep 0.01; echo 127.0.0.1:4321; exec sleep 1000");
  EXPECT_EQ(daemon->port(), 4321);
}

TEST_F(StandaloneTest, TellsThatTheDaemonHasEndedLater) {
  const auto daemon = start("echo listening on 127.0.0.1:4321; sleep 0.01; echo worse; exit 4");
  EXPECT_TRUE(run_until([&] { return !daemon->running(); }));
  EXPECT_EQ(daemon->end(), "exited with code 4; last lines:\n  worse\n");
}

TEST_F(StandaloneTest, AFailedStartKeepsNothing) {
  refusal("exit 3");  // the loop keeps what its first use has opened
  const std::ptrdiff_t before = test::open_descriptors();
  refusal("exit 3");
  loop_.poll();
  EXPECT_LE(test::open_descriptors(), before);
}

TEST(StandaloneProgram, IsMissedWithARemedy) {
  try {
    daemon_program();
    GTEST_SKIP() << "there is a daemon beside this program";
  } catch (const Fatal& fatal) {
    EXPECT_EQ(fatal.code(), kNotFound);
    EXPECT_NE(std::string(fatal.what()).find("/c10dd; install c10dd in the folder of c10drun"),
              std::string::npos)
        << fatal.what();
  }
}

}  // namespace
}  // namespace c10dd::run
