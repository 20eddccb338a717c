// SPDX-License-Identifier: Apache-2.0
// Files that c10ddctl flight cannot use: each is named in a sentence, and the others still count.
#include "client/ctl/flight_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "client/ctl/arguments.h"
#include "client/ctl/flight.h"
#include "protocol/exit_codes.h"
#include "protocol/utf8.h"
#include "tests/paths.h"
#include "tests/unit/client/flight_records.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::ctl {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::FlightConfig;
using test::FlightEntry;
using test::record_text;
using Texts = std::vector<std::string>;

/// A folder with the records of a job of two ranks, in which rank 1 has not come.
class FlightFilesTest : public testing::Test {
 protected:
  FlightFilesTest() {
    write("trace_0", record_text({FlightEntry()}));
    write("trace_1", record_text({}));
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  Outcome run(const Texts& operands) const {
    Arguments arguments;
    arguments.operands = operands;
    return flight(arguments);
  }
  Outcome run() const { return run({folder_.path()}); }
  /// Returns what is said of a file with these bytes, without its name.
  std::string refusal_of(const std::string& bytes) const {
    write("bad_0", bytes);
    const Outcome out = run({path("bad_0")});
    EXPECT_EQ(out.code, exit_code::kUsage);
    EXPECT_EQ(out.output, "");
    const std::string begin = "cannot read " + path("bad_0") + ": ";
    EXPECT_TRUE(out.error.starts_with(begin)) << out.error;
    return out.error.substr(std::min(begin.size(), out.error.size()));
  }

  const TemporaryDirectory folder_;
};

TEST_F(FlightFilesTest, AFileThatIsNoRecordIsNamed) {
  EXPECT_EQ(refusal_of(""), "it is empty; its disk may have been full");
  EXPECT_EQ(refusal_of("\x80\x02}(X\x07"),
            "the pickle is cut short: it has only 6 bytes; copy it again");
  EXPECT_EQ(refusal_of("{\"version\":"),
            "the JSON is cut short or damaged: incomplete JSON; copy it again");
  EXPECT_EQ(refusal_of(std::string(10'000, ']')).substr(0, 45),
            "the pickle is cut short: it has only 10000 by");
  EXPECT_EQ(refusal_of(std::string(10'000, ']') + std::string(9'999, 'a') + ".").substr(0, 58),
            "the pickle has more than 64 lists and dicts in one another");
  EXPECT_EQ(refusal_of("{\"a\":" + std::string(10'000, '[')).substr(0, 42),
            "the JSON is cut short or damaged: too deep");
  EXPECT_EQ(refusal_of("cos\nsystem\n(X\4\1\1\1truetR.").substr(0, 26),
            "the pickle has code in it,");
  EXPECT_EQ(refusal_of("{}"), "it has no version; is it a flight record?");
  EXPECT_EQ(refusal_of("]."), "it has no version; is it a flight record?");
  EXPECT_EQ(refusal_of(R"({"version":"3.0"})"),
            "it has format \"3.0\"; c10ddctl reads the formats 2.x");
  EXPECT_EQ(refusal_of(R"({"version":"2.1","entries":5})"), "its entries are no list");
}

TEST_F(FlightFilesTest, AnEntryThatLacksSomethingIsNamed) {
  const auto refused = [&](FlightEntry entry) {
    return refusal_of(record_text({FlightEntry(), entry}));
  };
  EXPECT_EQ(refused({.sequence = -1}),
            "its entry 1 has no collective_seq_id that c10ddctl can read");
  EXPECT_EQ(refused({.sequence = -1, .name = "nccl:send 0->1"}),
            "its entry 1 has no p2p_seq_id that c10ddctl can read");
  EXPECT_EQ(refused({.state = "lost"}), "its entry 1 has no state that c10ddctl can read");
  EXPECT_EQ(refusal_of(R"({"version":"2.1","entries":[{}]})"),
            "its entry 0 has no process_group that c10ddctl can read");
}

TEST_F(FlightFilesTest, RanksOfAGroupThatCannotBeReadAreNamedAndLeftOut) {
  const Outcome before = run();
  const auto said = [&](const std::string& ranks) {
    write("trace_1", record_text({}, {FlightConfig(), {.name = "solo", .ranks = ranks}}));
    const Outcome out = run();
    EXPECT_EQ(out.code, before.code) << out.output;
    EXPECT_EQ(out.output.substr(0, out.output.find('\n')),
              before.output.substr(0, before.output.find('\n')));
    return out.error;
  };
  const std::string begin =
      "left out of " + path("trace_1") + ": the ranks of its group \"solo\", which are ";
  const std::string end = "; expected a list of numbers below 131072, such as \"[0, 1]\"";
  for (const char* const ranks : {"0", "0, 1", "[1, x]", "[-1]", "[131072]"}) {
    EXPECT_EQ(said(ranks), begin + '"' + ranks + '"' + end);
  }
  EXPECT_EQ(said("[1]"), "");
  const auto with_config = [&](const std::string& group) {
    write("trace_1", R"({"version":"2.10","pg_config":{"solo":)" + group + "}}");
    return run().error;
  };
  const std::string which =
      "left out of " + path("trace_1") + ": its group \"solo\", which has no ";
  EXPECT_EQ(with_config(R"({"name":"solo"})"), which + "ranks that c10ddctl can read");
  EXPECT_EQ(with_config(R"({"ranks":"[0]"})"), which + "name that c10ddctl can read");
  EXPECT_EQ(with_config("5"), which + "name that c10ddctl can read");
  EXPECT_EQ(with_config(R"({"name":"solo","ranks":5})"), begin + "no list" + end);
  // Nobody is accused of what is left out.
  const FlightEntry waits{.group = "solo"};
  write("trace_0", record_text({}));
  write("trace_1", record_text({waits}, {{.name = "solo", .ranks = "1"}}));
  const std::string output = run().output;
  EXPECT_NE(output.find("waits for ranks that are not known; 1 rank waits\n"), std::string::npos)
      << output;
}

TEST_F(FlightFilesTest, TheOtherRecordsCountIfOneIsDamaged) {
  EXPECT_EQ(run().code, 1);
  EXPECT_EQ(run().error, "");
  write("trace_1", "\x80\x02}");
  const Outcome out = run();
  EXPECT_EQ(out.code, 1);
  EXPECT_EQ(out.error, "cannot read " + path("trace_1") +
                           ": the pickle is cut short: it has only 3 bytes; copy it again");
  EXPECT_NE(out.output.find("waits for rank 1, which is without a flight record"),
            std::string::npos)
      << out.output;
  EXPECT_NE(out.output.find("no record of rank 1\n"), std::string::npos);
}

TEST_F(FlightFilesTest, OtherFilesOfAFolderAreLeftOut) {
  write("README", "text");
  write("model_3", "PK\3\4");
  write("train.log", "text");
  write("trace_00000000000000000001", "text");
  fs::create_directory(path("trace_2"));
  const Outcome out = run();
  EXPECT_EQ(out.error, "");
  EXPECT_TRUE(out.output.ends_with("4 other files are no flight records\n")) << out.output;
}

TEST_F(FlightFilesTest, WhatDoesNotExistOrIsNoFileIsNamed) {
  EXPECT_EQ(run({path("none_0")}).error,
            "cannot read " + path("none_0") + ": No such file or directory");
  fs::create_directory(path("empty"));
  EXPECT_EQ(run({path("empty")}).error,
            "cannot read " + path("empty") +
                ": none of its 0 files is a flight record; their names end in the rank, as in "
                "PREFIX12");
  EXPECT_EQ(run({"/dev/null"}).error, "cannot read /dev/null: it is no file");
  write("trace", record_text({}));
  EXPECT_EQ(run({path("trace")}).error,
            "cannot read " + path("trace") +
                ": its name does not end in a rank below 131072, as PREFIX12 does");
}

TEST_F(FlightFilesTest, AFileThatMayNotBeReadIsNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  fs::permissions(path("trace_1"), fs::perms::none);
  EXPECT_EQ(run().error, "cannot read " + path("trace_1") + ": Permission denied");
}

TEST_F(FlightFilesTest, TheRecordsOfTwoJobsAreNotMixed) {
  const std::string one_job = "; give the records of one run of one job only";
  write("other_0", record_text({}));
  write("other_1", record_text({}));
  EXPECT_EQ(run().code, exit_code::kUsage) << "as many are of another run";
  EXPECT_EQ(run().error,
            path("other_0") + " and " + path("trace_0") + " are both of rank 0" + one_job);
  fs::remove(path("other_0"));
  fs::remove(path("other_1"));
  write("trace_1", record_text({}, {{.ranks = "[1, 2]"}}));
  EXPECT_EQ(run().error, path("trace_0") + " and " + path("trace_1") +
                             " name other ranks of group \"0\"" + one_job);
  write("trace_1", record_text({}, {{.more = R"(,"id":"7")"}}));
  EXPECT_EQ(run().error,
            path("trace_0") + " and " + path("trace_1") + " have different groups \"0\"" + one_job);
  write("trace_1", record_text({}, {FlightConfig()}, R"(,"job":"llm")"));
  EXPECT_EQ(run().error, path("trace_0") + " and " + path("trace_1") +
                             " are of the jobs \"\" and \"llm\"" + one_job);
  write("trace_1", record_text({}, {{.ranks = "[0]"}}));
  EXPECT_EQ(run().error,
            path("trace_1") + " is of rank 1, but its group \"0\" has the ranks [0]" + one_job);
}

/// Writes a file beside the records of the job, and returns what is said of it. The rest is as
/// without it.
class OddFileTest : public FlightFilesTest {
 protected:
  OddFileTest() {
    const std::string three = record_text({FlightEntry()}, {{.ranks = "[0, 1, 2]"}});
    for (const char* name : {"trace_0", "trace_2"}) write(name, three);
    write("trace_1", record_text({}, {{.ranks = "[0, 1, 2]"}}));
    before_ = run();
    EXPECT_EQ(before_.code, 1);
    EXPECT_EQ(before_.error, "");
  }
  std::string said_of(const std::string& name, const std::string& bytes) {
    write(name, bytes);
    return said();
  }
  std::string said() const {
    const Outcome out = run();
    EXPECT_EQ(out.code, before_.code);
    EXPECT_EQ(out.output, before_.output);
    return out.error;
  }

  Outcome before_;
};

TEST_F(OddFileTest, OneOfAnotherJobOrRunIsNamedAndLeftOut) {
  const std::string first = path("trace_0");
  EXPECT_EQ(said_of("trace_3", record_text({}, {FlightConfig()}, R"(,"job":"llm")")),
            "left out " + path("trace_3") + ": " + first + " and " + path("trace_3") +
                " are of the jobs \"\" and \"llm\"");
  EXPECT_EQ(said_of("trace_3", record_text({}, {{.ranks = "[0, 1, 2]"}})),
            "left out " + path("trace_3") + ": " + path("trace_3") +
                " is of rank 3, but its group \"0\" has the ranks [0-2]");
  EXPECT_EQ(said_of("trace_3", record_text({}, {{.ranks = "[0, 3]"}})),
            "left out " + path("trace_3") + ": " + first + " and " + path("trace_3") +
                " name other ranks of group \"0\"");
  fs::remove(path("trace_3"));
  EXPECT_EQ(said_of("other_1", record_text({FlightEntry()}, {{.ranks = "[0, 1, 2]"}})),
            "left out " + path("other_1") + ": " + path("other_1") + " and " + path("trace_1") +
                " are both of rank 1")
      << "most files are named otherwise";
  write("other_2", record_text({}));
  EXPECT_EQ(std::ranges::count(said(), '\n'), 1) << "two are named: " << said();
}

TEST_F(OddFileTest, OneOfTheFutureDoesNotMakeTheOthersOld) {
  write("trace_3", record_text({}, {{.ranks = "[0, 3]"}}));
  fs::last_write_time(path("trace_3"), fs::file_time_type::clock::now() + std::chrono::hours(30));
  EXPECT_EQ(said(), "left out " + path("trace_3") +
                        ": it was written in the future, as its time says; check the clocks");
  for (const char* name : {"trace_0", "trace_1", "trace_2"}) {
    fs::last_write_time(path(name), fs::file_time_type::clock::now() + std::chrono::hours(30));
  }
  fs::remove(path("trace_3"));
  EXPECT_EQ(said(), "") << "the clock of this machine is wrong";
}

TEST_F(OddFileTest, WhatIsNoFileIsLeftOut) {
  fs::create_directory(path("trace_3"));
  ASSERT_EQ(::mkfifo(path("trace_4").c_str(), 0600), 0);
  EXPECT_EQ(said(), "");
  fs::create_symlink(path("none"), path("trace_5"));
  EXPECT_EQ(said(), "cannot read " + path("trace_5") + ": No such file or directory");
  write("trace_6", "");
  write("trace_7", "\x80\x02}(X\x07");
  const std::string error = said();
  EXPECT_EQ(std::ranges::count(error, '\n'), 2) << error;
  EXPECT_NE(error.find(path("trace_6") + ": it is empty"), std::string::npos) << error;
  EXPECT_NE(error.find(path("trace_7") + ": the pickle is cut short"), std::string::npos) << error;
}

TEST_F(FlightFilesTest, RecordsOfAnEarlierRunAreLeftOut) {
  const Outcome before = run();
  const std::string earlier = record_text({FlightEntry()}, {{.ranks = "[5, 6]"}});
  write("trace_5", earlier);
  EXPECT_NE(run().output, before.output) << "it may be of this run";
  const auto now = fs::last_write_time(path("trace_0"));
  fs::last_write_time(path("trace_5"), now - std::chrono::minutes(61));
  const Outcome out = run();
  EXPECT_EQ(out.output, before.output);
  EXPECT_EQ(out.code, before.code);
  EXPECT_EQ(out.error, "left out a record from an hour or more before the newest, the first is " +
                           path("trace_5") + "; name a file to use it");
  write("trace_6", earlier);
  fs::last_write_time(path("trace_6"), now - std::chrono::hours(30));
  EXPECT_TRUE(run().error.starts_with("left out 2 records from an hour")) << run().error;
  EXPECT_EQ(run({path("trace_5"), path("trace_6")}).error, "") << "they are named";
}

TEST_F(FlightFilesTest, TheRankIsThatOfTheRecordElseThatOfTheName) {
  fs::remove(path("trace_1"));
  write("renamed", record_text({}, {FlightConfig()}, R"(,"rank":1,"host":"node9","pid":4711)"));
  write("trace_1.json", "");
  const Outcome out = run({path("trace_0"), path("renamed")});
  EXPECT_EQ(out.error, "");
  EXPECT_NE(out.output.find("waits for rank 1 on node9 (pid 4711), which is outside of"),
            std::string::npos)
      << out.output;
  write("trace_1.json", record_text({}));
  EXPECT_EQ(run({path("trace_0"), path("trace_1.json")}).error, "");
}

TEST_F(FlightFilesTest, NamesAreShownShortAndPrintable) {
  FlightEntry entry{.name = "nccl:" + std::string(10'000, 'x')};
  const std::string name = std::string(10'000, 'n') + "\x1b[31m";
  entry.group = std::string(10'000, 'n') + "\\u001b[31m";
  write("trace_0", record_text({entry}, {{.name = entry.group}}));
  write("trace_1", record_text({}, {{.name = entry.group}}));
  for (const bool json : {false, true}) {
    Arguments arguments;
    arguments.operands = {folder_.path()};
    arguments.json = json;
    const Outcome out = flight(arguments);
    EXPECT_EQ(out.code, 1);
    EXPECT_LT(out.output.size(), 2000u);
    EXPECT_TRUE(is_utf8(out.output));
    EXPECT_EQ(out.output.find('\x1b'), std::string::npos);
  }
}

TEST_F(FlightFilesTest, BytesThatAreNoUtf8AreShownAsQuestionMarks) {
  // {"version": "2.4", "entries": [], "pg_config": {"\xff": {"name": "\xff", "ranks": "[0, 1]"}}}
  const std::string pickle =
      "\x80\x02}(X\7\0\0\0versionX\3\0\0\0"
      "2.4X\7\0\0\0entries]X\x09\0\0\0pg_config}(X\1\0\0\0\xff}(X\4\0\0\0nameX\1\0\0\0\xff"
      "X\5\0\0\0ranksX\6\0\0\0[0, 1]uuu."s;
  write("trace_0", pickle);
  write("trace_1", pickle);
  const Outcome out = run();
  EXPECT_EQ(out.error, "");
  EXPECT_EQ(out.output,
            "running: no group waits\n"
            "group \"?\" of ranks [0-1]: no collective has ended on all\n"
            "  ranks [0-1] have issued nothing\n");
}

TEST(FlightArguments, TakesFilesAndNoDaemon) {
  const auto parsed = [](const Texts& words) {
    return parse(words, [](const char*) -> const char* { return "no address:"; });
  };
  const auto good = parsed({"flight", "a", "b", "-o", "json"});
  ASSERT_TRUE(good) << good.error().detail;
  EXPECT_EQ(good->arguments.operands, (Texts{"a", "b"}));
  EXPECT_TRUE(good->arguments.daemons.empty());
  const auto bad = parsed({"flight"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(
      bad.error().detail,
      "wrong number of arguments; write c10ddctl flight FILE|FOLDER...; c10ddctl --help lists "
      "the commands and options");
}

}  // namespace
}  // namespace c10dd::ctl
