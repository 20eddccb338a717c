// SPDX-License-Identifier: Apache-2.0
// How c10drun starts and reaps processes: real programs, some that cannot be executed, that leave
// children, that die, and a launcher that dies or has no descriptors.
#include "client/launcher/spawn.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <system_error>

#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"

namespace c10dd::run {
namespace {

using test::Pipe;

Child shell(const std::string& script, int in = -1) {
  return spawn("/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, in);
}

/// Reads to the end of a stream of a child.
std::string rest_of(const client::Descriptor& stream) {
  std::string text;
  char bytes[4096];
  EXPECT_TRUE(test::comes_true([&] {
    const ssize_t n = read(stream.get(), bytes, sizeof bytes);
    if (n > 0) text.append(bytes, static_cast<std::size_t>(n));
    return n == 0;
  }));
  return text;
}

Exit end_of(const Child& child) {
  EXPECT_TRUE(test::comes_true([&] { return has_ended(child); }));
  return reap(child);
}

TEST(SpawnTest, GivesArgumentsEnvironmentAndThreeStreamsToEachOfTwoChildren) {
  Pipe first_input;
  Pipe second_input;
  const char* const script = "echo $0 $1 $A $B $C; echo error $A >&2; cat";
  const Child first =
      spawn("/bin/sh", {"sh", "-c", script, "name", "x y"}, {"A=1", "B=2"}, first_input.out());
  const Child second = spawn("/bin/sh", {"sh", "-c", script}, {"A=3", "C=4"}, second_input.out());
  EXPECT_FALSE(has_ended(first));
  EXPECT_EQ(getpgid(first.pid), first.pid);
  EXPECT_EQ(getpgid(second.pid), second.pid);
  for (const int fd : {first.out.get(), first.error.get(), second.out.get()}) {
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
  }
  first_input.write("in 1\n");
  first_input.close_in();
  second_input.write("in 2\n");
  second_input.close_in();
  EXPECT_EQ(rest_of(second.out), "sh 3 4\nin 2\n");
  EXPECT_EQ(rest_of(second.error), "error 3\n");
  EXPECT_EQ(rest_of(first.out), "name x y 1 2\nin 1\n");
  EXPECT_EQ(rest_of(first.error), "error 1\n");
  EXPECT_TRUE(end_of(first).well());
  EXPECT_TRUE(end_of(second).well());
}

TEST(SpawnTest, AChildWithoutInputReadsNothing) {
  const Child child = shell("cat; exit 4");
  EXPECT_EQ(rest_of(child.out), "");
  EXPECT_EQ(end_of(child).code, 4);
}

TEST(SpawnTest, TheProcessDescriptorTellsTheEnd) {
  Pipe input;
  const Child child = shell("read line", input.out());
  ASSERT_TRUE(child.process);
  pollfd ended{child.process.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  input.write("\n");
  EXPECT_EQ(poll(&ended, 1, 60'000), 1);
  EXPECT_TRUE(has_ended(child));
  EXPECT_TRUE(reap(child).well());
  EXPECT_TRUE(has_ended(child)) << "also after it was reaped";
}

TEST(SpawnTest, ReapKillsWhatTheChildHasLeftInItsGroup) {
  Pipe held;
  const Child child = shell("exec 3>&0; sleep 1000 >/dev/null 2>&1 & exit 7", held.in());
  held.close_in();
  EXPECT_EQ(rest_of(child.out), "");
  pollfd end{held.out(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 0), 0) << "it lives";
  const Exit exit = end_of(child);
  EXPECT_EQ(exit.code, 7);
  EXPECT_EQ(exit.signal, 0);
  EXPECT_TRUE(held.has_ended());
}

TEST(SpawnTest, TellsCodesSignalsAndWhatIsNotKnown) {
  const Exit code = end_of(shell("exit 3"));
  EXPECT_EQ(code.text(), "exited with code 3");
  EXPECT_EQ(code.shell_code(), 3);
  EXPECT_FALSE(code.well());
  const Exit killed = end_of(shell("kill -SEGV $$"));
  EXPECT_EQ(killed.text(), "was killed by SIGSEGV");
  EXPECT_EQ(killed.shell_code(), 139);
  EXPECT_FALSE(killed.well());
  const Child stolen = shell("exit 0");
  EXPECT_EQ(waitpid(stolen.pid, nullptr, 0), stolen.pid);
  const Exit unknown = reap(stolen);
  EXPECT_EQ(unknown.text(), "has ended with an unknown exit code");
  EXPECT_EQ(unknown.shell_code(), kUnknownCode);
  EXPECT_FALSE(unknown.well());
  EXPECT_EQ(signal_name(SIGRTMIN + 8), "signal " + std::to_string(SIGRTMIN + 8));
}

TEST(SpawnTest, AProgramThatCannotBeExecutedSaysWhy) {
  const Child missing = spawn("/nowhere/x", {"x"}, {});
  EXPECT_EQ(rest_of(missing.error),
            "c10drun: cannot execute /nowhere/x: No such file or directory (is the "
            "interpreter that its first line names missing?)\n");
  EXPECT_EQ(end_of(missing).code, 127);
  const Child denied = spawn("/etc/passwd", {"x"}, {});
  EXPECT_EQ(rest_of(denied.error), "c10drun: cannot execute /etc/passwd: Permission denied\n");
  EXPECT_EQ(end_of(denied).code, 126);
}

TEST(SpawnTest, AChildHasTheDefaultOfEachSignalExceptAnIgnoredHangup) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const test::SignalDisposition user(SIGUSR1, SIG_IGN);
  for (const bool nohup : {false, true}) {
    const test::SignalDisposition hangup(SIGHUP, nohup ? SIG_IGN : SIG_DFL);
    const Child child =
        spawn("/bin/grep", {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}, {});
    EXPECT_EQ(rest_of(child.out),
              std::string("SigBlk:\t0000000000000000\nSigIgn:\t000000000000000") +
                  (nohup ? "1\n" : "0\n"));
    EXPECT_TRUE(end_of(child).well());
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, &before, &after);
  for (int number = 1; number < 32; ++number) {
    EXPECT_EQ(sigismember(&after, number) == 1,
              number == SIGUSR2 || sigismember(&before, number) == 1)
        << number << ": the launcher keeps its own mask";
  }
}

TEST(SpawnTest, AChildDiesWithTheLauncher) {
  Pipe held;
  Pipe silent;
  fcntl(held.in(), F_SETFD, 0);  // the child has it, too
  const int status = test::status_of_child(
      [&] { return spawn("/bin/cat", {"cat"}, {}, silent.out()).pid > 0 ? 0 : 1; });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(held.has_ended());
}

TEST(SpawnTest, WithoutDescriptorsItFailsAndKeepsNone) {
  const std::ptrdiff_t before = test::open_descriptors();
  for (const rlim_t room : {0, 1, 2, 3, 4}) {
    int error = 0;
    {
      const test::FewDescriptors few(room);
      try {
        shell("exit 0");
      } catch (const std::system_error& failed) {
        error = failed.code().value();
      }
    }
    EXPECT_EQ(error, EMFILE) << room;
    EXPECT_LE(test::open_descriptors(), before) << room;
  }
}

TEST(SpawnTest, WithoutAProcessDescriptorAChildIsReapedToo) {
  Pipe input;
  Child child;
  {
    const test::FewDescriptors few(4);  // for the pipes
    child = shell("read line; exit 3", input.out());
  }
  EXPECT_FALSE(child.process);
  EXPECT_FALSE(has_ended(child));
  input.write("\n");
  EXPECT_EQ(end_of(child).code, 3);
}

TEST(SpawnTest, RaisesTheFileLimitUpToTheHardOneAndOnlyForTheLauncher) {
  EXPECT_TRUE(test::holds_in_child([] {
    const auto limit = [] {
      rlimit now{};
      getrlimit(RLIMIT_NOFILE, &now);
      return now.rlim_cur;
    };
    const rlimit low{64, 256};
    setrlimit(RLIMIT_NOFILE, &low);
    raise_file_limit(64);
    if (limit() != 64) return false;
    const Child same = shell("ulimit -n");
    if (rest_of(same.out) != "64\n") return false;
    raise_file_limit(1000);
    if (limit() != 256) return false;
    const Child child = shell("ulimit -n");
    return rest_of(child.out) == "64\n" && limit() == 256;
  }));
}

}  // namespace
}  // namespace c10dd::run
