// SPDX-License-Identifier: Apache-2.0
// Which route serves a request, who may use it, and what it replies.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

#include "daemon/core/directory/volatile_runs.h"
#include "protocol/limits.h"
#include "tests/unit/daemon/ask_route.h"

namespace c10dd::daemon {
namespace {

using Asked = std::vector<std::string>;

std::string code_of(const HttpReply& reply) {
  const boost::json::value error = boost::json::parse(reply.body).at("error");
  EXPECT_FALSE(error.at("detail").as_string().empty());
  EXPECT_EQ(error.at("code").as_string(), name_of(reply.code));
  return std::string(error.at("code").as_string());
}

class HttpRoutes : public testing::Test, protected AskedDaemon {
 protected:
  HttpRoutes() {
    operations.known.engine = "rocksdb";
    operations.known.durability = "fsync";
    operations.known.uptime = std::chrono::milliseconds(90'250);
  }
};

TEST_F(HttpRoutes, AnswerWhatTheyPromise) {
  EXPECT_EQ(ask("GET", "/livez").body, "ok\n");
  EXPECT_EQ(ask("HEAD", "/livez").body, "ok\n");
  EXPECT_EQ(status("GET", "/livez?verbose"), 200);
  EXPECT_EQ(status("GET", "http://daemon:29500/livez"), 200);
  EXPECT_EQ(ask("GET", "/readyz").body, "ready\nengine: rocksdb\ndurability: fsync\n");
  EXPECT_EQ(ask("GET", "/metrics").content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(ask("GET", "/metrics").body, "c 1\n");
  const boost::json::value version = boost::json::parse(ask("GET", "/v1/version").body);
  EXPECT_EQ(version.at("version").as_string(), "0.1.0");
  EXPECT_EQ(version.at("protocol_version").to_number<int>(), 1);
  EXPECT_EQ(version.at("engine").as_string(), "rocksdb");
  EXPECT_EQ(version.at("durability").as_string(), "fsync");
  EXPECT_NE(ask("GET", "/v1/version").body.find("\"uptime_seconds\":90.25}"), std::string::npos);
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/version", "/v1/jobs/{job}/move"}) {
    EXPECT_NE(ask("GET", "/").body.find(path), std::string::npos) << path;
  }
}

TEST_F(HttpRoutes, ShowHowFarLoadsAre) {
  using std::chrono::milliseconds;
  operations.loads = {
      {"digits", "r1", 3, 1'200'000, 250'000'000, 4'000'000, milliseconds(3'100)},
      {"words", "", 4, 7, 100, {}, milliseconds(200)},
  };
  EXPECT_EQ(ask("GET", "/readyz").body,
            "ready\nengine: rocksdb\ndurability: fsync\n"
            "loading: job \"digits\" run \"r1\" (number 3), 1200000 of 4000000 rows (250000000 "
            "bytes) restored in 3.1 s\n"
            "loading: job \"words\" (number 4), 7 rows (100 bytes) restored in 0.2 s\n");
  operations.known.names_jobs = false;
  EXPECT_EQ(ask("GET", "/readyz").body.find("digits"), std::string::npos);
  EXPECT_NE(ask("GET", "/readyz").body.find("loading: job number 3, 12"), std::string::npos);

  const boost::json::value jobs = boost::json::parse(ask("GET", "/v1/jobs").body).at("jobs");
  ASSERT_EQ(jobs.as_array().size(), 2U);
  EXPECT_EQ(jobs.at(0).at("job").as_string(), "digits");
  const boost::json::value& first = jobs.at(0).at("loading");
  EXPECT_EQ(first.at("rows").to_number<int>(), 1'200'000);
  EXPECT_EQ(first.at("of_rows").to_number<int>(), 4'000'000);
  EXPECT_EQ(first.at("bytes").to_number<int>(), 250'000'000);
  EXPECT_EQ(first.at("seconds").to_number<double>(), 3.1);
  EXPECT_FALSE(jobs.at(1).at("loading").as_object().contains("of_rows"));
  EXPECT_FALSE(jobs.at(0).as_object().contains("keys")) << "nothing is known of it yet";

  const HttpReply page = ask("GET", "/v1/jobs/digits");
  EXPECT_EQ(page.status, 200);
  const boost::json::value job = boost::json::parse(page.body);
  EXPECT_TRUE(job.at("runs").as_array().empty());
  ASSERT_EQ(job.at("loading").as_array().size(), 1U) << "not the run of the other job";
  EXPECT_EQ(job.at("loading").at(0).at("run").as_string(), "r1");
  EXPECT_EQ(job.at("loading").at(0).at("number").as_string(), "3");
  for (std::uint64_t number = 5; number <= 30; ++number) {
    operations.loads.push_back({"many", "", number, 0, 0, {}, {}});
  }
  EXPECT_TRUE(ask("GET", "/readyz").body.ends_with("\nloading: 12 more jobs\n"));
}

TEST_F(HttpRoutes, NothingIsAnsweredToAnUnknownHost) {
  HttpRequest request{"GET", "/v1/jobs", true};
  request.host = "evil.example:29500";
  const HttpReply reply = reply_of(operations, request, {.local = true, .host_known = false});
  EXPECT_EQ(asked(), Asked{});
  EXPECT_EQ(reply.status, 403);
  EXPECT_NE(reply.body.find("evil.example:29500"), std::string::npos) << reply.body;
  EXPECT_NE(reply.body.find("--http-hosts"), std::string::npos) << reply.body;
}

/// Each route, asked about a job by clients with each role in it, or in another one.
TEST_F(HttpRoutes, OfADaemonThatAsksWhoItsClientsAreNeedARole) {
  using core::Role;
  const auto target = [](std::string_view pattern) {
    std::string path(pattern);
    for (const auto& [hole, name] :
         {std::pair("{job}", "llm-1"), {"{run}", "r"}, {"{name}", "a"}}) {
      const std::size_t at = path.find(hole);
      if (at != path.npos) path.replace(at, std::string(hole).size(), name);
    }
    return path;
  };
  std::size_t refused = 0;
  std::size_t allowed = 0;
  for (const Route& route : all_routes()) {
    const HttpRequest request{route.method, target(route.pattern), true};
    const bool of_job = route.pattern.find("{job}") != route.pattern.npos;
    for (const Role role : {Role::none, Role::viewer, Role::trainer, Role::admin}) {
      for (const char* jobs : {"llm-*", "vision", "*"}) {
        core::JobRoles roles;
        roles.add(*core::JobPattern::of(jobs), role);
        const bool counts =
            jobs == std::string("*") || route.in_any || (of_job && jobs == std::string("llm-*"));
        const bool may = route.role == Role::none || (counts && role >= route.role);
        const HttpReply reply =
            reply_of(operations, request, {.local = true, .host_known = true, .roles = roles});
        EXPECT_EQ(reply.status == 403, !may)
            << route.method << " " << route.pattern << ", " << name_of(role) << " in " << jobs;
        ++(may ? allowed : refused);
      }
    }
    const Failure nobody = failure(Code::unauthenticated, "no token");
    const HttpReply reply =
        reply_of(operations, request, {.local = true, .host_known = true, .roles = nobody});
    EXPECT_EQ(reply.status == 401, route.role != Role::none) << route.pattern;
  }
  EXPECT_GT(refused, 60U);
  EXPECT_GT(allowed, 60U);
}

TEST_F(HttpRoutes, SayTheSameOfAnotherJobAndOfNone) {
  core::JobRoles roles;
  roles.add(*core::JobPattern::of("llm-*"), core::Role::admin);
  const auto ask_about = [&](const std::string& job) {
    operations.asked.clear();
    HttpReply reply = reply_of(operations, {"GET", "/v1/jobs/" + job, true},
                               {.local = true, .host_known = true, .roles = roles});
    EXPECT_EQ(asked(), Asked{}) << "nobody has looked for it";
    return reply;
  };
  for (const char* name : {"vision", "llm-1"}) {
    operations.jobs.emplace_back();
    operations.jobs.back().name = name;
  }
  const HttpReply other = ask_about("vision");
  EXPECT_EQ(other.status, 403);
  EXPECT_EQ(code_of(other), "permission_denied");
  EXPECT_NE(
      other.body.find("this needs the role viewer in job \\\"vision\\\"; ask for a token that "
                      "has it"),
      std::string::npos)
      << other.body;
  EXPECT_EQ(ask_about("absent").status, 403);
  const HttpReply list = reply_of(operations, {"GET", "/v1/jobs", true},
                                  {.local = true, .host_known = true, .roles = roles});
  const boost::json::value shown = boost::json::parse(list.body).at("jobs");
  ASSERT_EQ(shown.as_array().size(), 1U) << list.body;
  EXPECT_EQ(shown.at(0).at("job").as_string(), "llm-1");
}

TEST_F(HttpRoutes, ReadyzSaysWhyNot) {
  operations.known.not_ready = "draining";
  const HttpReply reply = ask("GET", "/readyz");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "not ready: draining\nengine: rocksdb\ndurability: fsync\n");
  EXPECT_EQ(status("GET", "/livez"), 200);
}

TEST_F(HttpRoutes, ReadyzHasANoteForTheOperator) {
  operations.known.note = "disk of /srv: 5 bytes free";
  const HttpReply reply = ask("GET", "/readyz");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body,
            "ready\nengine: rocksdb\ndurability: fsync\nnote: disk of /srv: 5 bytes free\n");
}

TEST_F(HttpRoutes, RefuseOtherPathsAndMethods) {
  const HttpReply missing = ask("GET", "/nope\"\xff");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(code_of(missing), "not_found");
  for (const char* target : {"/nope", "/livez/", "/livezz", "/v1/jobs/", "//livez"}) {
    EXPECT_EQ(status("POST", target), 404) << target;
  }
  EXPECT_EQ(status("OPTIONS", "*"), 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    const HttpReply refused = ask(method, "/metrics");
    EXPECT_EQ(refused.status, 405) << method;
    EXPECT_EQ(refused.allow, "GET, HEAD");
    EXPECT_EQ(code_of(refused), "unsupported");
  }
}

TEST_F(HttpRoutes, WhatCostsIsMadeOnlyForThoseWhoReadIt) {
  const auto asked_by = [this](const char* method, const char* target) {
    ask(method, target);
    return asked();
  };
  EXPECT_EQ(asked_by("GET", "/metrics?x=1"), Asked{"metrics"});
  EXPECT_EQ(asked_by("HEAD", "/metrics"), Asked{"metrics"});
  EXPECT_EQ(asked_by("POST", "/metrics"), Asked{});
  EXPECT_EQ(asked_by("GET", "/livez"), Asked{});
  EXPECT_EQ(asked_by("GET", "/v1/jobs"), Asked{"jobs"});
}

HttpRequest checkpoint_to(const std::string& body, const std::string& type = "application/json") {
  return {"POST", "/v1/checkpoint", true, type, body};
}

TEST_F(HttpRoutes, CheckpointIsForThisMachineAndTakesOneAbsolutePath) {
  const HttpRequest good =
      checkpoint_to("{\"path\": \"/backup/1\"}", "application/json; charset=x");
  EXPECT_EQ(ask(good).status, 403);
  EXPECT_EQ(asked(), Asked{});
  local = true;
  EXPECT_EQ(ask(good).body, "{\"path\":\"/backup/1\"}\n");
  EXPECT_EQ(asked(), Asked{"checkpoint /backup/1"});
  EXPECT_EQ(ask("GET", "/v1/checkpoint").allow, "POST");
  for (const char* body : {"", "{", "[]", "{}", "{\"path\": 1}", "{\"path\": \"x\"}",
                           "{\"path\": \"/x\", \"y\": 1}", "{\"path\": \"/x\\u0000\"}"}) {
    EXPECT_EQ(ask(checkpoint_to(body)).status, 400) << body;
    EXPECT_EQ(asked(), Asked{});
  }
  EXPECT_EQ(ask(checkpoint_to("{\"path\": \"/x\"}", "text/plain")).status, 400);
  operations.done = failure(Code::disk_full, "no room");
  EXPECT_EQ(ask(good).status, 507);
  EXPECT_EQ(code_of(ask(good)), "disk_full");
}

TEST_F(HttpRoutes, EndARunForThisMachineOnly) {
  const HttpRequest request{"DELETE", "/v1/jobs/a%20b/runs/plain-7", true};
  EXPECT_EQ(ask(request).status, 403);
  EXPECT_EQ(asked(), Asked{});
  local = true;
  EXPECT_EQ(ask(request).body, "{\"ended\":\"plain-7\"}\n");
  EXPECT_EQ(asked(), Asked{"end plain-7 of a b"});
  operations.done = failure(Code::not_found, "no such run");
  EXPECT_EQ(ask(request).status, 404);
}

TEST_F(HttpRoutes, RemoveAJobForThisMachineOnly) {
  const HttpRequest request{"DELETE", "/v1/jobs/a%20b", true};
  EXPECT_EQ(ask(request).status, 403);
  EXPECT_EQ(asked(), Asked{});
  local = true;
  EXPECT_EQ(ask(request).body, "{\"removed\":\"a b\"}\n");
  EXPECT_EQ(asked(), Asked{"remove a b"});
  for (const char* target : {"/v1/jobs/a%2", "/v1/jobs/%zz"}) {
    EXPECT_EQ(status("DELETE", target), 400) << target;
    EXPECT_EQ(asked(), Asked{});
  }
  operations.done = failure(Code::unavailable, "job \"a b\" is in use");
  EXPECT_EQ(ask(request).status, 409);
  operations.known.not_ready = "the engine is not open";
  EXPECT_EQ(ask(request).status, 503);
  operations.done = failure(Code::not_found, "no job");
  EXPECT_EQ(ask(request).status, 404);
  EXPECT_EQ(ask("PUT", "/v1/jobs/a").allow, "GET, HEAD, DELETE");
  EXPECT_EQ(status("DELETE", "/v1/jobs/"), 404);
}

TEST_F(HttpRoutes, JobsAreListedWithNamesThatPrint) {
  core::JobReport job;
  job.name = "digits\xff";
  job.run = "r1";
  job.number = core::VolatileRuns::kFirst + 7;
  job.stats.keys = 3;
  operations.jobs = {job};
  const boost::json::value body = boost::json::parse(ask("GET", "/v1/jobs").body);
  const boost::json::value& first = body.at("jobs").at(0);
  EXPECT_EQ(first.at("job").as_string(), "digits?");
  EXPECT_EQ(first.at("run").as_string(), "r1");
  EXPECT_EQ(first.at("number").as_string(), "9223372036854775815") << "more than 53 bits";
  EXPECT_EQ(first.at("keys").to_number<int>(), 3);
}

// ---- the page of a job -------------------------------------------------------------------------

TEST_F(HttpRoutes, NumbersThatCanHaveMoreThan53BitsAreStrings) {
  core::RunReport run;
  run.job.name = "a";
  run.job.number = std::numeric_limits<std::uint64_t>::max();
  run.view.waits = {{.key = "counter",
                     .rank = {},
                     .at_least = std::numeric_limits<std::int64_t>::min(),
                     .waiters = 1,
                     .longest = {},
                     .processes = {}}};
  operations.runs = {run};
  const HttpReply reply = ask("GET", "/v1/jobs/a");
  const boost::json::value shown = boost::json::parse(reply.body).at("runs").at(0);
  EXPECT_EQ(shown.at("number").as_string(), "18446744073709551615");
  EXPECT_EQ(shown.at("waits").at(0).at("at_least").as_string(), "-9223372036854775808");
}

/// A launch of four ranks, of which rank 3 has not come.
core::RunReport waiting_run() {
  core::RunReport run;
  run.job = {.name = "torch", .run = "plain-7", .number = 9, .revision = 1, .stats = {}};
  run.view.ranks = {0, 1, 2};
  run.view.world_size = 4;
  run.view.waits = {{.key = "/default_pg/0//cpu//0/3",
                     .rank = 3,
                     .at_least = {},
                     .waiters = 2,
                     .longest = std::chrono::seconds(3),
                     .processes = {{"10.0.0.1", 17}, {"10.0.0.2", 0}}}};
  core::PlainRuns::Report plain{.run = "plain-7", .began = {}, .connections = 5, .joined = 3};
  plain.ranks = {{.rank = 0, .key = "/default_pg/0//cpu//0/0", .peer = {"10.0.0.1", 17}},
                 {.rank = 1, .key = "/default_pg/0//cpu//0/1", .peer = {"10.0.0.2", 18}}};
  run.plain = plain;
  return run;
}

TEST_F(HttpRoutes, AJobNamesItsRanksAndWhoWaitsForWhom) {
  HttpRequest request{"GET", "/v1/jobs/torch", true};
  EXPECT_EQ(ask(request).status, 404);
  EXPECT_EQ(asked(), Asked{"runs of torch"});
  operations.runs = {waiting_run()};
  const HttpReply json = ask(request);
  const std::string summary =
      "plain-7: 3 joined of 4; ranks seen: [0-2]; ranks missing: [3]; ranks that have left: [2]; "
      "2 wait for /default_pg/0//cpu//0/3, of rank 3, not seen: rank 0 on 10.0.0.1 (pid 17), "
      "10.0.0.2";
  const boost::json::value run = boost::json::parse(json.body).at("runs").at(0);
  EXPECT_EQ(run.at("summary").as_string(), summary);
  EXPECT_EQ(run.at("world_size").as_int64(), 4);
  EXPECT_EQ(run.at("joined").as_int64(), 3);
  EXPECT_EQ(run.at("ranks").at(0).at("host").as_string(), "10.0.0.1");
  EXPECT_EQ(run.at("missing"), boost::json::array{3});
  EXPECT_EQ(run.at("left"), boost::json::array{2});
  EXPECT_EQ(run.at("waits").at(0).at("seen").as_bool(), false);
  EXPECT_EQ(run.at("waits").at(0).at("ranks"), boost::json::array{0});
  request.accept = "text/plain";
  EXPECT_EQ(ask(request).body, summary + "\n");
}

TEST_F(HttpRoutes, AJobThatHasNotBegunSaysHowItsRanksFindIt) {
  const HttpRequest request{"GET", "/v1/jobs/a%20b", true};
  operations.trainers = "[::1]:29500";
  const HttpReply reply = ask(request);
  EXPECT_EQ(reply.status, 200);
  const boost::json::value body = boost::json::parse(reply.body);
  EXPECT_EQ(body.at("runs").as_array().size(), 0U);
  EXPECT_TRUE(body.at("note").as_string().starts_with("job \"a b\" waits for its first rank; "));
  EXPECT_NE(reply.body.find("start them with MASTER_ADDR=::1 MASTER_PORT=29500 "
                            "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0"),
            std::string::npos)
      << reply.body;
  operations.trainers.clear();
  EXPECT_EQ(ask(request).status, 404);
  EXPECT_NE(ask(request).body.find("see POST /v1/jobs/a b/endpoints"), std::string::npos)
      << ask(request).body;
  operations.stored = true;
  EXPECT_EQ(ask(request).status, 503) << "another daemon may serve it soon";
}

TEST_F(HttpRoutes, AJobShowsRanksThatTellDifferentWorldSizes) {
  operations.runs = {waiting_run()};
  operations.runs.front().view.differing = {{3, {2}}, {4, {0, 1}}};
  const HttpRequest request{"GET", "/v1/jobs/torch", true};
  EXPECT_NE(ask(request).body.find("; the ranks report different world sizes: 3 by ranks [2]; "
                                   "4 by ranks [0-1]; start all ranks with the same world "
                                   "size\""),
            std::string::npos)
      << ask(request).body;
  const boost::json::value run = boost::json::parse(ask(request).body).at("runs").at(0);
  EXPECT_EQ(run.at("world_sizes").at(1).at("world_size").as_int64(), 4);
  EXPECT_EQ(run.at("world_sizes").at(1).at("ranks"), boost::json::array({0, 1}));
  operations.runs.front().plain->differing = "two sizes, with hosts";
  EXPECT_NE(ask(request).body.find("; two sizes, with hosts\""), std::string::npos);
}

TEST_F(HttpRoutes, AJobNamesManyWhoWaitByTheirRanks) {
  operations.runs = {waiting_run()};
  core::RunReport& run = operations.runs.front();
  core::KeyWait& wait = run.view.waits.front();
  wait.processes.clear();
  run.plain->ranks.clear();
  for (std::uint64_t n = 0; n < 20; ++n) {  // rank 3 waits for nobody
    const auto rank = static_cast<Rank>(n < 3 ? n : n + 1);
    run.plain->ranks.push_back({rank, "/default_pg/0/0/" + std::to_string(rank), {"h", 0}, n});
    wait.processes.push_back({"h", 0, n});
  }
  run.view.world_size = 21;
  HttpRequest request{"GET", "/v1/jobs/torch", true};
  const boost::json::value json = boost::json::parse(ask(request).body).at("runs").at(0);
  EXPECT_EQ(json.at("waits").at(0).at("ranks").as_array().size(), 20U);
  EXPECT_EQ(json.at("waits").at(0).at("processes").as_array().size(), 16U);
  request.accept = "text/plain";
  const auto text = [&] { return ask(request).body; };
  EXPECT_TRUE(text().ends_with("of rank 3, not seen: ranks [0-2,4-20]\n")) << text();
  wait.processes.push_back({"stranger", 0, 99});
  EXPECT_TRUE(text().ends_with(": 21 processes, of them ranks [0-2,4-20]\n")) << text();
  for (auto& rank : run.plain->ranks) rank.key = "/torchelastic/role_info/1";
  EXPECT_EQ(text().find("missing"), std::string::npos)
      << "a node does not take part in collectives";
}

}  // namespace
}  // namespace c10dd::daemon
