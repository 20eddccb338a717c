// SPDX-License-Identifier: Apache-2.0
// The exposition is checked against the catalogue, and with names that clients choose.
#include "daemon/metrics/metrics.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/metrics/request_tally.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"
#include "protocol/utf8.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

std::uint64_t sum(const std::vector<std::uint64_t>& counts) {
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) total += count;
  return total;
}

core::CollectivesMeasured measured(const std::string& collective, std::uint64_t fast = 3,
                                   std::uint64_t overflow = 1) {
  CollectiveTotals totals;
  totals.process_group = "dp";
  totals.collective = collective;
  totals.backend = "gloo";
  totals.failures = 2;
  totals.payload_bytes = 1024;
  totals.bus_bytes = 1536;
  totals.duration_ns = 2'500'000'000;
  totals.buckets.resize(metric::kCoarseBuckets);
  totals.buckets[1] = fast;
  totals.buckets.back() = overflow;
  totals.count = sum(totals.buckets);
  return {{totals}};
}

/// The samples by the text before their value; the families by name.
struct Exposition {
  explicit Exposition(const Metrics& metrics) : text(metrics.render()) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string hash, word, name;
      if (line.starts_with("# ")) {
        words >> hash >> word >> name;
        std::string rest;
        std::getline(words >> std::ws, rest);
        if (word == "HELP") help[name] = rest;
        if (word == "TYPE") type[name] = rest;
        continue;
      }
      const std::size_t space = line.rfind(' ');
      EXPECT_NE(space, std::string::npos) << line;
      EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space))).second)
          << "twice: " << line;
    }
  }

  double at(const std::string& series) const {
    const auto found = samples.find(series);
    if (found != samples.end()) return found->second;
    ADD_FAILURE() << "no " << series;
    return -1;
  }

  std::string text;
  std::map<std::string, std::string> help;
  std::map<std::string, std::string> type;
  std::map<std::string, double> samples;
};

class MetricsTest : public testing::Test {
 protected:
  void use_everything() {
    metrics_.ready(true);
    metrics_.engine_up(true);
    metrics_.connection_opened(Protocol::native);
    metrics_.connection_opened(Protocol::native);
    metrics_.connection_closed(Protocol::native, "malformed");
    metrics_.protocol_error(Protocol::unknown, Code::malformed);
    RequestTally tally(metrics_);
    tally.request(Protocol::native, Set::op);
    tally.answered(Set::op, Code::ok, milliseconds(2));
    tally.answered(Get::op, Code::timed_out, milliseconds(7000));
    tally.flush();
    tally.flush();  // counts nothing twice
    metrics_.committed(12, milliseconds(3));
    metrics_.commit_failed(store::Outcome::fenced);
    metrics_.job_loaded("digits");
    metrics_.event("digits", core::WaitEnded{Barrier::op.code, Code::ok, milliseconds(40)});
    metrics_.event("digits", core::BarrierReleased{milliseconds(20)});
    metrics_.event("digits", core::ReplyReplayed{Set::op.code});
    metrics_.event("digits", core::BarrierTimedOut{"ranks 1"});
    metrics_.event("digits", core::GenerationFormed{"world", 1, 2, "all are here"});
    metrics_.event("digits", core::GenerationEnded{"world", 1, "rank 1 is lost"});
    metrics_.event("digits", measured("all_reduce"));
    metrics_.disk(1000, true);
    metrics_.job_stats("digits", {.keys = 5,
                                  .bytes = 99,
                                  .waiters = 1,
                                  .barriers_pending = 2,
                                  .sessions = 3,
                                  .collectives_in_flight = 7});
    core::JobReport waiting;
    waiting.name = "digits";
    waiting.diagnosis.state = Diagnosis::State::waiting;
    metrics_.diagnoses({{waiting}});
    metrics_.jobs(2, 1);
    metrics_.job_taken_over();
    metrics_.deposed();
    metrics_.job_moved();
    metrics_.lease(true, milliseconds(900));
    metrics_.silences({{"head2:29500", milliseconds(400)}});
    metrics_.forwarded("ok");
    metrics_.authenticated(Code::ok);
    metrics_.authenticated(std::nullopt);
    metrics_.access_reloaded(true);
    metrics_.certificate_ends(1'800'000'000);
    metrics_.endpoints(1);
  }

  void served(const std::string& train_job, const core::JobStats& stats) {
    metrics_.job_loaded(train_job);
    metrics_.job_stats(train_job, stats);
  }

  Metrics metrics_{{"0.1.0", "rocksdb", "fsync"}};
};

TEST_F(MetricsTest, ExposesExactlyTheCatalogue) {
  use_everything();
  const Exposition seen(metrics_);
  const char* const kinds[] = {"counter", "gauge", "histogram"};
  for (const metric::Info& info : metric::kAll) {
    const std::string name(info.name);
    ASSERT_TRUE(seen.help.contains(name)) << name;
    EXPECT_EQ(seen.help.at(name), info.help);
    EXPECT_EQ(seen.type.at(name), kinds[static_cast<int>(info.kind)]) << name;
  }
  EXPECT_EQ(seen.help.size(), metric::kAll.size());
}

TEST_F(MetricsTest, LabelsAreThoseOfTheCatalogue) {
  use_everything();
  const Exposition seen(metrics_);
  for (const auto& [series, value] : seen.samples) {
    std::string name = series.substr(0, series.find('{'));
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      const std::string base = name.substr(0, name.size() - std::min(name.size(), suffix.size()));
      if (name.ends_with(suffix) && seen.type.contains(base)) name = base;
    }
    const auto* info = std::find_if(metric::kAll.begin(), metric::kAll.end(),
                                    [&](const metric::Info& each) { return each.name == name; });
    ASSERT_NE(info, metric::kAll.end()) << series;
    std::set<std::string> expected;
    std::istringstream names{std::string(info->labels)};
    for (std::string label; std::getline(names, label, ',');) expected.insert(label);
    std::set<std::string> labels;
    for (std::size_t at = series.find('{'), equals = 0; at < series.size() - 1; at = equals) {
      equals = series.find("=\"", at);
      if (equals == std::string::npos) break;
      labels.insert(series.substr(at + 1, equals - at - 1));
      equals = series.find('"', equals + 2) + 1;
    }
    labels.erase("le");
    EXPECT_EQ(labels, expected) << series;
  }
}

TEST_F(MetricsTest, CountsWhatItIsTold) {
  use_everything();
  const Exposition seen(metrics_);
  EXPECT_EQ(seen.at("c10dd_build_info{durability=\"fsync\",engine=\"rocksdb\",version=\"0.1.0\"}"),
            1);
  EXPECT_EQ(seen.at("c10dd_ready"), 1);
  EXPECT_EQ(seen.at("c10dd_engine_up{engine=\"rocksdb\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_connections{protocol=\"native\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_connections_accepted_total{protocol=\"native\"}"), 2);
  EXPECT_EQ(seen.at("c10dd_connections_closed_total{protocol=\"native\",reason=\"malformed\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_store_requests_total{op=\"set\",protocol=\"native\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_store_request_duration_seconds_count{op=\"set\"}"), 1);
  EXPECT_DOUBLE_EQ(seen.at("c10dd_store_request_duration_seconds_sum{op=\"set\"}"), 0.002);
  EXPECT_FALSE(seen.samples.contains("c10dd_store_request_duration_seconds_count{op=\"get\"}"))
      << "operations that block are timed by their events";
  EXPECT_EQ(seen.at("c10dd_store_request_failures_total{code=\"timed_out\",op=\"get\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_store_wait_duration_seconds_count{op=\"barrier\",outcome=\"ok\"}"), 1);
  EXPECT_EQ(seen.at("c10dd_engine_commit_rows_sum{engine=\"rocksdb\"}"), 12);
  EXPECT_EQ(seen.at("c10dd_engine_commit_failures_total{engine=\"rocksdb\",outcome=\"fenced\"}"),
            1);
  EXPECT_EQ(seen.at("c10dd_replayed_replies_total"), 1);
  EXPECT_EQ(seen.at("c10dd_store_keys{train_job=\"digits\"}"), 5);
  EXPECT_EQ(seen.at("c10dd_store_value_bytes{train_job=\"digits\"}"), 99);
  EXPECT_EQ(seen.at("c10dd_barriers_pending{train_job=\"digits\"}"), 2);
  EXPECT_EQ(seen.at("c10dd_collectives_in_flight{train_job=\"digits\"}"), 7);
  for (const char* outcome : {"formed", "ended"}) {
    EXPECT_EQ(seen.at("c10dd_generations_total{outcome=\"" + std::string(outcome) +
                      "\",train_job=\"digits\"}"),
              1);
  }
  EXPECT_DOUBLE_EQ(seen.at("c10dd_barrier_arrival_spread_seconds_sum{train_job=\"digits\"}"), 0.02);
  EXPECT_GT(seen.at("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(seen.at("process_open_fds"), 2);
  EXPECT_GT(seen.at("process_max_fds"), seen.at("process_open_fds"));
  EXPECT_GT(seen.at("process_cpu_seconds_total"), 0);
}

TEST_F(MetricsTest, KnownSeriesExistBeforeTheirFirstEvent) {
  const Exposition seen(metrics_);
  for_each_op([&]<class Op>(std::type_identity<Op>) {
    const std::string op(Op::op.name);
    EXPECT_EQ(seen.at("c10dd_store_requests_total{op=\"" + op + "\",protocol=\"native\"}"), 0);
  });
  for (const ProtocolName& protocol : kProtocols) {
    const std::string label = "{protocol=\"" + std::string(protocol.name) + "\"}";
    EXPECT_EQ(seen.at("c10dd_connections" + label), 0);
    EXPECT_EQ(seen.at("c10dd_connections_accepted_total" + label), 0);
  }
  EXPECT_EQ(metrics_.render().find("op=\"get\",protocol=\"http\""), std::string::npos)
      << "its requests are no operations";
  EXPECT_EQ(seen.at("c10dd_store_wait_duration_seconds_count{op=\"get\",outcome=\"timed_out\"}"),
            0);
}

TEST_F(MetricsTest, CollectiveDifferencesLandInTheirBuckets) {
  metrics_.job_loaded("digits");
  metrics_.event("digits", measured("all_reduce", 3, 1));
  metrics_.event("digits", measured("all_reduce", 4, 0));
  const Exposition seen(metrics_);
  const std::string labels =
      "{backend=\"gloo\",collective=\"all_reduce\",process_group=\"dp\",train_job=\"digits\"";
  const std::string bucket = "c10dd_collective_duration_seconds_bucket" + labels + ",le=";
  EXPECT_EQ(seen.at(bucket + "\"1e-05\"}"), 0);
  EXPECT_EQ(seen.at(bucket + "\"2.5e-05\"}"), 7);
  EXPECT_EQ(seen.at(bucket + "\"100\"}"), 7);
  EXPECT_EQ(seen.at(bucket + "\"+Inf\"}"), 8);
  EXPECT_EQ(seen.at("c10dd_collective_duration_seconds_count" + labels + "}"), 8);
  EXPECT_DOUBLE_EQ(seen.at("c10dd_collective_duration_seconds_sum" + labels + "}"), 5);
  EXPECT_EQ(seen.at("c10dd_collective_payload_bytes_total" + labels + "}"), 2048);
  EXPECT_EQ(seen.at("c10dd_collective_bus_bytes_total" + labels + "}"), 3072);
  EXPECT_EQ(seen.at("c10dd_collective_failures_total" + labels + "}"), 4);
}

TEST_F(MetricsTest, FineBucketsAndTheQueueAreCountedWhereAClientReportsThem) {
  metrics_.job_loaded("digits");
  core::CollectivesMeasured older = measured("all_reduce", 0, 0);
  older.differences[0].buckets[0] = 10;
  metrics_.event("digits", older);
  const std::string labels =
      "{backend=\"gloo\",collective=\"all_reduce\",process_group=\"dp\",train_job=\"digits\"";
  {
    const Exposition seen(metrics_);
    const std::string bucket = "c10dd_collective_duration_seconds_bucket" + labels + ",le=";
    EXPECT_EQ(seen.at(bucket + "\"5e-06\"}"), 0);
    EXPECT_EQ(seen.at(bucket + "\"1e-05\"}"), 10);
    EXPECT_EQ(seen.at("c10dd_collective_queue_seconds_count" + labels + "}"), 0);
  }
  core::CollectivesMeasured newer = older;
  newer.differences[0].fine_buckets = {4, 3, 0, 0, 1};
  newer.differences[0].queue_buckets.assign(metric::kCollectiveBuckets, 0);
  newer.differences[0].queue_buckets[0] = 10;
  newer.differences[0].queue_ns = 500'000'000;
  metrics_.event("digits", newer);
  const Exposition seen(metrics_);
  const std::string bucket = "c10dd_collective_duration_seconds_bucket" + labels + ",le=";
  EXPECT_EQ(seen.at(bucket + "\"2.5e-07\"}"), 4);
  EXPECT_EQ(seen.at(bucket + "\"5e-06\"}"), 8);
  EXPECT_EQ(seen.at(bucket + "\"1e-05\"}"), 20);
  EXPECT_EQ(seen.at("c10dd_collective_queue_seconds_bucket" + labels + ",le=\"2.5e-07\"}"), 10);
  EXPECT_DOUBLE_EQ(seen.at("c10dd_collective_queue_seconds_sum" + labels + "}"), 0.5);
}

TEST_F(MetricsTest, NamesFromClientsCannotSpoilTheText) {
  const std::string name = "a\"b\\c\nd\xff" + std::string(1, '\0') + std::string(400, 'x');
  served(name, {.keys = 1});
  metrics_.event(name, measured("\xff\n\"{}"));
  served("bad\xff", {.keys = 2});
  served("bad\xfe", {.keys = 3});
  const Exposition seen(metrics_);
  EXPECT_TRUE(is_utf8(seen.text));
  EXPECT_EQ(seen.at("c10dd_store_keys{train_job=\"a\\\"b\\\\c?d??" + std::string(246, 'x') + "\"}"),
            1);
  EXPECT_EQ(seen.at("c10dd_store_keys{train_job=\"bad?\"}"), 5) << "names that print alike";
  metrics_.remove_job("bad\xff");
  EXPECT_EQ(Exposition(metrics_).at("c10dd_store_keys{train_job=\"bad?\"}"), 3);
}

TEST_F(MetricsTest, JobsBeyondTheCapAreCountedTogether) {
  const std::size_t jobs = limits::kJobsInMetrics + 3;
  for (std::size_t i = 0; i < jobs; ++i) {
    served("job-" + std::to_string(i), {.keys = 10, .sessions = 1});
  }
  const auto named = [](const Exposition& seen) {
    return std::count_if(seen.samples.begin(), seen.samples.end(), [](const auto& sample) {
      return sample.first.starts_with("c10dd_store_keys{");
    });
  };
  const std::string other = "c10dd_store_keys{train_job=\"other\"}";
  {
    const Exposition seen(metrics_);
    EXPECT_EQ(named(seen), static_cast<std::ptrdiff_t>(limits::kJobsInMetrics + 1));
    EXPECT_EQ(seen.at(other), 30);
  }
  metrics_.job_stats("job-200", {.keys = 7});
  served("other", {.keys = 100});
  metrics_.event("job-201", measured("broadcast"));
  metrics_.remove_job("job-202");
  EXPECT_EQ(Exposition(metrics_).at(other), 7 + 10 + 100);
  metrics_.remove_job("job-0");
  served("late", {.keys = 1});
  for (const char* folded : {"job-200", "job-201", "other"}) metrics_.remove_job(folded);
  const Exposition seen(metrics_);
  EXPECT_EQ(seen.at("c10dd_store_keys{train_job=\"late\"}"), 1) << "a place was free again";
  EXPECT_EQ(seen.text.find("\"other\""), std::string::npos);
}

TEST_F(MetricsTest, SeriesOfAJobAreBounded) {
  metrics_.job_loaded("digits");
  for (std::size_t i = 0; i < limits::kSeriesPerReport + 10; ++i) {
    metrics_.event("digits", measured("op" + std::to_string(i)));
  }
  const Exposition seen(metrics_);
  EXPECT_EQ(seen.at("c10dd_collective_failures_total{backend=\"other\",collective=\"other\","
                    "process_group=\"other\",train_job=\"digits\"}"),
            20);
}

TEST_F(MetricsTest, SeriesGoWithTheirJob) {
  use_everything();
  ASSERT_NE(metrics_.render().find("train_job=\"digits\""), std::string::npos);
  metrics_.remove_job("digits");
  metrics_.remove_job("digits");
  metrics_.diagnoses({});
  EXPECT_EQ(metrics_.render().find("train_job"), std::string::npos);
}

TEST_F(MetricsTest, WhatHappensInAJobWithoutSeriesMakesNone) {
  use_everything();
  metrics_.remove_job("digits");
  metrics_.event("digits", core::GenerationEnded{"world", 1, "rank 1 is lost"});
  metrics_.event("digits", core::BarrierReleased{milliseconds(20)});
  metrics_.event("digits", measured("all_reduce"));
  metrics_.diagnoses({});
  EXPECT_EQ(metrics_.render().find("train_job"), std::string::npos);
}

TEST_F(MetricsTest, SeriesStayUntilTheLastRunOfAJobIsGone) {
  served("digits", {.keys = 1});
  served("digits", {.keys = 3});  // of both runs together
  metrics_.remove_job("digits");
  EXPECT_EQ(Exposition(metrics_).at("c10dd_store_keys{train_job=\"digits\"}"), 3);
  metrics_.remove_job("digits");
  metrics_.job_stats("digits", {.keys = 5});  // an older state of the job
  EXPECT_EQ(metrics_.render().find("train_job"), std::string::npos);
}

TEST_F(MetricsTest, CountsFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      RequestTally tally(metrics_);
      for (int n = 0; n < 1000; ++n) {
        tally.request(Protocol::native, Get::op);
        if (n % 100 == 99) tally.flush();
        metrics_.connection_closed(Protocol::native, i % 2 == 0 ? "idle" : "slow_consumer");
        tally.answered(Get::op, Code::not_found, milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Exposition seen(metrics_);
  EXPECT_EQ(seen.at("c10dd_store_requests_total{op=\"get\",protocol=\"native\"}"), 4000);
  EXPECT_EQ(seen.at("c10dd_connections_closed_total{protocol=\"native\",reason=\"idle\"}"), 2000);
  EXPECT_EQ(seen.at("c10dd_store_request_failures_total{code=\"not_found\",op=\"get\"}"), 4000);
}

TEST_F(MetricsTest, RendersWhileItCounts) {
  std::atomic<bool> stop = false;
  std::thread scrape([&] {
    do {
      EXPECT_FALSE(metrics_.render().empty());
    } while (!stop);
  });
  for (int i = 0; i < 200; ++i) {
    use_everything();
    metrics_.remove_job("digits");
  }
  stop = true;
  scrape.join();
  EXPECT_EQ(Exposition(metrics_).at("c10dd_connections_accepted_total{protocol=\"native\"}"), 400);
}

TEST_F(MetricsTest, PromtoolFindsNothingToSay) {
  if (::system("promtool --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no promtool; it comes with Debian's package prometheus";
  }
  use_everything();
  metrics_.job_loaded("a\"b\\c\nd\xff");
  metrics_.event("a\"b\\c\nd\xff", measured("\xff"));
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/metrics";
  std::ofstream(file) << metrics_.render();
  const std::string said = directory.path() + "/said";
  const int status = ::system(("promtool check metrics <" + file + " >" + said + " 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(said).rdbuf();
  EXPECT_EQ(status, 0) << text.str();
}

}  // namespace
}  // namespace c10dd::daemon
