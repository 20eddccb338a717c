// SPDX-License-Identifier: Apache-2.0
// How c10drun prints the lines of several workers, and its notes, on one console.
#include "client/launcher/console.h"

#include <gtest/gtest.h>
#include <pty.h>

#include <functional>
#include <string>

#include "client/launcher/output.h"
#include "tests/unit/client/process_tools.h"

namespace c10dd::run {
namespace {

using test::Pipe;
using test::ReplacedStream;

/// What a console has printed on both streams.
struct Printed {
  std::string out;
  std::string error;
};

Printed printed_by(const std::function<void(Console&)>& use, bool prefix = true,
                   bool workers = true) {
  Pipe out;
  Pipe error;
  {
    const ReplacedStream first(STDOUT_FILENO, out.in());
    const ReplacedStream second(STDERR_FILENO, error.in());
    Console console(prefix, workers);
    use(console);
    console.flush();
    console.finish();
  }
  return {out.rest(), error.rest()};
}

TEST(ConsoleTest, EachLineHasThePrefixOfItsWorkerOnItsStream) {
  const auto lines = [](Console& console) {
    console.line(1, 0, "a");
    console.line(2, 1, "b");
    console.line(1, 1, "");
    console.line(1, 1, "c");
  };
  const Printed with = printed_by(lines);
  EXPECT_EQ(with.out, "[0] a\n[1] \n[1] c\n");
  EXPECT_EQ(with.error, "[1] b\n");
  const Printed without = printed_by(lines, false);
  EXPECT_EQ(without.out, "a\n\nc\n");
  EXPECT_EQ(without.error, "b\n");
}

TEST(ConsoleTest, PrintsOnlyNotesIfItDoesNotPrintWorkers) {
  const Printed printed = printed_by(
      [](Console& console) {
        console.line(1, 0, "a");
        console.part(2, 0, "b");
        console.note("rank 0\nc10drun: forged");
      },
      true, false);
  EXPECT_EQ(printed.out, "");
  EXPECT_EQ(printed.error, "c10drun: rank 0?c10drun: forged\n");
}

TEST(ConsoleTest, APartGoesOnWhereItHasEndedUntilAnotherWorkerWrites) {
  const Printed printed = printed_by([](Console& console) {
    console.part(1, 0, "10 %");
    console.part(1, 0, "10 %, 20 %");
    console.part(2, 0, "other stream");
    console.line(1, 0, "10 %, 20 %");
    console.part(1, 0, "30 %");
    console.line(1, 1, "from 1");
    console.line(1, 0, "30 %, 40 %");
    console.part(2, 1, "from 1");
    console.note("a note");
    console.line(2, 1, "from 1, whole");
  });
  EXPECT_EQ(printed.out, "[0] 10 %, 20 %\n[0] 30 %\n[1] from 1\n[0] 30 %, 40 %\n");
  EXPECT_EQ(printed.error, "[0] other stream\n[1] from 1\nc10drun: a note\n[1] from 1, whole\n");
}

TEST(ConsoleTest, ANoteComesAfterTheLinesBeforeIt) {
  Pipe both;
  {
    const ReplacedStream out(STDOUT_FILENO, both.in());
    const ReplacedStream error(STDERR_FILENO, both.in());
    Console console(true, true);
    console.line(1, 0, "before");
    console.line(2, 0, "error");
    console.note("note");
    console.line(1, 0, "after");
    console.flush();
    console.finish();
  }
  EXPECT_EQ(both.rest(), "[0] before\n[0] error\nc10drun: note\n[0] after\n");
}

TEST(ConsoleTest, PrintsManyLinesWithoutAFlush) {
  Pipe out;
  Pipe error;
  const ReplacedStream first(STDOUT_FILENO, out.in());
  const ReplacedStream second(STDERR_FILENO, error.in());
  Console console(true, true);
  const std::string line(kLineBytes, 'x');
  for (int i = 0; i < 4; ++i) console.line(1, 0, line);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out.until("\n").size(), line.size() + 5);
}

TEST(ConsoleTest, ATerminalGetsAColourForEachWorkerUnlessTheUserWantsNone) {
  const auto on_terminal = [](const char* no_color) {
    no_color == nullptr ? unsetenv("NO_COLOR") : setenv("NO_COLOR", no_color, 1);
    termios raw{};
    cfmakeraw(&raw);
    int master = -1;
    int slave = -1;
    EXPECT_EQ(openpty(&master, &slave, nullptr, &raw, nullptr), 0);
    const client::Descriptor reader(master);
    const client::Descriptor terminal(slave);
    {
      const ReplacedStream out(STDOUT_FILENO, terminal.get());
      Console console(true, true);
      console.line(1, 0, "a");
      console.line(1, 7, "b");
      console.flush();
      console.finish();
    }
    char text[256];
    const ssize_t n = read(reader.get(), text, sizeof text);
    return std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  };
  EXPECT_EQ(on_terminal(nullptr), "\x1b[36m[0] \x1b[0ma\n\x1b[32m[7] \x1b[0mb\n");
  EXPECT_EQ(on_terminal(""), "\x1b[36m[0] \x1b[0ma\n\x1b[32m[7] \x1b[0mb\n");
  EXPECT_EQ(on_terminal("1"), "[0] a\n[7] b\n");
  unsetenv("NO_COLOR");
}

}  // namespace
}  // namespace c10dd::run
