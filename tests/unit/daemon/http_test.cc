// SPDX-License-Identifier: Apache-2.0
// Parsing of requests, routing to replies, formatting of replies.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <limits>

#include "daemon/core/directory/volatile_runs.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/routes.h"
#include "protocol/limits.h"

namespace c10dd::daemon {
namespace {

const std::string kGetLivez = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

/// Parses all bytes at once. Returns the status of the refusal, 0 for a request, -1 if more bytes
/// are needed.
int outcome(const std::string& bytes) {
  HttpReader reader;
  reader.put(bytes);
  EXPECT_FALSE(reader.request() && reader.refusal());
  if (reader.refusal()) return reader.refusal()->status;
  return reader.request() ? 0 : -1;
}

std::string code_of(const HttpReply& reply) {
  const boost::json::value error = boost::json::parse(reply.body).at("error");
  EXPECT_FALSE(error.at("detail").as_string().empty());
  EXPECT_EQ(error.at("code").as_string(), name_of(reply.code));
  return std::string(error.at("code").as_string());
}

ServerFacts facts() {
  ServerFacts facts;
  facts.version = "0.1.0";
  facts.engine = "rocksdb";
  facts.durability = "fsync";
  facts.uptime = std::chrono::milliseconds(90'250);
  facts.metrics = "c 1\n";
  return facts;
}

HttpReply ask(const std::string& method, const std::string& target) {
  return handle({method, target, true}, facts());
}

TEST(HttpReader, ReadsARequestHoweverItsBytesArrive) {
  for (const std::string& bytes :
       {kGetLivez, std::string("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
        std::string("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n")}) {
    for (std::size_t split = 0; split < bytes.size(); ++split) {
      HttpReader reader;
      std::string unread = bytes.substr(0, split);
      unread.erase(0, reader.put(unread));
      EXPECT_FALSE(reader.request() || reader.refusal()) << split;
      unread += bytes.substr(split);
      unread.erase(0, reader.put(unread));
      ASSERT_TRUE(reader.request()) << split << " of " << bytes;
      EXPECT_EQ(unread, "");
    }
  }
}

TEST(HttpReader, LeavesTheNextRequestAlone) {
  HttpReader reader;
  EXPECT_EQ(reader.put(kGetLivez + "HEAD / HTTP/1.1\r\n"), kGetLivez.size());
  EXPECT_EQ(reader.request()->target, "/livez");
  EXPECT_EQ(reader.put("HEAD"), 0u);
}

TEST(HttpReader, KnowsWhetherTheConnectionIsKept) {
  const auto kept = [](const std::string& bytes) {
    HttpReader reader;
    reader.put(bytes);
    return reader.request().value().keep_alive;
  };
  EXPECT_TRUE(kept(kGetLivez));
  EXPECT_FALSE(kept("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
  EXPECT_FALSE(kept("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(HttpReader, RefusesWhatTwoReadersCouldFrameDifferently) {
  const auto post = [](const std::string& fields) {
    return outcome("POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n5\r\nhello\r\n0\r\n\r\n");
  };
  EXPECT_EQ(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 5, 5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: +5\r\n"), 400);
  EXPECT_EQ(post("Content-Length: 99999999999999999999999\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: gzip, chunked\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: identity\r\n"), 400);
  EXPECT_EQ(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(post("Content-Length : 5\r\n"), 400);
  EXPECT_EQ(outcome("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
}

TEST(HttpReader, RefusesWhatIsNoRequest) {
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\n\r\n"), 400) << "no host";
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(outcome("HELLO\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(outcome("G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHo st: a\r\n\r\n"), 400);
  EXPECT_EQ(outcome("GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n"), 400);
}

TEST(HttpReader, BoundsHeaderAndBody) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::size_t room = limits::kHttpHeaderBytes - start.size() - 4;
  EXPECT_EQ(outcome(start + std::string(room, 'x') + "\r\n\r\n"), 0);
  EXPECT_EQ(outcome(start + std::string(room + 1, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(outcome(start + std::string(limits::kHttpHeaderBytes, 'x')), 431) << "without its end";
  EXPECT_EQ(outcome(std::string(limits::kHttpHeaderBytes + 1, 'A')), 431);
  const auto post = [](std::size_t length) {
    return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(length) + "\r\n\r\n";
  };
  EXPECT_EQ(outcome(post(limits::kHttpBodyBytes) + std::string(limits::kHttpBodyBytes, 'x')), 0);
  EXPECT_EQ(outcome(post(limits::kHttpBodyBytes + 1)), 413) << "before the body is sent";
  std::string chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 17; ++i) chunks += "10000\r\n" + std::string(65536, 'x') + "\r\n";
  EXPECT_EQ(outcome(chunks), 413);
}

TEST(HttpReader, WhatFollowsTheLastChunkIsNoHeader) {
  const std::string bytes =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
      "0\r\nHost: b\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n";
  for (std::size_t split = 0; split < bytes.size(); ++split) {
    HttpReader reader;
    std::string unread = bytes.substr(0, split);
    unread.erase(0, reader.put(unread));
    unread += bytes.substr(split);
    EXPECT_EQ(reader.put(unread), unread.size());
    ASSERT_TRUE(reader.request()) << split << ": " << reader.refusal()->body;
    EXPECT_EQ(reader.request()->body, "abc");
    EXPECT_EQ(reader.request()->content_type, "");
    EXPECT_TRUE(reader.request()->keep_alive);
  }
}

TEST(HttpReader, BoundsWhatStandsBeforeAndBehindChunks) {
  const std::string start = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string fits(limits::kHttpHeaderBytes - 64, 'x');
  const std::string long_line(limits::kHttpHeaderBytes, 'x');
  const std::string chunk = "1;" + fits + "\r\na\r\n";
  EXPECT_EQ(outcome(start + chunk + chunk + "0\r\nY: " + fits + "\r\n\r\n"), 0);
  for (const std::string& tail : {"1;" + long_line, "0;" + long_line, "0\r\nY: " + long_line}) {
    EXPECT_EQ(outcome(start + tail), 431);
    EXPECT_EQ(outcome(start + tail + "\r\n\r\n"), 431) << "also when its end is there";
    HttpReader reader;
    std::string unread;
    for (const char byte : start + tail) {
      unread += byte;
      unread.erase(0, reader.put(unread));
    }
    ASSERT_TRUE(reader.refusal()) << "kept " << unread.size() << " bytes";
    EXPECT_EQ(reader.refusal()->status, 431);
  }
}

TEST(HttpReader, TellsOnceThatTheClientWaitsToSendItsBody) {
  HttpReader reader;
  reader.put("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(reader.take_expects_continue());
  EXPECT_FALSE(reader.take_expects_continue());
  reader.put("ok");
  EXPECT_TRUE(reader.request());
}

TEST(HttpReader, SurvivesEveryByteInEveryPlace) {
  const std::string valid = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy";
  for (std::size_t at = 0; at < valid.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes = valid;
      bytes[at] = static_cast<char>(byte);
      const int status = outcome(bytes);
      EXPECT_TRUE(status <= 0 || status == 400 || status == 413 || status == 505)
          << status << " for byte " << byte << " at " << at;
    }
  }
}

TEST(HttpRoutes, AnswerWhatTheyPromise) {
  EXPECT_EQ(ask("GET", "/livez").body, "ok\n");
  EXPECT_EQ(ask("GET", "/livez?verbose").status, 200);
  EXPECT_EQ(ask("GET", "http://daemon:29500/livez").status, 200);
  EXPECT_EQ(ask("GET", "/readyz").body, "ready\nengine: rocksdb\ndurability: fsync\n");
  EXPECT_EQ(ask("GET", "/metrics").content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(ask("GET", "/metrics").body, "c 1\n");
  const boost::json::value version = boost::json::parse(ask("GET", "/v1/version").body);
  EXPECT_EQ(version.at("version").as_string(), "0.1.0");
  EXPECT_EQ(version.at("protocol_version").to_number<int>(), 1);
  EXPECT_EQ(version.at("engine").as_string(), "rocksdb");
  EXPECT_EQ(version.at("durability").as_string(), "fsync");
  EXPECT_NE(ask("GET", "/v1/version").body.find("\"uptime_seconds\":90.25}"), std::string::npos);
  for (const char* path : {"/livez", "/readyz", "/metrics", "/v1/version"}) {
    EXPECT_NE(ask("GET", "/").body.find(path), std::string::npos) << path;
  }
}

std::string host_in(const std::string& head) {
  HttpReader reader;
  reader.put(head + "\r\n\r\n");
  if (!reader.request()) return "refused";
  return reader.request()->has_host ? reader.request()->host : "none";
}

TEST(HttpReader, TakesTheHostFromAnAbsoluteTargetElseFromTheField) {
  EXPECT_EQ(host_in("GET / HTTP/1.1\r\nHost: a:1"), "a:1");
  EXPECT_EQ(host_in("GET http://b:2/livez HTTP/1.1\r\nHost: a:1"), "b:2");
  EXPECT_EQ(host_in("GET http://b HTTP/1.0"), "b");
  EXPECT_EQ(host_in("GET / HTTP/1.1\r\nHost:"), "");
  EXPECT_EQ(host_in("GET / HTTP/1.0"), "none");
}

TEST(HttpRoutes, NothingIsAnsweredToAnUnknownHost) {
  ServerFacts stranger = facts();
  stranger.host_known = false;
  HttpRequest request{"GET", "/v1/jobs", true};
  request.host = "evil.example:29500";
  EXPECT_EQ(need_of(request, stranger), Need::nothing);
  const HttpReply reply = handle(request, stranger);
  EXPECT_EQ(reply.status, 403);
  EXPECT_NE(reply.body.find("evil.example:29500"), std::string::npos) << reply.body;
  EXPECT_NE(reply.body.find("--http-hosts"), std::string::npos) << reply.body;
}

TEST(HttpRoutes, ReadyzSaysWhyNot) {
  ServerFacts starting = facts();
  starting.not_ready = "draining";
  const HttpReply reply = handle({"GET", "/readyz", true}, starting);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "not ready: draining\nengine: rocksdb\ndurability: fsync\n");
  EXPECT_EQ(handle({"GET", "/livez", true}, starting).status, 200);
}

TEST(HttpRoutes, ReadyzHasANoteForTheOperator) {
  ServerFacts tight = facts();
  tight.note = "disk of /srv: 5 bytes free";
  const HttpReply reply = handle({"GET", "/readyz", true}, tight);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body,
            "ready\nengine: rocksdb\ndurability: fsync\nnote: disk of /srv: 5 bytes free\n");
}

TEST(HttpRoutes, RefuseOtherPathsAndMethods) {
  const HttpReply missing = ask("GET", "/nope\"\xff");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(code_of(missing), "not_found");
  EXPECT_EQ(ask("POST", "/nope").status, 404);
  EXPECT_EQ(ask("OPTIONS", "*").status, 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get"}) {
    const HttpReply refused = ask(method, "/metrics");
    EXPECT_EQ(refused.status, 405) << method;
    EXPECT_EQ(refused.allow, "GET, HEAD");
    EXPECT_EQ(code_of(refused), "unsupported");
  }
}

TEST(HttpRoutes, WhatCostsIsMadeOnlyForThoseWhoReadIt) {
  const ServerFacts here = facts();
  EXPECT_EQ(need_of({"GET", "/metrics?x=1", true}, here), Need::metrics);
  EXPECT_EQ(need_of({"HEAD", "/metrics", true}, here), Need::metrics);
  EXPECT_EQ(need_of({"POST", "/metrics", true}, here), Need::nothing);
  EXPECT_EQ(need_of({"GET", "/livez", true}, here), Need::nothing);
  EXPECT_EQ(need_of({"GET", "/v1/jobs", true}, here), Need::jobs);
}

HttpRequest checkpoint_to(const std::string& body, const std::string& type = "application/json") {
  return {"POST", "/v1/checkpoint", true, type, body};
}

TEST(HttpRoutes, CheckpointIsForThisMachineAndTakesOneAbsolutePath) {
  ServerFacts local = facts();
  local.local = true;
  const HttpRequest good =
      checkpoint_to("{\"path\": \"/backup/1\"}", "application/json; charset=x");
  EXPECT_EQ(need_of(good, local), Need::checkpoint);
  EXPECT_EQ(checkpoint_path(good).value(), "/backup/1");
  EXPECT_EQ(handle(good, local).body, "{\"path\":\"/backup/1\"}\n");
  EXPECT_EQ(need_of(good, facts()), Need::nothing);
  EXPECT_EQ(handle(good, facts()).status, 403);
  EXPECT_EQ(handle({"GET", "/v1/checkpoint", true}, local).allow, "POST");
  for (const char* body : {"", "{", "[]", "{}", "{\"path\": 1}", "{\"path\": \"x\"}",
                           "{\"path\": \"/x\", \"y\": 1}", "{\"path\": \"/x\\u0000\"}"}) {
    EXPECT_EQ(need_of(checkpoint_to(body), local), Need::nothing) << body;
    EXPECT_EQ(handle(checkpoint_to(body), local).status, 400) << body;
  }
  EXPECT_EQ(handle(checkpoint_to("{\"path\": \"/x\"}", "text/plain"), local).status, 400);
  local.checkpoint = failure(Code::disk_full, "no room");
  EXPECT_EQ(handle(good, local).status, 507);
  EXPECT_EQ(code_of(handle(good, local)), "disk_full");
}

TEST(HttpRoutes, NumbersThatCanHaveMoreThan53BitsAreStrings) {
  ServerFacts its = facts();
  core::RunReport run;
  run.job.name = "a";
  run.job.number = std::numeric_limits<std::uint64_t>::max();
  run.view.waits = {{.key = "counter",
                     .rank = {},
                     .at_least = std::numeric_limits<std::int64_t>::min(),
                     .waiters = 1,
                     .longest = {},
                     .processes = {}}};
  its.page = JobPage{.job = "a", .runs = {run}};
  const HttpReply reply = handle({"GET", "/v1/jobs/a", true}, its);
  const boost::json::value shown = boost::json::parse(reply.body).at("runs").at(0);
  EXPECT_EQ(shown.at("number").as_string(), "18446744073709551615");
  EXPECT_EQ(shown.at("waits").at(0).at("at_least").as_string(), "-9223372036854775808");
}

/// A launch of four ranks, of which rank 3 has not come.
JobPage waiting_page() {
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
  return {.job = "torch", .runs = {run}};
}

TEST(HttpRoutes, AJobNamesItsRanksAndWhoWaitsForWhom) {
  ServerFacts its = facts();
  HttpRequest request{"GET", "/v1/jobs/torch", true};
  EXPECT_EQ(need_of(request, its), Need::job);
  EXPECT_EQ(handle(request, its).status, 404);
  its.page = waiting_page();
  const HttpReply json = handle(request, its);
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
  EXPECT_EQ(handle(request, its).body, summary + "\n");
}

TEST(HttpRoutes, AJobThatHasNotBegunSaysHowItsRanksFindIt) {
  ServerFacts its = facts();
  const HttpRequest request{"GET", "/v1/jobs/a%20b", true};
  its.page.trainers = "[::1]:29500";
  EXPECT_EQ(handle(request, its).status, 200);
  const boost::json::value body = boost::json::parse(handle(request, its).body);
  EXPECT_EQ(body.at("runs").as_array().size(), 0U);
  EXPECT_TRUE(body.at("note").as_string().starts_with("job \"a b\" waits for its first rank; "));
  EXPECT_NE(handle(request, its)
                .body.find("start them with MASTER_ADDR=::1 MASTER_PORT=29500 "
                           "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0"),
            std::string::npos)
      << handle(request, its).body;
  its.page.trainers.clear();
  EXPECT_EQ(handle(request, its).status, 404);
  EXPECT_NE(handle(request, its).body.find("see POST /v1/jobs/a b/endpoints"), std::string::npos)
      << handle(request, its).body;
}

TEST(HttpRoutes, AJobShowsRanksThatTellDifferentWorldSizes) {
  ServerFacts its = facts();
  its.page = waiting_page();
  its.page.runs.front().view.differing = {{3, {2}}, {4, {0, 1}}};
  const HttpRequest request{"GET", "/v1/jobs/torch", true};
  EXPECT_NE(handle(request, its)
                .body.find("; the ranks report different world sizes: 3 by ranks [2]; "
                           "4 by ranks [0-1]; start all ranks with the same world "
                           "size\""),
            std::string::npos)
      << handle(request, its).body;
  const boost::json::value run = boost::json::parse(handle(request, its).body).at("runs").at(0);
  EXPECT_EQ(run.at("world_sizes").at(1).at("world_size").as_int64(), 4);
  EXPECT_EQ(run.at("world_sizes").at(1).at("ranks"), boost::json::array({0, 1}));
  its.page.runs.front().plain->differing = "two sizes, with hosts";
  EXPECT_NE(handle(request, its).body.find("; two sizes, with hosts\""), std::string::npos);
}

TEST(HttpRoutes, AJobNamesManyWhoWaitByTheirRanks) {
  ServerFacts its = facts();
  its.page = waiting_page();
  core::RunReport& run = its.page.runs.front();
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
  const boost::json::value json = boost::json::parse(handle(request, its).body).at("runs").at(0);
  EXPECT_EQ(json.at("waits").at(0).at("ranks").as_array().size(), 20U);
  EXPECT_EQ(json.at("waits").at(0).at("processes").as_array().size(), 16U);
  request.accept = "text/plain";
  const auto text = [&] { return handle(request, its).body; };
  EXPECT_TRUE(text().ends_with("of rank 3, not seen: ranks [0-2,4-20]\n")) << text();
  wait.processes.push_back({"stranger", 0, 99});
  EXPECT_TRUE(text().ends_with(": 21 processes, of them ranks [0-2,4-20]\n")) << text();
  for (auto& rank : run.plain->ranks) rank.key = "/torchelastic/role_info/1";
  EXPECT_EQ(text().find("missing"), std::string::npos) << "nodes are no ranks";
}

TEST(HttpRoutes, EndARunForThisMachineOnly) {
  const HttpRequest request{"DELETE", "/v1/jobs/a%20b/runs/plain-7", true};
  EXPECT_EQ(run_of(request)->job, "a b");
  EXPECT_EQ(run_of(request)->run, "plain-7");
  ServerFacts its = facts();
  EXPECT_EQ(need_of(request, its), Need::nothing);
  EXPECT_EQ(handle(request, its).status, 403);
  its.local = true;
  EXPECT_EQ(need_of(request, its), Need::end);
  EXPECT_EQ(handle(request, its).body, "{\"ended\":\"plain-7\"}\n");
  its.ended = failure(Code::not_found, "no such run");
  EXPECT_EQ(handle(request, its).status, 404);
}

TEST(HttpRoutes, RemoveAJobForThisMachineOnly) {
  const HttpRequest request{"DELETE", "/v1/jobs/a%20b", true};
  EXPECT_EQ(job_of(request).value(), "a b");
  EXPECT_EQ(job_of({"DELETE", "/v1/jobs/a%2", true}).error().code, Code::invalid_argument);
  EXPECT_EQ(job_of({"DELETE", "/v1/jobs/%zz", true}).error().code, Code::invalid_argument);
  ServerFacts local = facts();
  EXPECT_EQ(need_of(request, local), Need::nothing);
  EXPECT_EQ(handle(request, local).status, 403);
  local.local = true;
  EXPECT_EQ(need_of(request, local), Need::removal);
  EXPECT_EQ(handle(request, local).body, "{\"removed\":\"a b\"}\n");
  local.removed = failure(Code::unavailable, "job \"a b\" is in use");
  EXPECT_EQ(handle(request, local).status, 409);
  local.not_ready = "the engine is not open";
  EXPECT_EQ(handle(request, local).status, 503);
  local.removed = failure(Code::not_found, "no job");
  EXPECT_EQ(handle(request, local).status, 404);
  EXPECT_EQ(handle({"PUT", "/v1/jobs/a", true}, local).allow, "GET, HEAD, DELETE");
  EXPECT_EQ(handle({"DELETE", "/v1/jobs/", true}, local).status, 404);
}

TEST(HttpRoutes, JobsAreListedWithNamesThatPrint) {
  ServerFacts some = facts();
  core::JobReport job;
  job.name = "digits\xff";
  job.run = "r1";
  job.number = core::VolatileRuns::kFirst + 7;
  job.stats.keys = 3;
  some.jobs.served = {job};
  const boost::json::value body = boost::json::parse(handle({"GET", "/v1/jobs", true}, some).body);
  const boost::json::value& first = body.at("jobs").at(0);
  EXPECT_EQ(first.at("job").as_string(), "digits?");
  EXPECT_EQ(first.at("run").as_string(), "r1");
  EXPECT_EQ(first.at("number").as_string(), "9223372036854775815") << "more than 53 bits";
  EXPECT_EQ(first.at("keys").to_number<int>(), 3);
}

TEST(HttpWire, EncodesAnswers) {
  const HttpReply reply = ask("POST", "/livez");
  const std::string bytes = encode(reply, false, false);
  EXPECT_TRUE(
      bytes.starts_with("HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json"
                        "\r\nContent-Length: " +
                        std::to_string(reply.body.size()) + "\r\nAllow: GET, HEAD\r\n"));
  EXPECT_TRUE(bytes.ends_with("\r\nConnection: close\r\n\r\n" + reply.body));
  const std::string head = encode(ask("HEAD", "/livez"), true, true);
  EXPECT_NE(head.find("\r\nContent-Length: 3\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\nConnection: keep-alive\r\n\r\n"));
}

}  // namespace
}  // namespace c10dd::daemon
