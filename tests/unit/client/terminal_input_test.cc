// SPDX-License-Identifier: Apache-2.0
// What is typed on a terminal, and a worker that reads it, does not read it, or has gone. Each test
// has a terminal of its own, which controls a forked child.
#include "client/launcher/terminal_input.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <functional>

#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;

/// A process on its terminal, in the foreground, with the input of a worker.
class Typist {
 public:
  Typist() {
    termios mode{};
    cfmakeraw(&mode);
    mode.c_lflag |= ICANON;
    mode.c_cc[VEOF] = 4;
    openpty(&keyboard, &terminal, nullptr, &mode, nullptr);
    setsid();
    ioctl(terminal, TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    input = std::make_shared<TerminalInput>(loop, terminal);
    worker = input->take_worker_end();
    fcntl(worker.get(), F_SETFL, O_NONBLOCK);
    input->start();
  }

  void type(std::string_view text) const {
    static_cast<void>(!::write(keyboard, text.data(), text.size()));
  }
  bool run_until(const std::function<bool()>& condition) {
    return test::comes_true([&] {
      loop.run_one_for(10ms);
      return condition();
    });
  }
  /// Returns whether the worker gets this text next.
  bool gets(std::string_view text) {
    return run_until([&] { return (got += read_now()).ends_with(text); }) &&
           std::exchange(got, "") == text;
  }
  /// Returns whether the worker comes to the end of its input.
  bool ends() {
    return run_until([&] {
      char byte = 0;
      return read(worker.get(), &byte, 1) == 0;
    });
  }
  /// Returns whether nothing keeps the input any more.
  bool is_forgotten() {
    const std::weak_ptr<TerminalInput> watched = std::exchange(input, nullptr);
    loop.poll();
    return watched.expired();
  }
  std::string read_now() const {
    char bytes[4096];
    const ssize_t n = read(worker.get(), bytes, sizeof bytes);
    return {bytes, n > 0 ? static_cast<std::size_t>(n) : 0};
  }

  int keyboard = -1;
  int terminal = -1;
  boost::asio::io_context loop;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard{
      loop.get_executor()};
  std::shared_ptr<TerminalInput> input;
  client::Descriptor worker;
  std::string got;
};

/// Runs a test in a child with a terminal. `test` returns 0, or the number of the step that failed.
int failed_step(const std::function<int(Typist&)>& test) {
  return WEXITSTATUS(test::status_of_child([&] {
    Typist typist;
    return test(typist);
  }));
}

TEST(TerminalInputTest, PassesOnEachLineThatIsTypedAndItsEnd) {
  EXPECT_EQ(failed_step([](Typist& typist) {
              typist.type("one\n");
              if (!typist.gets("one\n")) return 1;
              typist.type("two\n");
              if (!typist.gets("two\n")) return 2;
              typist.type("\x04");  // Ctrl-D
              if (!typist.ends()) return 3;
              return typist.is_forgotten() ? 0 : 4;
            }),
            0);
}

TEST(TerminalInputTest, TakesNothingInTheBackground) {
  EXPECT_EQ(failed_step([](Typist& typist) {
              const pid_t other = fork();
              if (other == 0) {
                for (;;) pause();
              }
              setpgid(other, other);
              if (tcsetpgrp(typist.terminal, other) != 0) return 1;
              typist.type("for the shell\n");
              typist.loop.run_for(30ms);
              if (!typist.read_now().empty()) return 2;
              if (tcsetpgrp(typist.terminal, getpgrp()) != 0) return 3;
              if (!typist.gets("for the shell\n")) return 4;  // nobody has taken it
              tcsetpgrp(typist.terminal, other);
              typist.type("more\n");
              typist.loop.run_for(30ms);
              typist.input->stop();
              kill(other, SIGKILL);
              if (!typist.ends()) return 5;
              return typist.is_forgotten() ? 0 : 6;
            }),
            0);
}

TEST(TerminalInputTest, StopsWhenItIsToldToAndWhenTheWorkerHasGone) {
  EXPECT_EQ(failed_step([](Typist& typist) {
              typist.input->stop();
              typist.type("late\n");
              if (!typist.ends()) return 1;
              return typist.is_forgotten() ? 0 : 2;
            }),
            0);
  EXPECT_EQ(failed_step([](Typist& typist) {
              typist.worker = client::Descriptor();
              typist.type("lost\n");
              const std::weak_ptr<TerminalInput> watched = std::exchange(typist.input, nullptr);
              return typist.run_until([&] { return watched.expired(); }) ? 0 : 1;
            }),
            0);
}

TEST(TerminalInputTest, AWorkerThatDoesNotReadLosesWhatDoesNotFit) {
  EXPECT_EQ(failed_step([](Typist& typist) {
              fcntl(typist.worker.get(), F_SETPIPE_SZ, 4096);
              const std::string line = std::string(2047, 'x') + "\n";
              for (int i = 0; i < 4; ++i) {
                typist.type(line);
                int waiting = 1;
                if (!typist.run_until([&] {
                      return ioctl(typist.terminal, FIONREAD, &waiting) == 0 && waiting == 0;
                    })) {
                  return 1;
                }
              }
              if (!typist.gets(line + line)) return 2;
              typist.type("again\n");
              return typist.gets("again\n") ? 0 : 3;
            }),
            0);
}

TEST(TerminalInputTest, LeavesTheTerminalOpenAndKeepsNothingElse) {
  EXPECT_EQ(failed_step([](Typist& typist) {
              typist.input->stop();
              if (!typist.is_forgotten()) return 1;
              const std::ptrdiff_t before = test::open_descriptors();
              for (int round = 0; round < 2; ++round) {
                auto input = std::make_shared<TerminalInput>(typist.loop, typist.terminal);
                if (round > 0) input->start();
                input->stop();
                input.reset();
                typist.loop.poll();
              }
              if (test::open_descriptors() != before) return 2;
              return isatty(typist.terminal) == 1 ? 0 : 3;
            }),
            0);
}

}  // namespace
}  // namespace c10dd::run
