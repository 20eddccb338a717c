// SPDX-License-Identifier: Apache-2.0
// Which reports of activity are refused: sizes, ranks and counts that do not fit together, names
// that are no text, sessions that lie.
#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/unit/core/reporting_sessions.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

class ActivityChecksTest : public ReportingSessions {};

TEST_F(ActivityChecksTest, RefusesTwoProcessesAsOneRank) {
  open_both();
  refuses(kThird, opens({opened_group(7, 1, 2)}), Code::invalid_argument,
          "rank 1 of group \"dp\" is already host-2 (pid 102), which is connected; one process can "
          "be a rank");
}

TEST_F(ActivityChecksTest, RefusesOneProcessAsTwoRanks) {
  open_both();
  refuses(opens({opened_group(7, 1, 2)}), Code::invalid_argument,
          "this session has group \"dp\" open as rank 0, and cannot be rank 1, too");
}

TEST_F(ActivityChecksTest, RefusesTwoSizesOfAGroup) {
  open_both();
  refuses(kThird, opens({opened_group(7, 2, 3)}), Code::size_mismatch,
          "rank 2 says that group \"dp\" has size 3, but other ranks say 2; check the ranks' "
          "arguments");
}

TEST_F(ActivityChecksTest, RefusesARankThatIsTooHigh) {
  refuses(opens({opened_group(7, 2, 2)}), Code::invalid_argument,
          "rank 2 is too high for group \"dp\": its size is 2, and its ranks begin with 0");
  OpenedGroup group = opened_group(7, 0, 2);
  group.job_rank = limits::kWorldSize;
  refuses(opens({group}), Code::invalid_argument,
          "rank 131072 of the job is too high: ranks are below 131072");
}

TEST_F(ActivityChecksTest, RefusesASizeThatIsOutOfBounds) {
  for (const std::uint32_t size : {0U, limits::kWorldSize + 1}) {
    refuses(opens({opened_group(7, 0, size)}), Code::invalid_argument,
            "group \"dp\" has size " + std::to_string(size) +
                "; a process group has 1 to 131072 ranks");
  }
}

TEST_F(ActivityChecksTest, RefusesNumberZero) {
  refuses(opens({opened_group(0, 0, 2)}), Code::invalid_argument,
          "group \"dp\" has number 0; choose a random number that is not 0");
}

TEST_F(ActivityChecksTest, RefusesNamesThatAreTooLongOrNoText) {
  refuses(opens({opened_group(7, 0, 2, std::string(256, 'n'))}), Code::too_large,
          "the name of a process group has 256 bytes, limit 255; choose a shorter one");
  refuses(opens({opened_group(7, 0, 2, "d\x1bp")}), Code::invalid_argument,
          "the name of a process group \"d?p\" is not printable text; use UTF-8 without control "
          "characters");
  OpenedGroup group = opened_group(7, 0, 2);
  group.kind = "\xff";
  refuses(opens({group}), Code::invalid_argument,
          "the kind of a process group \"?\" is not printable text; use UTF-8 without control "
          "characters");
  open_both();
  const std::string most(63, 'n');
  take(kFirst, tells({inside(7, unfinished(0, 1s, most, most))}));
  refuses(tells({inside(7, unfinished(0, 1s, most + "n"))}), Code::too_large,
          "the name of an operation has 64 bytes, limit 63; choose a shorter one");
  refuses(tells({inside(7, unfinished(0, 1s, "a", most + "n"))}), Code::too_large,
          "the list of arguments of an operation has 64 bytes, limit 63; choose a shorter one");
  refuses(tells({inside(7, unfinished(0, 1s, "a", "\n"))}), Code::invalid_argument,
          "the list of arguments of an operation \"?\" is not printable text; use UTF-8 without "
          "control "
          "characters");
}

TEST_F(ActivityChecksTest, RefusesCountsThatDecrease) {
  open_both();
  GroupActivity told = ended(7, 5);
  told.messages.issued = 3;
  take(kFirst, tells({told}));
  told.messages.issued = 2;
  refuses(tells({told}), Code::invalid_argument,
          "process group 7 has issued 2 messages, but 3 earlier; no count may decrease");
  refuses(tells({ended(7, 4)}), Code::invalid_argument,
          "process group 7 has issued 4 collectives, but 5 earlier; no count may decrease");
  EXPECT_EQ(rank(0).collectives.issued, 5u);
}

TEST_F(ActivityChecksTest, RefusesCountsThatDoNotFitTogether) {
  open_both();
  GroupActivity told = ended(7, 5);
  told.collectives = {5, 3, 2};
  refuses(
      tells({told}), Code::invalid_argument,
      "5 collectives were issued, 2 of them have not ended, and 3 have not begun; no number may "
      "exceed the one before it");
  told.collectives = {5, 0, 0};
  told.messages = {1, 0, 2};
  refuses(tells({told}), Code::invalid_argument,
          "1 messages were issued, 2 of them have not ended, and 0 have not begun; no number may "
          "exceed the one before it");
}

TEST_F(ActivityChecksTest, RefusesAnOperationThatWasNotIssued) {
  open_both();
  GroupActivity told = inside(7, unfinished(5, 1s));
  told.collectives.issued = 5;
  refuses(tells({told}), Code::invalid_argument,
          "collective 5 has not ended, but only 5 were issued; sequences begin with 0");
}

TEST_F(ActivityChecksTest, RefusesALastCollectiveThatWasNotIssued) {
  open_both();
  Activity report = tells({ended(7, 3)});
  report.ended = {{7, 2, "all_reduce", "of 8 float32 sum"}};
  take(kFirst, report);
  report.ended[0].sequence = 3;
  refuses(report, Code::invalid_argument,
          "collective 3 has ended, but only 3 were issued; sequences begin with 0");
  report.ended = {{7, 2, std::string(64, 'n'), ""}};
  refuses(report, Code::too_large,
          "the name of an operation has 64 bytes, limit 63; choose a shorter one");
  report.ended = {{7, 2, "all_reduce", "\x1b"}};
  refuses(report, Code::invalid_argument,
          "the list of arguments of an operation \"?\" is not printable text; use UTF-8 without "
          "control characters");
  report.ended = {{7, 1, "a", ""}, {7, 2, "b", ""}};
  refuses(report, Code::invalid_argument,
          "a report tells the last collective of process group 7 twice; name each once");
  report.ended = {{8, 1, "a", ""}};
  refuses(report, Code::invalid_argument,
          "a report tells the last collective of process group 8, but not its activity; send both");
}

TEST_F(ActivityChecksTest, RefusesTwoOldestOperationsOfAKind) {
  open_both();
  GroupActivity told = inside(7, unfinished(5, 1s));
  told.oldest.push_back(unfinished(4, 1s));
  refuses(tells({told}), Code::invalid_argument,
          "process group 7 has 2 oldest collectives and 0 oldest messages; send at most one of "
          "each");
  told = inside(7, unfinished_message(true, 5, 1s, 1));
  told.oldest.push_back(unfinished_message(false, 4, 1s, 1));
  refuses(tells({told}), Code::invalid_argument,
          "process group 7 has 0 oldest collectives and 2 oldest messages; send at most one of "
          "each");
}

TEST_F(ActivityChecksTest, RefusesAnOperationOfAnUnknownKind) {
  open_both();
  GroupActivity told = inside(7, unfinished(5, 1s));
  told.oldest[0].kind = static_cast<UnfinishedOperation::Kind>(3);
  refuses(tells({told}), Code::invalid_argument,
          "an operation has kind 3; use 0 (collective), 1 (send) or 2 (receive)");
}

TEST_F(ActivityChecksTest, RefusesAPeerThatIsNoRankOfTheGroup) {
  open_both();
  refuses(tells({inside(7, unfinished_message(true, 0, 1s, 2))}), Code::invalid_argument,
          "an operation has peer 2, but process group 7 has size 2; ranks begin with 0");
  refuses(tells({inside(7, unfinished_message(true, 0, 1s, -2))}), Code::invalid_argument,
          "an operation has peer -2; use a rank below 131072, or -1 for any");
}

TEST_F(ActivityChecksTest, RefusesTimesThatNoClockShows) {
  open_both();
  const std::string years = " ns, which is not within 0 and 10 years; check the clock";
  refuses(tells({inside(7, unfinished(0, -1ns))}), Code::invalid_argument,
          "the age of an operation is -1" + years);
  UnfinishedOperation one = unfinished(0, 1s);
  one.usual = Duration::max();
  refuses(tells({inside(7, one)}), Code::invalid_argument,
          "the usual time of an operation is 9223372036854775807" + years);
  GroupActivity told = ended(7, 64);
  told.time_marks = {{64, 1s, -1s}};
  refuses(tells({told}), Code::invalid_argument,
          "the waiting time of a mark is -1000000000" + years);
  told.time_marks = {{64, Duration::min(), 1s}};
  refuses(tells({told}), Code::invalid_argument,
          "the clock of a mark is -9223372036854775808" + years);
}

TEST_F(ActivityChecksTest, RefusesMarksOfCollectivesThatWereNotIssued) {
  open_both();
  GroupActivity told = ended(7, 64);
  told.hash_marks = {{64, 1}, {128, 2}};
  refuses(tells({told}), Code::invalid_argument,
          "a mark is about 128 collectives, but only 64 were issued");
}

TEST_F(ActivityChecksTest, RefusesTooManyMarks) {
  open_both();
  GroupActivity told = ended(7, 1000);
  told.hash_marks.resize(limits::kMarksPerActivity);
  take(kFirst, tells({told}));
  told.time_marks.resize(limits::kMarksPerActivity + 1);
  refuses(tells({told}), Code::too_large,
          "a report has 65 marks of a process group, limit 64; send the newest");
}

TEST_F(ActivityChecksTest, RefusesAGroupThatIsNamedTwice) {
  open_both();
  refuses(tells({ended(7, 1), ended(7, 2)}), Code::invalid_argument,
          "a report tells of process group 7 twice; name each once");
  refuses(opens({opened_group(8, 0, 2), opened_group(8, 1, 2)}), Code::invalid_argument,
          "a report opens process group 8 twice; name each once");
}

TEST_F(ActivityChecksTest, RefusesAGroupThatAnotherSessionHasOpened) {
  open_both();
  refuses(kThird, tells({ended(7, 1)}), Code::not_found,
          "this session has not opened process group 7; a client reports all that it has open when "
          "it connects");
}

TEST_F(ActivityChecksTest, RefusesTheWholeReportForItsLastPart) {
  Activity what = opens({opened_group(7, 0, 2), opened_group(8, 0, 2)});
  what.groups = {ended(7, 1), ended(9, 1)};
  refuses(what, Code::not_found,
          "this session has not opened process group 9; a client reports all that it has open when "
          "it connects");
  EXPECT_EQ(activity_.find(kFirst), nullptr);
}

}  // namespace
}  // namespace c10dd::core
