// SPDX-License-Identifier: Apache-2.0
// The writer of c10drun's console over standard streams that are read late or never, that are
// closed, files and terminals.
#include "client/launcher/console_writer.h"

#include <gtest/gtest.h>
#include <pty.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/unit/client/process_tools.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/entries.h"
#include "tests/unit/slowdown.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using test::Pipe;
using test::ReplacedStream;
using Stream = ConsoleWriter::Stream;

class ConsoleWriterTest : public testing::Test {
 protected:
  /// Runs `use` with both standard streams replaced.
  void with_streams(const std::function<void()>& use) const {
    const ReplacedStream out(STDOUT_FILENO, out_.in());
    const ReplacedStream error(STDERR_FILENO, error_.in());
    use();
  }

  Pipe out_;
  Pipe error_;
};

TEST_F(ConsoleWriterTest, ChunksOfBothStreamsComeInTheOrderOfPut) {
  Pipe both;
  std::string expected;
  {
    const ReplacedStream out(STDOUT_FILENO, both.in());
    const ReplacedStream error(STDERR_FILENO, both.in());
    ConsoleWriter writer;
    for (int i = 0; i < 300; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      writer.put(i % 3 == 0 ? Stream::error : Stream::out, line);
      expected += line;
    }
    writer.finish();
  }
  EXPECT_EQ(both.rest(), expected);
}

TEST_F(ConsoleWriterTest, IsWokenByEachPutAndWakesFinish) {
  constexpr int kRounds = 30;
  std::string expected;
  std::chrono::steady_clock::duration spent{};
  with_streams([&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) {
      ConsoleWriter writer;
      writer.put(Stream::out, "x\n");
      writer.finish();
      expected += "x\n";
    }
    spent = std::chrono::steady_clock::now() - begin;
  });
  EXPECT_EQ(out_.rest(), expected);
  // Without the notice, each finish() would look only after 100 ms, which the sum shows.
  EXPECT_LT(spent, kRounds * 90ms * test::kSlowdown);
}

TEST_F(ConsoleWriterTest, AStreamThatNobodyReadsHoldsUpOnlyItself) {
  out_.fill();
  std::string seen;
  std::string late;
  with_streams([&] {
    ConsoleWriter writer;
    writer.put(Stream::out, "blocked\n");
    writer.put(Stream::error, "seen\n");
    seen = error_.until("seen\n");
    out_.unfill();
    late = out_.until("blocked\n");
    writer.finish();
  });
  EXPECT_EQ(seen, "seen\n");
  EXPECT_EQ(late, "blocked\n");
  EXPECT_EQ(error_.rest(), "");
}

TEST_F(ConsoleWriterTest, AStreamWhoseReaderHasGoneTakesNothingAndIsNotWaitedFor) {
  const test::SignalDisposition ignored(SIGPIPE, SIG_IGN);
  out_.close_out();
  with_streams([&] {
    ConsoleWriter writer;
    writer.put(Stream::out, "lost\n");
    writer.put(Stream::error, "seen\n");
    EXPECT_EQ(error_.until("seen\n"), "seen\n");
    for (int i = 0; i < 10; ++i) writer.put(Stream::out, std::string(1 << 20, 'x') + "\n");
    writer.finish();
  });
  EXPECT_EQ(error_.rest(), "") << "no lines are counted for a stream that is closed";
}

TEST_F(ConsoleWriterTest, LinesThatDoNotFitAreCountedOnceAndSaidWhenThereIsRoom) {
  const std::string large(ConsoleWriter::kQueueBytes - 1, 'a');
  const std::string more(std::size_t{128} << 10, 'b');  // more than a pipe takes of `large`
  std::string after;
  with_streams([&] {
    ConsoleWriter writer;
    writer.put(Stream::out, large + "\n");
    writer.put(Stream::out, "b\nb\n" + more + "\n");
    writer.put(Stream::out, "c\n" + more + "\n");
    EXPECT_EQ(out_.read(large.size() + 1), large + "\n");
    writer.put(Stream::out, "d\n");
    writer.put(Stream::out, "e\n");
    writer.finish();
    after = out_.until("e\n");
  });
  EXPECT_EQ(after,
            "c10drun: 5 lines were dropped here, because nobody read them; use --log-dir to keep "
            "all\nd\ne\n");
  EXPECT_EQ(error_.rest(), "");
}

TEST_F(ConsoleWriterTest, AFullQueueOfOneStreamLeavesRoomInTheOther) {
  error_.fill();
  std::string seen;
  with_streams([&] {
    ConsoleWriter writer(1ms);
    writer.put(Stream::error, std::string(ConsoleWriter::kQueueBytes, 'a'));
    writer.put(Stream::out, "seen\n");
    seen = out_.until("seen\n");
    writer.finish();
  });
  EXPECT_EQ(seen, "seen\n");
}

TEST_F(ConsoleWriterTest, WritesToAFileMoreThanTheQueueHolds) {
  const TemporaryDirectory home;
  const std::string path = home.path() + "/out";
  const client::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  {
    const ReplacedStream out(STDOUT_FILENO, file.get());
    ConsoleWriter writer;
    writer.put(Stream::out, std::string(2 * ConsoleWriter::kQueueBytes, 'a'));
    writer.finish();
  }
  EXPECT_EQ(std::filesystem::file_size(path), 2 * ConsoleWriter::kQueueBytes);
}

TEST_F(ConsoleWriterTest, FinishGivesUpAndSaysHowManyLinesWereDropped) {
  out_.fill();
  with_streams([&] {
    ConsoleWriter writer(1ms);
    writer.put(Stream::out, "a\n");
    writer.put(Stream::out, "b\nb\n");
    writer.finish();
    writer.put(Stream::out, "after the end\n");
    writer.finish();
  });
  out_.unfill();
  EXPECT_EQ(out_.rest(), "");
  EXPECT_EQ(error_.rest(),
            "c10drun: 3 lines were dropped here, because nobody read them; use --log-dir to keep "
            "all\n");
}

TEST_F(ConsoleWriterTest, FinishReturnsAlsoIfItsNoteCannotBePrinted) {
  out_.fill();
  error_.fill();
  with_streams([&] {
    ConsoleWriter writer(1ms);
    writer.put(Stream::out, "a\n");
    writer.finish();
  });
  error_.unfill();
  EXPECT_EQ(error_.rest(), "");
}

TEST_F(ConsoleWriterTest, AWriteThatReturnsAfterFinishHasGivenUpChangesNothing) {
  int master = -1;
  int slave = -1;
  ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  const client::Descriptor reader(master);
  const client::Descriptor terminal(slave);
  const std::size_t threads = test::threads_here();
  {
    const ReplacedStream out(STDOUT_FILENO, terminal.get());
    const ReplacedStream error(STDERR_FILENO, error_.in());
    {
      ConsoleWriter writer(1ms);
      writer.put(Stream::out, std::string(std::size_t{1} << 20, 'a') + "\n");
      writer.finish();  // the thread is in a write to the terminal, which is full
    }
    fcntl(reader.get(), F_SETFL, O_NONBLOCK);
    EXPECT_TRUE(test::comes_true([&] {
      char bytes[4096];
      static_cast<void>(!::read(reader.get(), bytes, sizeof bytes));
      return test::threads_here() <= threads;
    })) << "its thread ends with the writer";
  }
  EXPECT_NE(error_.rest().find("c10drun: 1 lines were dropped here"), std::string::npos);
}

TEST_F(ConsoleWriterTest, HasAThreadFromTheFirstPutToItsEnd) {
  const std::size_t threads = test::threads_here();
  with_streams([&] {
    ConsoleWriter writer;
    writer.finish();
    EXPECT_LE(test::threads_here(), threads) << "c10drun forks before it prints";
    writer.put(Stream::out, "x\n");
    writer.put(Stream::error, "x\n");
    writer.finish();
    EXPECT_LE(test::threads_here(), threads + 1);
  });
  EXPECT_TRUE(test::comes_true([&] { return test::threads_here() <= threads; }));
}

}  // namespace
}  // namespace c10dd::run
