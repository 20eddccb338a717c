// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pickle, and as the flight record of rank 0 of a job whose rank 1 is fine: a value
// has no cycle, all bounds hold, and what c10ddctl flight shows is printable.
#include "client/ctl/flight.h"
#include "client/ctl/flight_record.h"
#include "client/ctl/pickle.h"
#include "protocol/utf8.h"
#include "tests/fuzz/shown.h"
#include "tests/fuzz/target.h"

namespace {

namespace ctl = c10dd::ctl;

/// Returns how many values there are. Ends early at many, because values may be shared.
std::size_t walk(const ctl::PlainValue& value, std::size_t depth) {
  constexpr std::size_t kEnough = 100'000;
  C10DD_ASSERT(depth < ctl::PlainValue::kDepth || value.items().empty());
  std::size_t count = 1;
  for (const ctl::PlainValue& item : value.items()) {
    count += walk(item, depth + 1);
    if (count > kEnough) break;
  }
  C10DD_ASSERT(count <= ctl::PlainValue::kValues);
  return count;
}

void use_record(ctl::FlightRecord record) {
  const auto other = ctl::read_flight_record(
      R"({"version":"2.10","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1]"}},)"
      R"("entries":[{"process_group":["0","default_pg"],"collective_seq_id":5,"state":"started",)"
      R"("profiling_name":"nccl:all_reduce","input_sizes":[[4]],"input_dtypes":["Float"]}]})");
  C10DD_ASSERT(other);
  std::vector<ctl::RankRecord> records(2);
  records[0].record = std::move(record);
  records[1].rank = 1;
  records[1].record = *other;
  const auto view = ctl::view_flight(std::move(records));
  c10dd::fuzz::expect_shown(view);
  if (!view) return;
  for (const bool json : {false, true}) {
    C10DD_ASSERT(c10dd::is_utf8(ctl::text_of(*view, json)));
  }
}

}  // namespace

C10DD_FUZZ(pickle) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto value = ctl::read_pickle(bytes);
  c10dd::fuzz::expect_shown(value);
  if (value) walk(*value, 0);
  auto record = ctl::read_flight_record(bytes);
  c10dd::fuzz::expect_shown(record);
  if (record) use_record(std::move(*record));
  return 0;
}
