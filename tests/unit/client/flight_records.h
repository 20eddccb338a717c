// SPDX-License-Identifier: Apache-2.0
// Flight records for tests, as JSON of PyTorch's format.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/flight_job.h"
#include "client/ctl/flight_record.h"
#include "protocol/format.h"

namespace c10dd::test {

constexpr std::int64_t kSecond = 1'000'000'000;

/// An entry of a record, by default of a collective that waits.
struct FlightEntry {
  std::string group = "0";
  std::int64_t sequence = 1;
  std::string name = "nccl:all_reduce";
  std::string state = "scheduled";
  bool retired = false;
  std::string sizes = "[[4]]";
  std::string types = R"(["Float"])";
  std::int64_t created = 100 * kSecond;
  std::string more = {};         ///< further members, each with a comma before
  std::string description = {};  ///< of the group; empty: "group " and its name
};

inline std::string json_of(const FlightEntry& of) {
  const bool message = of.name.find("send") != std::string::npos ||
                       of.name.find("recv") != std::string::npos ||
                       of.more.find("p2p") != std::string::npos;
  return format(
      R"({{"process_group":["{0}","{11}"],"{1}":{2},"is_p2p":{3},"profiling_name":"{4}",)"
      R"("state":"{5}","retired":{6},"input_sizes":{7},"input_dtypes":{8},"output_sizes":{7},)"
      R"("output_dtypes":{8},"time_created_ns":{9}{10}}})",
      of.group, message ? "p2p_seq_id" : "collective_seq_id", of.sequence, message, of.name,
      of.state, of.retired, of.sizes, of.types, of.created, of.more,
      of.description.empty() ? "group " + of.group : of.description);
}

/// A group in pg_config: its name, ranks and other members, each with a comma before.
struct FlightConfig {
  std::string name = "0";
  std::string ranks = "[0, 1]";
  std::string more = {};
};

inline std::string record_text(const std::vector<FlightEntry>& entries,
                               const std::vector<FlightConfig>& groups = {FlightConfig()},
                               const std::string& more = {}) {
  std::string config;
  for (const FlightConfig& one : groups) {
    config += format(R"({}"{}":{{"name":"{}","desc":"group {}","ranks":"{}"{}}})",
                     config.empty() ? "" : ",", one.name, one.name, one.name, one.ranks, one.more);
  }
  std::string list;
  for (const FlightEntry& one : entries) list += (list.empty() ? "" : ",") + json_of(one);
  return format(R"({{"version":"2.10","pg_config":{{{}}},"entries":[{}]{}}})", config, list, more);
}

/// Makes one record of each text; the first is of rank 0.
inline std::vector<ctl::RankRecord> records_of(const std::vector<std::string>& texts) {
  std::vector<ctl::RankRecord> records;
  for (const std::string& text : texts) {
    Result<ctl::FlightRecord> read = ctl::read_flight_record(text);
    EXPECT_TRUE(read) << read.error().detail;
    ctl::RankRecord one{.file = format("trace_{}", records.size()),
                        .rank = static_cast<Rank>(records.size()),
                        .record = read ? std::move(*read) : ctl::FlightRecord(),
                        .written = 200 * kSecond};
    records.push_back(std::move(one));
  }
  return records;
}

/// Returns "STATE KIND [RANKS] SENTENCE", or "error: ...".
inline std::string diagnosed(std::vector<ctl::RankRecord> records) {
  const Result<ctl::FlightView> view = ctl::view_flight(std::move(records));
  if (!view) return "error: " + view.error().detail;
  const Diagnosis& found = view->diagnosis;
  std::string ranks;
  for (const Rank rank : found.ranks) ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
  return format("{} {} [{}] {}", name_of(found.state), name_of(found.kind), ranks, found.sentence);
}

}  // namespace c10dd::test
