// SPDX-License-Identifier: Apache-2.0
// What c10drun does with signals, and as process 1 of a container.
#include "client/launcher/signals.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>

#include "client/launcher/init.h"
#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"

namespace c10dd::run {
namespace {

using test::Pipe;

sigset_t set_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

bool is_blocked(int number) {
  sigset_t now;
  sigprocmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, number) == 1;
}

TEST(LauncherSignals, ThoseThatEndAndThoseThatArePassedOnAreDifferent) {
  for (const int ending : ending_signals()) {
    for (const int forwarded : forwarded_signals()) EXPECT_NE(ending, forwarded);
  }
}

TEST(LauncherSignals, AreMadeUsableWhateverTheParentHasSet) {
  EXPECT_TRUE(test::holds_in_child([] {
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTIN, SIG_DFL);
    const sigset_t blocked = set_of(SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
    prepare_signals();
    return signal(SIGCHLD, SIG_DFL) == SIG_DFL && signal(SIGPIPE, SIG_DFL) == SIG_IGN &&
           signal(SIGTTIN, SIG_DFL) == SIG_IGN && !is_blocked(SIGTERM);
  }));
}

// ---- handlers ----------------------------------------------------------------------------------

void leave_with_3(int) { _exit(3); }

// Real-time signals, because a fault in the code under test may send them to every process of the
// machine that handles them, and few programs handle these.
const int kFirst = SIGRTMIN + 7;
const int kSecond = SIGRTMIN + 8;

/// A process in a group, 0: a new one, that does this before it says that it is ready.
pid_t start_in_group(pid_t group, const std::function<void()>& prepare) {
  Pipe ready;
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, group);
    prepare();
    static_cast<void>(!::write(ready.in(), "r", 1));
    for (;;) pause();
  }
  EXPECT_EQ(ready.read(1), "r");
  return child;
}

TEST(LauncherSignals, GoToThoseOfAGroupWhoHandleThemOrWaitForThem) {
  const auto handle = [] { signal(kFirst, leave_with_3); };
  const auto wait = [] {
    const sigset_t blocked = set_of(kFirst);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
  };
  const pid_t group = start_in_group(0, [] { signal(kSecond, leave_with_3); });
  const pid_t handler = start_in_group(group, handle);
  const pid_t waiter = start_in_group(group, wait);
  const pid_t stranger = start_in_group(0, handle);
  EXPECT_EQ(send_to_handlers(group, kFirst), 2u);
  int status = 0;
  EXPECT_EQ(waitpid(handler, &status, 0), handler);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(waitpid(group, nullptr, WNOHANG), 0) << "it handles another signal";
  EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0) << "it is in another group";
  EXPECT_EQ(send_to_handlers(group, kFirst), 1u) << "the waiter";
  EXPECT_EQ(send_to_handlers(group, kSecond), 1u);
  EXPECT_EQ(waitpid(group, &status, 0), group);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  for (const pid_t child : {waiter, stranger}) {
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0);
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
  }
  EXPECT_EQ(send_to_handlers(group, kFirst), 0u);
}

// ---- process 1 ---------------------------------------------------------------------------------

constexpr int kNoNamespace = 99;

/// Runs c10drun's part of process 1 in a container, where `launcher` is the rest of c10drun.
/// Returns the exit code of process 1; kNoNamespace if the system allows no container.
int code_of_init(const std::function<int()>& launcher) {
  const int status = test::status_of_child([&] {
    if (unshare(CLONE_NEWPID) != 0) return kNoNamespace;
    const int inner = test::status_of_child([&] {
      if (getpid() != 1) return 98;
      become_child_of_init();
      return launcher();
    });
    return WIFEXITED(inner) ? WEXITSTATUS(inner) : 97;
  });
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(LauncherInit, DoesNothingInAnotherProcess) {
  EXPECT_TRUE(test::holds_in_child([] {
    const pid_t self = getpid();
    become_child_of_init();
    return getpid() == self && waitpid(-1, nullptr, WNOHANG) < 0;
  }));
}

TEST(LauncherInit, EndsAsTheLauncherEnds) {
  const int code = code_of_init([] { return 5; });
  if (code == kNoNamespace) GTEST_SKIP() << "no process namespace";
  EXPECT_EQ(code, 5);
  EXPECT_EQ(code_of_init([] {
              kill(getpid(), SIGKILL);
              return 5;
            }),
            128 + SIGKILL);
}

TEST(LauncherInit, ReapsOrphansAndGoesOn) {
  const int code = code_of_init([] {
    Pipe told;
    for (int round = 0; round < 2; ++round) {
      const pid_t child = fork();
      if (child == 0) {
        const pid_t orphan = fork();
        if (orphan == 0) _exit(0);
        static_cast<void>(!::write(told.in(), &orphan, sizeof orphan));
        _exit(0);
      }
      pid_t orphan = 0;
      waitpid(child, nullptr, 0);
      if (read(told.out(), &orphan, sizeof orphan) != sizeof orphan) return 1;
      if (!test::comes_true([&] { return kill(orphan, 0) != 0; })) return 2;
    }
    return 5;
  });
  if (code == kNoNamespace) GTEST_SKIP() << "no process namespace";
  EXPECT_EQ(code, 5);
}

TEST(LauncherInit, PassesEachSignalOn) {
  const int code = code_of_init([] {
    if (is_blocked(SIGTERM)) return 1;
    for (const int number : {SIGTERM, SIGUSR1, SIGTERM}) {
      const sigset_t expected = set_of(number);
      sigprocmask(SIG_BLOCK, &expected, nullptr);
      kill(getppid(), number);
      const timespec patience{60, 0};
      if (sigtimedwait(&expected, nullptr, &patience) != number) return 2;
    }
    return 5;
  });
  if (code == kNoNamespace) GTEST_SKIP() << "no process namespace";
  EXPECT_EQ(code, 5);
}

}  // namespace
}  // namespace c10dd::run
