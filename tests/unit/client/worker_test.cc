// SPDX-License-Identifier: Apache-2.0
// A worker of c10drun and its output: real processes whose lines interleave, have no end, come
// after the end, or cannot be written.
#include "client/launcher/worker.h"

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::Pipe;
using test::ReplacedStream;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

client::Descriptor file_at(const std::string& path) {
  return client::Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

class WorkerTest : public testing::Test {
 protected:
  /// A worker that runs a script, and what it has told.
  struct Started {
    std::shared_ptr<Worker> worker;
    int reaps = 0;
    int ends = 0;
  };

  std::unique_ptr<Started> start(Child child, Console& console, std::uint32_t rank = 0,
                                 LogFiles files = {}) {
    auto started = std::make_unique<Started>();
    started->worker =
        std::make_shared<Worker>(loop_, console, rank, std::move(child), std::move(files));
    Started* const told = started.get();
    started->worker->start(
        [told] {
          ++told->reaps;
          EXPECT_TRUE(told->worker->running());
          EXPECT_EQ(kill(told->worker->pid(), 0), 0) << "its number is not free yet";
        },
        [told] {
          ++told->ends;
          EXPECT_FALSE(told->worker->running());
          EXPECT_NE(kill(told->worker->pid(), 0), 0) << "it was reaped";
        });
    return started;
  }
  std::unique_ptr<Started> start(const std::string& script, Console& console, int in = -1,
                                 std::uint32_t rank = 0, LogFiles files = {}) {
    return start(spawn("/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, in), console, rank,
                 std::move(files));
  }
  bool run_until(const std::function<bool()>& condition) {
    return test::comes_true([&] {
      loop_.run_one_for(10ms);
      return condition();
    });
  }
  bool run_to_end(const Started& one) {
    return run_until([&] { return one.ends > 0; });
  }
  /// Runs what is ready. Returns whether nothing keeps the worker any more.
  bool is_forgotten(Started& one) {
    const std::weak_ptr<Worker> watched = std::exchange(one.worker, nullptr);
    loop_.poll();
    return watched.expired();
  }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      loop_.get_executor()};
  boost::asio::steady_timer keeps_{loop_};  // what the loop opens at its first use
  TemporaryDirectory home_;
  Console silence_{false, false};
};

TEST_F(WorkerTest, EndsOnceAndKeepsNothing) {
  const std::ptrdiff_t before = test::open_descriptors();
  const auto first = start("echo a; echo b >&2; exit 3", silence_);
  const auto second = start("echo c; kill -KILL $$", silence_);
  EXPECT_TRUE(run_to_end(*first));
  EXPECT_TRUE(run_to_end(*second));
  EXPECT_EQ(first->worker->exit().code, 3);
  EXPECT_EQ(second->worker->exit().signal, SIGKILL);
  EXPECT_EQ(first->worker->last().lines(), std::deque<std::string>{"b"}) << "of stderr";
  EXPECT_EQ(second->worker->last().lines(), std::deque<std::string>{"c"}) << "of stdout";
  EXPECT_TRUE(is_forgotten(*first));
  EXPECT_TRUE(is_forgotten(*second));
  EXPECT_EQ(first->reaps + second->reaps, 2);
  EXPECT_EQ(first->ends + second->ends, 2);
  EXPECT_LE(test::open_descriptors(), before);
}

TEST_F(WorkerTest, LinesOfTwoWorkersDoNotMix) {
  const char* const script =
      "for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29; "
      "do printf 'begin '; printf 'end %d\\n' $i; done";
  Pipe out;
  {
    const ReplacedStream shown(STDOUT_FILENO, out.in());
    Console console(true, true);
    const auto first = start(script, console, -1, 0);
    const auto second = start(script, console, -1, 1);
    EXPECT_TRUE(run_to_end(*first));
    EXPECT_TRUE(run_to_end(*second));
    console.finish();
  }
  std::istringstream lines(out.rest());
  int next[] = {0, 0};
  for (std::string line; std::getline(lines, line);) {
    const int rank = line.starts_with("[1] ") ? 1 : 0;
    if (line == "[0] begin " || line == "[1] begin ") continue;  // was shown after a while
    EXPECT_EQ(line, "[" + std::to_string(rank) + "] begin end " + std::to_string(next[rank]++));
  }
  EXPECT_EQ(next[0], 30);
  EXPECT_EQ(next[1], 30);
}

TEST_F(WorkerTest, ALineWithoutAnEndIsShownAfterAWhileAndGoesOn) {
  Pipe out;
  Pipe input;
  std::string shown;
  {
    const ReplacedStream replaced(STDOUT_FILENO, out.in());
    Console console(true, true);
    const auto one = start("printf '50 %%'; read x; printf ', 60 %%'; read x; echo; printf last",
                           console, input.out());
    EXPECT_TRUE(run_until([&] { return (shown += out.available()) == "[0] 50 %"; })) << shown;
    input.write("\n");
    EXPECT_TRUE(run_until([&] { return (shown += out.available()).ends_with(", 60 %"); }));
    input.write("\n");
    EXPECT_TRUE(run_to_end(*one));
    EXPECT_EQ(one->worker->last().lines(), (std::deque<std::string>{"50 %, 60 %", "last"}));
    console.finish();
  }
  EXPECT_EQ(shown + out.rest(), "[0] 50 %, 60 %\n[0] last\n");
}

TEST_F(WorkerTest, LogsGetTheBytesOfTheirStreamUnchanged) {
  LogFiles files{file_at(home_.path() + "/out"), file_at(home_.path() + "/error")};
  const auto one = start("printf 'a\\r\\n\\0b'; printf c >&2", silence_, -1, 0, std::move(files));
  EXPECT_TRUE(run_to_end(*one));
  EXPECT_EQ(content(home_.path() + "/out"), std::string("a\r\n\0b", 5));
  EXPECT_EQ(content(home_.path() + "/error"), "c");
}

TEST_F(WorkerTest, WhatIsInThePipeWhenTheProcessEndsIsCopied) {
  LogFiles files{file_at(home_.path() + "/out"), {}};
  Child child = spawn("/bin/sh", {"sh", "-c", "printf '%060000d' 7; printf last >&2"}, {});
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOWAIT), 0);
  const auto one = start(std::move(child), silence_, 0, std::move(files));
  EXPECT_TRUE(run_to_end(*one));
  EXPECT_EQ(content(home_.path() + "/out").size(), 60'000u);
  EXPECT_EQ(one->worker->last().lines(), std::deque<std::string>{"last"});
}

TEST_F(WorkerTest, ALogThatCannotBeWrittenIsToldOnceAndTheTrainingGoesOn) {
  Pipe out;
  Pipe error;
  Pipe input;
  std::string shown;
  {
    const ReplacedStream first(STDOUT_FILENO, out.in());
    const ReplacedStream second(STDERR_FILENO, error.in());
    Console console(false, true);
    LogFiles files{client::Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)), {}};
    const auto one = start("echo a; read x; echo b", console, input.out(), 0, std::move(files));
    EXPECT_TRUE(run_until([&] { return (shown += out.available()) == "a\n"; }));
    input.write("\n");
    EXPECT_TRUE(run_to_end(*one));
    EXPECT_TRUE(one->worker->exit().well());
    console.finish();
  }
  EXPECT_EQ(out.rest(), "b\n");
  EXPECT_EQ(error.rest(),
            "c10drun: cannot write to a log file: no space left on device; the rest of this output "
            "is not logged\n");
}

TEST_F(WorkerTest, EndsAlthoughAProcessOutsideItsGroupKeepsItsPipesOpen) {
  Pipe input;
  const auto one =
      start("setsid sh -c 'echo $$; exec sleep 300' & read x; echo bye", silence_, input.out());
  EXPECT_TRUE(run_until([&] { return !one->worker->last().empty(); }));
  const pid_t stays = std::stoi(one->worker->last().lines().front());
  input.write("\n");
  EXPECT_TRUE(run_to_end(*one));
  EXPECT_TRUE(one->worker->exit().well());
  EXPECT_EQ(kill(stays, 0), 0) << "it is not of the worker's group";
  EXPECT_TRUE(is_forgotten(*one));
  input.close_in();
  kill(stays, SIGKILL);
}

TEST_F(WorkerTest, WithoutAProcessDescriptorItsEndIsFoundToo) {
  Pipe input;
  Child child = spawn("/bin/sh", {"sh", "-c", "read x; exit 3"}, {}, input.out());
  child.process = client::Descriptor();
  const auto one = start(std::move(child), silence_);
  loop_.run_for(50ms);  // it has looked more than once
  EXPECT_EQ(one->ends, 0);
  input.write("\n");
  EXPECT_TRUE(run_to_end(*one));
  EXPECT_EQ(one->worker->exit().code, 3);
  EXPECT_TRUE(is_forgotten(*one));
}

TEST_F(WorkerTest, AnotherMayHaveReapedIt) {
  Child child = spawn("/bin/sh", {"sh", "-c", "exit 0"}, {});
  EXPECT_EQ(waitpid(child.pid, nullptr, 0), child.pid);
  auto worker = std::make_shared<Worker>(loop_, silence_, 0, std::move(child), LogFiles());
  bool ended = false;
  worker->start([] {}, [&] { ended = true; });
  EXPECT_TRUE(run_until([&] { return ended; }));
  EXPECT_FALSE(worker->exit().known);
  EXPECT_FALSE(worker->exit().well());
}

TEST_F(WorkerTest, AbandonKillsAndReapsAndTellsNobody) {
  Pipe silent;
  for (const bool with_descriptor : {true, false}) {
    const std::ptrdiff_t before = test::open_descriptors();
    Child child = spawn("/bin/sh", {"sh", "-c", "trap '' TERM; cat"}, {}, silent.out());
    if (!with_descriptor) child.process = client::Descriptor();
    const auto one = start(std::move(child), silence_);
    const pid_t pid = one->worker->pid();
    loop_.poll();
    one->worker->abandon();
    one->worker->abandon();
    EXPECT_FALSE(one->worker->running());
    EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "it was reaped";
    EXPECT_EQ(one->worker->signal_handlers(SIGRTMIN + 7), 0u);
    EXPECT_TRUE(is_forgotten(*one));
    EXPECT_EQ(one->reaps + one->ends, 0);
    EXPECT_LE(test::open_descriptors(), before);
  }
}

TEST_F(WorkerTest, ASignalReachesItsWholeGroup) {
  Pipe held;
  const auto one = start(
      "trap 'echo term; exit 4' TERM; exec 3>&0; sh -c 'echo ready; exec sleep 1000 >/dev/null "
      "2>&1' & wait",
      silence_, held.in());
  held.close_in();
  EXPECT_TRUE(run_until([&] { return !one->worker->last().empty(); }));
  one->worker->signal(SIGTERM);
  EXPECT_TRUE(held.has_ended());
  EXPECT_TRUE(run_to_end(*one));
  EXPECT_EQ(one->worker->exit().code, 4);
  EXPECT_EQ(one->worker->last().lines(), (std::deque<std::string>{"ready", "term"}));
}

}  // namespace
}  // namespace c10dd::run
