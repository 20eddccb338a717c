// SPDX-License-Identifier: Apache-2.0
// What the metrics and the pages show of jobs that do not go on. event_log_test.cc has the lines of
// the log.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/http/diagnosis_json.h"
#include "daemon/http/fleet_page.h"
#include "daemon/http/job_page.h"
#include "daemon/metrics/metrics.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using std::chrono::seconds;
using State = Diagnosis::State;
using Kind = Diagnosis::Kind;

const std::string kSentence =
    "barrier \"epoch\" (generation 0, sequence 7) waits for rank 3 on node4 (pid 12), whose "
    "connection has closed; 3 ranks wait";

double unix_time() { return seconds_of(std::chrono::system_clock::now().time_since_epoch()); }

/// A run without a diagnosis, that is, one that goes on.
core::JobReport running(const std::string& job, const std::string& run = "r1") {
  core::JobReport report;
  report.name = job;
  report.run = run;
  report.number = 1;
  report.stats.sessions = report.stats.sessions_known = 1;
  return report;
}

core::JobReport diagnosed(const std::string& job, const std::string& run, State state, Duration age,
                          const std::string& sentence = kSentence) {
  core::JobReport report = running(job, run);
  report.diagnosed = age;
  report.diagnosis = {.state = state,
                      .kind = Kind::missing,
                      .since = {},
                      .sentence = sentence,
                      .ranks = {3},
                      .hosts = {"node4"},
                      .waiting = 3,
                      .evidence = {"barrier \"epoch\": ranks [0-2] wait for rank 3 on node4"}};
  return report;
}

// ---- the metrics -------------------------------------------------------------------------------

class DiagnosisMetricsTest : public testing::Test {
 protected:
  /// Returns the lines of the series, without their values.
  std::vector<std::string> series() {
    std::vector<std::string> found;
    std::istringstream lines(metrics_.render());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("c10dd_job_diagnosis_timestamp_seconds{")) continue;
      const std::size_t space = line.rfind(' ');
      value_ = std::stod(line.substr(space));
      found.push_back(line.substr(line.find('{'), space - line.find('{')));
    }
    return found;
  }
  static std::string labels(const std::string& job, const std::string& state,
                            const std::string& sentence) {
    return R"({kind="missing",sentence=")" + sentence + R"(",state=")" + state +
           R"(",train_job=")" + job + "\"}";
  }
  using Lines = std::vector<std::string>;

  Metrics metrics_{{"0.1.0", "memory", "none"}};
  double value_ = 0;  // of the last series that series() has found
};

TEST_F(DiagnosisMetricsTest, AJobHasASeriesUntilItGoesOnOrIsGone) {
  const std::vector one = {diagnosed("a", "r1", State::stuck, seconds(90), "why"), running("b")};
  metrics_.diagnoses(one);
  EXPECT_EQ(series(), Lines{labels("a", "stuck", "why")});
  EXPECT_NEAR(value_, unix_time() - 90, 5);
  metrics_.diagnoses(std::vector{diagnosed("a", "r1", State::stuck, seconds(95), "why")});
  EXPECT_EQ(series(), Lines{labels("a", "stuck", "why")});
  metrics_.diagnoses(std::vector{diagnosed("a", "r1", State::stuck, seconds(96), "why else")});
  EXPECT_EQ(series(), Lines{labels("a", "stuck", "why else")}) << "the older sentence is gone";
  metrics_.diagnoses(std::vector{running("a")});
  EXPECT_EQ(series(), Lines{});
  metrics_.diagnoses(one);
  metrics_.diagnoses({});
  EXPECT_EQ(series(), Lines{});
}

TEST_F(DiagnosisMetricsTest, OfTwoRunsTheWorseOneCounts) {
  const core::JobReport young = diagnosed("a", "r1", State::stuck, seconds(1), "young");
  const core::JobReport old = diagnosed("a", "r2", State::stuck, seconds(2), "old");
  const core::JobReport patient = diagnosed("a", "r3", State::waiting, seconds(100), "patient");
  const core::JobReport other = diagnosed("b", "r1", State::waiting, seconds(1), "other");
  const Lines of_other = {labels("b", "waiting", "other")};
  const auto shown = [&](const std::vector<core::JobReport>& runs) {
    metrics_.diagnoses(runs);
    Lines all = series();
    const std::set<std::string> sorted(all.begin(), all.end());
    EXPECT_EQ(sorted.count(of_other.front()), 1U);
    EXPECT_EQ(sorted.size(), 2U);
    return sorted.contains(labels("a", "stuck", "old"))         ? "old"
           : sorted.contains(labels("a", "stuck", "young"))     ? "young"
           : sorted.contains(labels("a", "waiting", "patient")) ? "patient"
                                                                : "another";
  };
  EXPECT_STREQ(shown({young, old, patient, other}), "old");
  EXPECT_STREQ(shown({other, patient, old, young}), "old") << "in any order";
  EXPECT_STREQ(shown({other, patient, young}), "young") << "stuck before waiting";
  EXPECT_STREQ(shown({other, running("a", "r4"), patient}), "patient");
}

TEST_F(DiagnosisMetricsTest, NamesAndSentencesCannotSpoilTheText) {
  metrics_.diagnoses(
      std::vector{diagnosed("bad\xff\n\"", "r", State::stuck, seconds(1), "a \"b\"\xfe\n"),
                  diagnosed("bad\xfe\n\"", "r", State::stuck, seconds(9), "longer")});
  EXPECT_EQ(series(), Lines{labels("bad??\\\"", "stuck", "longer")})
      << "names that print alike are one job";
  metrics_.diagnoses(
      std::vector{diagnosed("bad\xff", "r", State::stuck, seconds(1), "a \"b\"\xfe\n")});
  EXPECT_EQ(series(), Lines{labels("bad?", "stuck", "a \\\"b\\\"??")});
  EXPECT_TRUE(is_utf8(metrics_.render()));
  const std::string longest(Diagnosis::kSentenceBytes, 'x');
  metrics_.diagnoses(std::vector{diagnosed("a", "r", State::stuck, seconds(1), longest)});
  EXPECT_EQ(series(), Lines{labels("a", "stuck", longest)}) << "it is not cut";
}

TEST_F(DiagnosisMetricsTest, OfTooManyJobsTheWorstHaveSeries) {
  std::vector<core::JobReport> runs;
  for (std::size_t i = 0; i < limits::kJobsInMetrics + 3; ++i) {
    runs.push_back(diagnosed("job-" + std::to_string(i), "r",
                             i == 2 ? State::stuck : State::waiting, seconds(i), "why"));
  }
  metrics_.diagnoses(runs);
  const Lines lines = series();
  const std::set<std::string> shown(lines.begin(), lines.end());
  EXPECT_EQ(shown.size(), limits::kJobsInMetrics);
  EXPECT_TRUE(shown.contains(labels("job-2", "stuck", "why"))) << "a stuck job is worse";
  for (const char* young : {"job-0", "job-1", "job-3"}) {
    EXPECT_FALSE(shown.contains(labels(young, "waiting", "why"))) << young;
  }
  EXPECT_EQ(metrics_.render().find("train_job=\"other\""), std::string::npos);
}

// ---- the pages
// -----------------------------------------------------------------------------------

boost::json::value jobs_page(const std::vector<core::JobReport>& served) {
  return boost::json::parse(json_of(JobsPage{.served = served, .owners = {}, .problem = {}}))
      .at("jobs");
}

JobPage job_page(const std::vector<core::JobReport>& runs) {
  JobPage page{.job = runs.front().name, .runs = {}};
  for (const core::JobReport& run : runs) {
    page.runs.emplace_back();
    page.runs.back().job = run;
  }
  return page;
}

TEST(DiagnosisPages, BothPagesHaveTheSameMember) {
  const std::vector runs = {diagnosed("a", "r1", State::stuck, seconds(90)), running("a", "r2")};
  std::vector<core::JobReport> numbered = runs;
  numbered[1].number = 2;
  const boost::json::value jobs = jobs_page(numbered);
  const boost::json::value of_job = boost::json::parse(json_of(job_page(numbered))).at("runs");
  for (const boost::json::value& list : {jobs, of_job}) {
    boost::json::object shown = list.at(0).at("diagnosis").as_object();
    EXPECT_NEAR(shown["since"].as_double(), unix_time() - 90, 5);
    shown.erase("since");
    EXPECT_EQ(
        boost::json::value(shown),
        boost::json::value({{"state", "stuck"},
                            {"kind", "missing"},
                            {"sentence", kSentence},
                            {"ranks", boost::json::array{3}},
                            {"hosts", boost::json::array{"node4"}},
                            {"waiting", 3},
                            {"evidence", boost::json::array{runs[0].diagnosis.evidence[0]}}}));
    EXPECT_EQ(list.at(1).at("diagnosis"), boost::json::value({{"state", "running"}}));
  }
}

TEST(DiagnosisPages, ARunWhoseProcessesHaveAllLeftHasEnded) {
  core::JobReport run = running("a");
  run.stats.sessions = 0;  // it may come back
  EXPECT_EQ(diagnosis_json(run, {}), (boost::json::object{{"state", "idle"}}));
  run.stats.sessions_known = 0;
  EXPECT_EQ(diagnosis_json(run, {}), (boost::json::object{{"state", "ended"}}));
  run.run.clear();  // the permanent name space of the job
  EXPECT_EQ(diagnosis_json(run, {}), (boost::json::object{{"state", "idle"}}));
}

TEST(DiagnosisPages, WhyARunWasStuckStaysWhenItIsNotAnyMore) {
  const std::chrono::system_clock::time_point now{seconds(1'800'000'000)};
  core::JobReport run = running("a");
  run.last_stuck = diagnosed("a", "r1", State::stuck, {}).diagnosis;
  run.last_ended = seconds(20);
  const boost::json::object last = {{"kind", "missing"},
                                    {"ended", 1'799'999'980.0},
                                    {"sentence", kSentence},
                                    {"ranks", boost::json::array{3}},
                                    {"hosts", boost::json::array{"node4"}}};
  EXPECT_EQ(diagnosis_json(run, now),
            (boost::json::object{{"state", "running"}, {"last_stuck", last}}));
  EXPECT_EQ(text_of(job_page({run})), "last stuck: " + kSentence + "\nr1: 1 session\n");
  run.stats.sessions = 0;
  EXPECT_EQ(diagnosis_json(run, now).at("state"), "idle");
  EXPECT_EQ(diagnosis_json(run, now).at("last_stuck"), last);
  core::JobReport alone = diagnosed("a", "r1", State::stuck, seconds(90));
  alone.stats.sessions = 0;
  EXPECT_EQ(diagnosis_json(alone, now).at("last_stuck").at("sentence").as_string(), kSentence)
      << "nobody is left to wait";
  EXPECT_EQ(diagnosis_json(alone, now).at("last_stuck").at("ended"), 1'800'000'000.0);
}

TEST(DiagnosisPages, SinceHasMilliseconds) {
  core::JobReport run = diagnosed("a", "r1", State::waiting, std::chrono::microseconds(1'250'400));
  const std::chrono::system_clock::time_point now{seconds(1'800'000'000)};
  EXPECT_EQ(diagnosis_json(run, now).at("since"), boost::json::value(1'799'999'998.749));
}

TEST(DiagnosisPages, TheTextOfARunBeginsWithTheSentence) {
  const std::string text =
      text_of(job_page({diagnosed("a", "r1", State::stuck, seconds(90)), running("a", "r2"),
                        diagnosed("a", "r3", State::waiting, seconds(1), "why")}));
  EXPECT_EQ(text, "stuck: " + kSentence + "\nr1: 1 session\nr2: 1 session\nwaiting: why\n" +
                      "r3: 1 session\n");
}

TEST(DiagnosisPages, HostileTextsArePrintable) {
  core::JobReport run = diagnosed("a\xff", "r\n", State::stuck, seconds(1), "a\xff\nb");
  run.diagnosis.hosts = {"h\xff", "\x1b[2J"};
  run.diagnosis.evidence = {"e\xff"};
  const boost::json::value shown = jobs_page({run}).at(0).at("diagnosis");
  EXPECT_EQ(shown.at("sentence").as_string(), "a??b");
  EXPECT_EQ(shown.at("hosts"), boost::json::value({"h?", "?[2J"}));
  EXPECT_EQ(shown.at("evidence"), boost::json::value(boost::json::array{"e?"}));
  EXPECT_TRUE(is_utf8(json_of(job_page({run}))));
  EXPECT_TRUE(text_of(job_page({run})).starts_with("stuck: a??b\nr?: "));
}

}  // namespace
}  // namespace c10dd::daemon
