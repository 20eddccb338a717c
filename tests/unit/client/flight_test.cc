// SPDX-License-Identifier: Apache-2.0
// Who waits for whom, from flight records: those of real hangs in tests/fixtures/flight, and small
// ones for each rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "client/ctl/flight.h"
#include "client/ctl/flight_files.h"
#include "protocol/exit_codes.h"
#include "tests/paths.h"
#include "tests/unit/client/flight_records.h"

namespace c10dd::ctl {
namespace {

using test::diagnosed;
using test::FlightConfig;
using test::FlightEntry;
using test::kSecond;
using test::record_text;
using test::records_of;
using Texts = std::vector<std::string>;

std::string fixture(const std::string& name) {
  return test::source_folder() + "/tests/fixtures/flight/" + name;
}

/// Reads the records of a real hang. Their files count as written a minute after the hang began.
std::vector<RankRecord> fixture_records(const std::string& name) {
  FlightFiles files = read_flight_files({fixture(name)});
  EXPECT_EQ(files.odd, Texts());
  EXPECT_EQ(files.others, 0u);
  std::int64_t newest = 0;
  for (const RankRecord& one : files.records) newest = std::max(newest, one.record.newest);
  for (RankRecord& one : files.records) one.written = newest + 60 * kSecond;
  return std::move(files.records);
}

TEST(Flight, NamesThePlantedRankOfEachHangOfPyTorch) {
  const std::string step = "all_reduce 5 of group \"default_pg\" ";
  const std::string pair = "all_reduce 3 of group \"pair\" ";
  const std::string unknown = "waits for ranks that are not known; 1 rank waits";
  const std::map<std::string, std::string> sentences = {
      {"missing_rank", "waiting missing [2] " + step +
                           "waits for rank 2, which is outside of collectives; 3 ranks "
                           "wait"},
      {"missing_rank-json", "waiting missing [2] " + step +
                                "waits for rank 2, which is outside of collectives; 3 ranks "
                                "wait"},
      {"killed_rank", "waiting missing [3] " + step +
                          "waits for rank 3, which is without a flight record; 1 rank "
                          "waits"},
      {"wrong_operation", "stuck mismatch [1] " + step +
                              "differs between ranks: ranks [0,2-3] issued all_reduce of 4 "
                              "float32, rank 1 issued reduce of 4 float32"},
      {"wrong_size", "stuck mismatch [3] " + step +
                         "differs between ranks: ranks [0-2] issued all_reduce of 4 "
                         "float32, rank 3 issued all_reduce of 6 float32"},
      {"wrong_dtype", "stuck mismatch [0] " + step +
                          "differs between ranks: ranks [1-2] issued all_reduce of 4 "
                          "float32, rank 0 issued all_reduce of 4 float64"},
      {"crossed_groups",
       "stuck deadlock [0 1] deadlock: rank 0 waits in all_reduce 5 of group \"default_pg\" for "
       "rank 1, which waits in all_reduce 3 of group \"pair\" for rank 0"},
      // Groups that do not begin with rank 0.
      {"halves", "waiting missing [3] " + step +
                     "waits for rank 3, which is outside of collectives; 3 ranks wait"},
      {"missing_in_pair", "waiting missing [3] " + pair +
                              "waits for rank 3, which is outside of collectives; 1 rank waits"},
      {"silent_in_pair", "waiting missing [] " + pair + unknown},
      {"forgotten_pair", "waiting missing [] " + pair + unknown}};
  for (const auto& [name, sentence] : sentences) {
    EXPECT_EQ(diagnosed(fixture_records(name)), sentence) << name;
  }
}

TEST(Flight, NamesThePlantedRankOfEachHangOfPyTorchOnNccl) {
  const std::string step = "all_reduce 5 of group \"default_pg\" ";
  const std::map<std::string, std::string> sentences = {
      {"missing_rank", "waiting missing [2] " + step +
                           "waits for rank 2, which is outside of collectives; 3 ranks wait"},
      {"killed_rank", "waiting missing [3] " + step +
                          "waits for rank 3, which is without a flight record; 3 ranks wait"},
      {"wrong_operation",  // ended on all ranks, with wrong results
       "stuck diverged [1] the collectives of group \"default_pg\" differ between sequences 5 and "
       "6: rank 1 has issued others than the other ranks"},
      {"wrong_size", "stuck mismatch [3] " + step +
                         "differs between ranks: ranks [0-2] issued all_reduce of 4 float32, rank "
                         "3 issued all_reduce of 6 float32"},
      {"wrong_dtype", "stuck mismatch [0] " + step +
                          "differs between ranks: ranks [1-3] issued all_reduce of 4 float32, rank "
                          "0 issued all_reduce of 4 float64"},
      {"crossed_groups",
       "stuck deadlock [0 1] deadlock: rank 0 waits in all_reduce 5 of group \"default_pg\" for "
       "rank 1, which waits in all_reduce 3 of group \"pair\" for rank 0"},
      {"healthy", "running none [] "}};
  for (const auto& [name, sentence] : sentences) {
    EXPECT_EQ(diagnosed(fixture_records("nccl/" + name)), sentence) << name;
  }
}

TEST(Flight, ShowsWhereTheRanksAre) {
  const Result<FlightView> view = view_flight(fixture_records("killed_rank"));
  ASSERT_TRUE(view);
  std::string text = text_of(*view, false);
  text.erase(text.find(" since"), text.find(": ") - text.find(" since"));
  EXPECT_EQ(
      text,
      "waiting: all_reduce 5 of group \"default_pg\" waits for rank 3, which is without a "
      "flight record; 1 rank waits\n"
      "  kind: missing\n"
      "  ranks: [3]\n"
      "  waiting: 1\n"
      "  evidence:\n"
      "    all_reduce 5 of group \"default_pg\": rank 1 waits for rank 3\n"
      "no record of rank 3\n"
      "group \"default_pg\" of ranks [0-3]: all with a record have ended the collectives up "
      "to 4\n"
      "  rank 1 has issued all_reduce 5 of 4 float32, at train.py:46\n"
      "  ranks [0,2] have ended all_reduce 5 of 4 float32, at train.py:46\n"
      "group \"pair\" of ranks [0-1], as far as known: all have ended the collectives up to 2\n"
      "  ranks [0-1] have ended all_reduce 2 of 2 float32, at train.py:74\n");
  const std::string json = text_of(*view, true);
  EXPECT_TRUE(json.starts_with("{\"diagnosis\":{\"state\":\"waiting\",\"kind\":\"missing\","))
      << json;
  EXPECT_NE(json.find("\"without_record\":[3],\"left_out\":[],\"groups\":[{\"group\":\"group "
                      "\\\"default_pg\\\"\","
                      "\"ranks\":[0,1,2,3],\"complete\":true,\"last\":4,\"positions\":[{\"call\":"
                      "\"all_reduce 5 of 4 "
                      "float32\",\"state\":\"issued\",\"line\":\"train.py:46\",\"ranks\":[1]}"),
            std::string::npos)
      << json;
}

TEST(Flight, TheExitCodeIsAsOfDiagnose) {
  const auto run = [](const Texts& files) {
    Arguments arguments;
    arguments.operands = files;
    return flight(arguments);
  };
  const Outcome healthy = run({fixture("healthy")});
  EXPECT_EQ(healthy.code, exit_code::kDone);
  EXPECT_EQ(healthy.output.substr(0, 24), "running: no group waits\n");
  EXPECT_EQ(healthy.error, "");
  EXPECT_EQ(run({fixture("missing_rank")}).code, 1);
  EXPECT_EQ(run({fixture("wrong_size")}).code, 2);
  const Outcome part = run({fixture("healthy") + "/comm_lib_trace_rank_0"});
  EXPECT_EQ(part.code, 1) << "nobody knows what the others do";
  EXPECT_EQ(part.output.substr(0, part.output.find('\n')),
            "unknown: no group waits as far as the records show, but there is none of rank 1; read "
            "the log");
}

// ---- rules
// ---------------------------------------------------------------------------------------

const FlightEntry kDone{.state = "completed", .retired = true};

FlightEntry at(std::int64_t sequence, FlightEntry of = {}) {
  of.sequence = sequence;
  return of;
}

TEST(Flight, OrdersThatDifferAreFoundInRecordsOfGroupsThatWereAborted) {
  const std::vector<FlightConfig> groups = {{.ranks = "[0, 1, 2]"}, {.name = "1"}};
  const auto failed = [](const std::string& group, const std::string& state, int second) {
    return FlightEntry{
        .group = group, .state = state, .retired = true, .created = second * kSecond};
  };
  const std::string said =
      "stuck deadlock [0 1] deadlock: rank 1 waits in all_reduce 1 of group \"group 1\" for rank "
      "0, "
      "which waits in all_reduce 1 of group \"group 0\" for rank 1";
  for (const std::string state : {"started", "scheduled"}) {
    EXPECT_EQ(diagnosed(records_of(
                  {record_text({failed("0", state, 101), failed("1", "scheduled", 102)}, groups),
                   record_text({failed("1", state, 100), failed("0", "scheduled", 103)}, groups),
                   record_text({failed("0", state, 101)}, {groups.front()})})),
              said)
        << state;
  }
}

TEST(Flight, AnOperationThatNcclHasGivenUpStillWaits) {
  const FlightEntry given_up{.state = "started", .retired = true};
  EXPECT_EQ(diagnosed(records_of({record_text({kDone, at(2, given_up)}), record_text({kDone})})),
            "waiting missing [1] all_reduce 2 of group \"group 0\" waits for rank 1, which is "
            "outside of collectives; 1 rank waits");
}

TEST(Flight, WhatGlooHasEndedHasFailedIfARankHasNotIssuedIt) {
  const FlightEntry ended{.name = "gloo:all_reduce", .retired = true};
  const FlightEntry sent{.name = "gloo:broadcast", .retired = true};
  const std::string behind = record_text({ended});
  EXPECT_EQ(diagnosed(records_of({record_text({ended, at(2, ended)}), behind})).substr(0, 19),
            "waiting missing [1]");
  EXPECT_EQ(diagnosed(records_of({record_text({ended, at(2, sent)}), behind})), "running none [] ")
      << "the root of a broadcast waits for nobody";
  // The record of rank 1 is of an earlier time, so rank 1 may have gone on.
  auto records = records_of({record_text({ended, at(2, ended)}), behind});
  records[1].written = 99 * kSecond;
  EXPECT_EQ(diagnosed(records), "running none [] ");
  records = records_of({record_text({ended, at(2, {.name = "gloo:all_reduce"})}), behind});
  records[1].written = 99 * kSecond;
  EXPECT_EQ(diagnosed(records),
            "waiting missing [1] all_reduce 2 of group \"group 0\" waits for rank 1, which is "
            "outside of collectives in an older record; 1 rank waits");
}

TEST(Flight, OnlyWhatMustBeEqualIsCompared) {
  const auto compared = [](const std::string& name, const std::string& sizes,
                           const std::string& types = R"(["Float"])") {
    FlightEntry one{.name = "nccl:" + name};
    FlightEntry other = one;
    other.sizes = sizes;
    other.types = types;
    const std::string found = diagnosed(records_of({record_text({one}), record_text({other})}));
    return found.substr(0, found.find(" ["));
  };
  for (const char* const name : {"all_reduce", "broadcast", "reduce", "_all_gather_base", "gather",
                                 "reduce_scatter", "allreduce_coalesced", "scatter"}) {
    EXPECT_EQ(compared(name, "[[5]]"), "stuck mismatch") << name;
    EXPECT_EQ(compared(name, "[[2,2]]"), "stuck hung") << name;
    EXPECT_EQ(compared(name, "[[4]]", R"(["Long"])"), "stuck mismatch") << name;
  }
  EXPECT_EQ(compared("all_to_all", "[[5]]"), "stuck hung");
  EXPECT_EQ(compared("all_gather_v", "[[5]]"), "stuck hung");
  EXPECT_EQ(compared("all_to_all", "[[4]]", R"(["Long"])"), "stuck mismatch");
  EXPECT_EQ(compared("barrier", "[]", "[]"), "stuck hung");
  EXPECT_EQ(compared("all_reduce", "[[-1]]"), "stuck mismatch");
  EXPECT_EQ(compared("all_reduce", "[[9000000000000000000,9000000000000000000]]"),
            "stuck mismatch");
}

TEST(Flight, TheFirstDifferenceIsTheCauseAlsoIfAllWentOn) {
  FlightEntry sum = kDone;
  sum.more = R"(,"arguments":"of 4 float32 sum")";
  FlightEntry max = kDone;
  max.more = R"(,"arguments":"of 4 float32 max")";
  const std::vector<FlightConfig> three = {{.ranks = "[0, 1, 2]"}};
  const auto record = [&](std::vector<FlightEntry> entries) { return record_text(entries, three); };
  EXPECT_EQ(
      diagnosed(records_of(
          {record({sum, at(2, sum)}), record({sum, at(2, max)}), record({sum, at(2, sum)})})),
      "stuck diverged [1] the collectives of group \"group 0\" differ between sequences 2 and "
      "3: rank 1 has issued others than the other ranks");
  EXPECT_EQ(
      diagnosed(records_of({record({sum, at(2, sum), at(3)}), record({sum, at(2, max), at(3)}),
                            record({sum, at(2, sum)})})),
      "stuck mismatch [1] all_reduce 2 of group \"group 0\" differs between ranks: ranks [0,2] "
      "issued all_reduce of 4 float32 sum, rank 1 issued all_reduce of 4 float32 max");
}

TEST(Flight, AllInACollectiveIsHungOrQueued) {
  const FlightEntry started{.state = "started"};
  EXPECT_EQ(diagnosed(records_of({record_text({started}), record_text({started})})),
            "stuck hung [] all_reduce 1 of group \"group 0\" does not end, although all its ranks "
            "are in it; 2 ranks wait; check the network and the devices");
  EXPECT_EQ(
      diagnosed(records_of({record_text({started}), record_text({FlightEntry()})})),
      "waiting queued [1] all_reduce 1 of group \"group 0\" is still queued on rank 1, behind "
      "other work of its backend; 2 ranks wait");
}

TEST(Flight, CoalescedOperationsCountAsOne) {
  const FlightEntry part{.name = "nccl:all_reduce"};
  const FlightEntry end{.name = "nccl:allreduce_coalesced", .state = "completed", .retired = true};
  const std::string over = record_text({part, part, end});
  EXPECT_EQ(diagnosed(records_of({over, over})), "running none [] ");
  EXPECT_EQ(
      diagnosed(records_of({record_text({part, part, end, at(2)}), record_text({part, part, end})}))
          .substr(0, 19),
      "waiting missing [1]");
  EXPECT_EQ(diagnosed(records_of({record_text({part, end, at(2)}), over})).substr(0, 14),
            "stuck mismatch");
}

TEST(Flight, AMessageWaitsForItsOtherEnd) {
  const FlightEntry send{.name = "nccl:send 0->1"};
  const FlightEntry recv{.name = "nccl:recv 1<-0"};
  const std::string idle = record_text({kDone});
  EXPECT_EQ(diagnosed(records_of({record_text({kDone, send}), idle})),
            "waiting missing [1] send 1 of group \"group 0\" waits for rank 1, which is outside of "
            "collectives; 1 rank waits");
  EXPECT_EQ(diagnosed(records_of({idle, record_text({kDone, at(7, recv)})})),
            "waiting missing [0] recv 7 of group \"group 0\" waits for rank 0, which is outside of "
            "collectives; 1 rank waits");
  EXPECT_EQ(
      diagnosed(records_of({record_text({kDone, send}), record_text({kDone, recv})})),
      "stuck hung [] message from rank 0 to rank 1 of group \"group 0\" does not end, although "
      "all its ranks are in it; 2 ranks wait; check the network and the devices");
  EXPECT_EQ(diagnosed(records_of({idle, record_text({kDone, {.name = "nccl:recv 1<--1"}})})),
            "running none [] ")
      << "from any rank";
  // Parts of a batch do not end by themselves: its last entry tells.
  const FlightEntry batch{
      .name = "nccl:coalesced", .state = "completed", .retired = true, .more = R"(,"p2p":true)"};
  EXPECT_EQ(diagnosed(records_of({record_text({kDone, send, batch}), idle})), "running none [] ");
  EXPECT_EQ(
      diagnosed(records_of({record_text({kDone, send, batch, at(2, send)}), idle})).substr(0, 26),
      "waiting missing [1] send 2");
}

TEST(Flight, GroupsOfOneNameAreToldApartByTheirRanks) {
  const auto pair = [](const std::string& ranks, std::vector<FlightEntry> entries) {
    for (FlightEntry& one : entries) one.group = "tp";
    return record_text(entries, {{.name = "tp", .ranks = ranks}});
  };
  EXPECT_EQ(
      diagnosed(records_of({pair("[0, 1]", {kDone}), pair("[0, 1]", {kDone}),
                            pair("[2, 3]", {kDone, at(2)}), pair("[2, 3]", {kDone})})),
      "waiting missing [3] all_reduce 2 of group \"group tp\" (tp) waits for rank 3, which is "
      "outside of collectives; 1 rank waits");
}

TEST(Flight, AGroupThatWasMadeAgainCountsFromItsNewBeginning) {
  const std::string again = record_text({at(7, kDone), at(8, kDone), at(1, kDone), at(2)});
  EXPECT_EQ(diagnosed(records_of({again, record_text({kDone})})).substr(0, 32),
            "waiting missing [1] all_reduce 2");
  // Two threads of a process may record in another order.
  const std::string swapped = record_text({kDone, at(3, kDone), at(2, kDone), at(4)});
  EXPECT_EQ(diagnosed(records_of({swapped, record_text({kDone, at(2, kDone), at(3, kDone)})}))
                .substr(0, 32),
            "waiting missing [1] all_reduce 4");
}

}  // namespace
}  // namespace c10dd::ctl
