// SPDX-License-Identifier: Apache-2.0
// Who belongs to a process group, and how far each has come, where the flight records do not list
// the ranks of the group or have lost its operations: no rank is accused that the records do not
// name.
#include <gtest/gtest.h>

#include "client/ctl/flight.h"
#include "tests/unit/client/flight_records.h"

namespace c10dd::ctl {
namespace {

using test::diagnosed;
using test::FlightConfig;
using test::FlightEntry;
using test::record_text;
using test::records_of;

const std::string kUnknown = "waits for ranks that are not known; 1 rank waits";

/// A group as PyTorch's Gloo records it: without its name, and with the ranks inside of it.
FlightConfig newest(std::size_t size) {
  std::string ranks;
  for (std::size_t i = 0; i < size; ++i) ranks += format("{}{}", i == 0 ? "" : ", ", i);
  return {.name = "", .ranks = "[" + ranks + "]"};
}

FlightEntry gloo(const std::string& group, std::int64_t sequence, bool over = true,
                 std::int64_t number = 0) {
  return {.group = group,
          .sequence = sequence,
          .name = "gloo:all_reduce",
          .retired = over,
          .more = format(R"(,"pg_id":{})", number)};
}

/// The same, of the group that has all ranks of the job.
FlightEntry all(std::int64_t sequence, bool over = true) {
  FlightEntry entry = gloo("0", sequence, over);
  entry.description = "default_pg";
  return entry;
}

/// Tells of the groups with the numbers 0, 1, ... how far each has come.
std::string status(const std::vector<int>& issued) {
  std::string text;
  for (std::size_t i = 0; i < issued.size(); ++i) {
    text +=
        format(R"({}"{}":{{"last_enqueued_collective":"{}"}})", i == 0 ? "" : ",", i, issued[i]);
  }
  return R"(,"pg_status":{)" + text + "}";
}

TEST(FlightMembers, OfGlooOnlyThoseWhoHaveUsedTheGroupAreItsMembers) {
  // Ranks 1 and 3, which are 0 and 1 inside of the group.
  const std::string other = record_text({all(1)}, {newest(4)});
  const std::string waits = record_text({all(1), gloo("1", 1), gloo("1", 2, false)}, {newest(2)});
  const std::string idle = record_text({all(1), gloo("1", 1)}, {newest(2)});
  EXPECT_EQ(diagnosed(records_of({other, waits, other, idle})),
            "waiting missing [3] all_reduce 2 of group \"group 1\" waits for rank 3, which is "
            "outside of collectives; 1 rank waits");
  EXPECT_EQ(diagnosed(records_of({other, waits, other})),
            "waiting missing [] all_reduce 2 of group \"group 1\" " + kUnknown);
  EXPECT_EQ(diagnosed(records_of({other, waits, other, waits})),
            "waiting hung [] all_reduce 2 of group \"group 1\" does not end, and not all its ranks "
            "are known; 2 ranks wait");
  const std::string first = record_text({all(1), gloo("1", 1, false)}, {newest(2)});
  EXPECT_EQ(diagnosed(records_of({other, first, other, record_text({all(1)}, {newest(2)})})),
            "waiting missing [] all_reduce 1 of group \"group 1\" " + kUnknown)
      << "rank 3 may belong to another group";
}

TEST(FlightMembers, TheSizeOfTheNewestGroupIsNotThatOfAnother) {
  // After group 1, all ranks have made one of three ranks, which nobody has used.
  const std::string waits = record_text({gloo("1", 1, false)}, {newest(3)});
  EXPECT_EQ(diagnosed(records_of({record_text({}, {newest(4)}), waits})),
            "waiting missing [] all_reduce 1 of group \"group 1\" " + kUnknown);
}

TEST(FlightMembers, TheDefaultGroupHasAllRanksThatAnyRecordTells) {
  const std::string waits = record_text({all(1), all(2, false)}, {newest(4)});
  EXPECT_EQ(diagnosed(records_of({waits, waits, waits})),
            "waiting missing [3] all_reduce 2 of group \"default_pg\" waits for rank 3, which is "
            "without a flight record; 3 ranks wait");
  EXPECT_EQ(diagnosed(records_of({waits, waits, waits, waits})).substr(0, 13), "stuck hung []");
  // All have made smaller groups later, so nobody knows whether there is a rank 3.
  const std::string half = record_text({all(1), gloo("1", 1, true, 1), all(2, false)}, {newest(2)});
  EXPECT_EQ(
      diagnosed(records_of({half, half, half})),
      "waiting hung [] all_reduce 2 of group \"default_pg\" does not end, and not all its ranks "
      "are known; 3 ranks wait");
  const std::string three =
      record_text({all(1), gloo("1", 1, true, 1), all(2, false)}, {newest(3)});
  EXPECT_EQ(diagnosed(records_of({three, three, three})).substr(0, 15), "waiting hung []")
      << "three may be the size of group 1";
}

TEST(FlightMembers, HalvesOfAJobAreNoContradiction) {
  const auto half = [](const std::string& name, bool waits) {
    std::vector<FlightEntry> entries = {all(1), gloo(name, 1, true, 1)};
    if (waits) entries.push_back(all(2, false));
    return record_text(entries, {newest(2)});
  };
  EXPECT_EQ(
      diagnosed(records_of({half("1", true), half("1", true), half("2", true), half("2", false)})),
      "waiting missing [3] all_reduce 2 of group \"default_pg\" waits for rank 3, which is "
      "outside of collectives; 3 ranks wait");
}

TEST(FlightMembers, RanksThatGlooListsUnderANameMayBeThoseInside) {
  const auto named = [](std::vector<FlightEntry> entries, const std::string& ranks) {
    return record_text(entries, {{.name = "1", .ranks = ranks}, newest(2)});
  };
  const std::string other = record_text({}, {newest(4)});
  const std::string waits = named({gloo("1", 1), gloo("1", 2, false)}, "[0, 1]");
  const std::string idle = named({gloo("1", 1)}, "[0, 1]");
  EXPECT_EQ(diagnosed(records_of({other, waits, other, idle})).substr(0, 52),
            "waiting missing [3] all_reduce 2 of group \"group 1\" ");
  EXPECT_EQ(diagnosed(records_of({other, named({gloo("1", 1, false)}, "[1, 3]"), other, other})),
            "waiting missing [3] all_reduce 1 of group \"group 1\" waits for rank 3, which is "
            "outside of collectives; 1 rank waits")
      << "these are no numbers inside";
}

TEST(FlightMembers, RanksThatOneRecordLacksAreThoseOfTheOthers) {
  const FlightEntry done{.state = "completed", .retired = true};
  const FlightEntry next{.sequence = 2};
  const std::string waits = record_text({done, next});
  const std::string here = record_text({done, next}, {});
  EXPECT_EQ(diagnosed(records_of({waits, here})).substr(0, 13), "stuck hung []");
  EXPECT_EQ(diagnosed(records_of({waits, record_text({done}, {})})).substr(0, 19),
            "waiting missing [1]");
  EXPECT_EQ(
      diagnosed(records_of({waits, record_text({done, next}, {{.ranks = "0"}})})).substr(0, 13),
      "stuck hung []");
}

TEST(FlightMembers, TheStatusTellsWhatIsNoLongerInTheRecord) {
  const std::vector<FlightConfig> groups = {{.name = "0"}, {.name = "1"}};
  const FlightEntry other{.group = "0", .state = "completed", .more = R"(,"pg_id":0)"};
  const FlightEntry waits{.group = "1", .sequence = 7, .more = R"(,"pg_id":1)"};
  const std::string one = record_text({other, waits}, groups, status({1, 7}));
  const auto second = [&](const std::string& more) {
    return diagnosed(records_of({one, record_text({other}, groups, more)}));
  };
  const std::string ended =
      "waiting missing [1] all_reduce 7 of group \"group 1\" waits for rank 1";
  EXPECT_EQ(second(status({1, 6})), ended + ", which is outside of collectives; 1 rank waits");
  EXPECT_EQ(second(status({1})), ended + ", which is outside of collectives; 1 rank waits");
  EXPECT_EQ(second(status({1, 7})),
            "stuck hung [0] all_reduce 7 of group \"group 1\" does not end on rank 0, although 1 "
            "other rank has ended it; 1 rank waits; check the network and the devices");
  // Its numbers cannot be told apart, and one of them has come so far.
  EXPECT_EQ(second(status({1, 5, 7})),
            ended + ", which is without its older operations in the record; 1 rank waits");
  EXPECT_EQ(second(status({1, 5, 6})), ended + ", which is outside of collectives; 1 rank waits");
}

TEST(FlightMembers, WithoutStatusOlderOperationsMayBeLost) {
  const std::vector<FlightConfig> groups = {{.name = "0"}, {.name = "1"}};
  FlightEntry other{.group = "0", .state = "completed"};
  const std::string one = record_text({other, {.group = "1", .sequence = 7}}, groups);
  const std::string ended =
      "waiting missing [1] all_reduce 7 of group \"group 1\" waits for rank 1";
  EXPECT_EQ(diagnosed(records_of({one, record_text({other}, groups)})),
            ended + ", which is outside of collectives; 1 rank waits");
  other.more = R"(,"record_id":9)";
  EXPECT_EQ(diagnosed(records_of({one, record_text({other}, groups)})),
            ended + ", which is without its older operations in the record; 1 rank waits");
}

TEST(FlightMembers, ARecordOfWhatIsNotOverHasItsStatus) {
  // Written with only the active operations. The default group has the same number on all ranks.
  const auto active = [](std::vector<FlightEntry> entries, const std::vector<int>& issued) {
    return record_text(entries, {newest(3)}, status(issued));
  };
  const std::string waits = active({all(9, false)}, {9, 40});
  EXPECT_EQ(diagnosed(records_of({waits, active({}, {8, 40}), waits})),
            "waiting missing [1] all_reduce 9 of group \"default_pg\" waits for rank 1, which is "
            "outside of collectives; 2 ranks wait");
}

TEST(FlightMembers, AMessageInsideOfAnUnknownGroupAccusesNobody) {
  const FlightEntry send{.group = "1", .name = "nccl:send 0->1"};
  EXPECT_EQ(diagnosed(records_of({record_text({}), record_text({send}), record_text({})})),
            "waiting missing [] send 1 of group \"group 1\" " + kUnknown);
}

TEST(FlightMembers, TheTableSaysWhatIsNotKnown) {
  const auto text = [](const std::vector<std::string>& texts, bool json) {
    const Result<FlightView> view = view_flight(records_of(texts));
    return view ? text_of(*view, json) : view.error().detail;
  };
  const std::string waits = record_text({gloo("1", 1, false)}, {newest(2)});
  EXPECT_NE(text({waits}, false).find("group \"group 1\" of rank 0, as far as known: "),
            std::string::npos);
  EXPECT_NE(text({waits}, true).find(R"("ranks":[0],"complete":false,)"), std::string::npos);
  FlightEntry other{.group = "0", .state = "completed", .more = R"(,"record_id":9)"};
  const std::string lost = record_text({other}, {{.name = "0"}, {.name = "1"}});
  EXPECT_NE(text({lost, lost}, false).find("ranks [0-1] have issued nothing that is in the record"),
            std::string::npos);
  const std::string told = record_text({}, {FlightConfig()}, status({4}));
  EXPECT_NE(text({told, told}, false)
                .find("have ended the collectives up to 4\n  ranks [0-1] have "
                      "issued collective 4\n"),
            std::string::npos);
}

}  // namespace
}  // namespace c10dd::ctl
