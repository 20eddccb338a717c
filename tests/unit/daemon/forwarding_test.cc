// SPDX-License-Identifier: Apache-2.0
// Requests about a job of another daemon: who replies, what is passed on, and what each page of
// several daemons says.
#include "daemon/http/forwarding.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <memory>
#include <string>

#include "daemon/http/http_session.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {
namespace {

using Asked = std::vector<std::string>;

class ForwardingTest : public testing::Test {
 protected:
  ForwardingTest() {
    daemon_.options.listen_host = "10.0.0.1";
    operations_.places = JobPlaces{false, {{{"b:1"}, "secret of b"}}};
  }

  /// Sends one request on a connection of its own, and returns the reply.
  std::string answer(const std::string& line, const std::string& fields = "",
                     const std::string& body = "", bool local = true) {
    const auto wire = std::make_shared<MemoryWire>();
    auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire, local);
    http_protocol(daemon_.context, operations_, {}).serve(std::move(stream));
    wire->say(line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->session_ended(); })) << line;
    wire->hang_up();
    EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); })) << line;
    return wire->take();
  }
  static int status(const std::string& reply) { return std::stoi(reply.substr(9, 3)); }
  static boost::json::value body(const std::string& reply) {
    return boost::json::parse(reply.substr(reply.find("\r\n\r\n") + 4));
  }
  static std::string detail(const std::string& reply) {
    return std::string(body(reply).at("error").at("detail").as_string());
  }
  static constexpr const char* kJson = "Content-Type: application/json\r\n";

  SmallDaemon daemon_;
  FakeOperations operations_;
};

TEST_F(ForwardingTest, TheReplyOfTheOwnerComesBackUnchanged) {
  HttpReply reply{503, "text/plain", "not now"};
  reply.retry_after = 7;
  operations_.replies = {reply};
  const std::string got = answer("GET /v1/jobs/a?x=1");
  EXPECT_EQ(status(got), 503);
  EXPECT_NE(got.find("Content-Type: text/plain\r\n"), std::string::npos);
  EXPECT_NE(got.find("Retry-After: 7\r\n"), std::string::npos);
  EXPECT_TRUE(got.ends_with("\r\n\r\nnot now"));
  EXPECT_EQ(operations_.asked, Asked{"forward /v1/jobs/a?x=1 to b:1 locally"});
}

TEST_F(ForwardingTest, EachRequestAboutAJobIsPassedOnAndNoOther) {
  operations_.replies.assign(7, {200, "application/json", "{}"});
  for (const char* line :
       {"GET /v1/jobs/a", "HEAD /v1/jobs/a", "DELETE /v1/jobs/a", "DELETE /v1/jobs/a/runs/r",
        "GET /v1/jobs/a/endpoints", "DELETE /v1/jobs/a/endpoints/e"}) {
    EXPECT_EQ(status(answer(line)), 200) << line;
  }
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, R"({"to": "c:1"})")), 200);
  EXPECT_EQ(operations_.asked.size(), 7U);
  operations_.asked.clear();
  for (const char* line : {"GET /livez", "GET /metrics", "GET /v1/jobs", "GET /v1/daemons"}) {
    EXPECT_EQ(status(answer(line)), 200) << line;
  }
  EXPECT_EQ(operations_.asked, (Asked{"metrics", "jobs"}));
}

TEST_F(ForwardingTest, ARequestThatMayNotChangeAnythingHereIsNotPassedOn) {
  for (const char* line : {"DELETE /v1/jobs/a", "DELETE /v1/jobs/a/runs/r"}) {
    EXPECT_EQ(status(answer(line, "", "", false)), 403) << line;
  }
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, R"({"to": "c:1"})", false)), 403);
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, R"({"to": 1})")), 400);
  EXPECT_EQ(operations_.asked, Asked{});
}

TEST_F(ForwardingTest, OnlyTheSecretMakesTheClientOfAnotherDaemonLocal) {
  operations_.places = JobPlaces{};
  const std::string by = "C10DD-Forwarded-By: b:1\r\n";
  EXPECT_EQ(status(answer("DELETE /v1/jobs/a", by, "", false)), 403);
  EXPECT_EQ(status(answer("DELETE /v1/jobs/a", by + "C10DD-Fleet-Secret: guess\r\n", "", false)),
            403);
  EXPECT_EQ(status(answer("DELETE /v1/jobs/a", by + "C10DD-Fleet-Secret: secret\r\n", "", false)),
            200);
  EXPECT_EQ(operations_.asked, Asked{"remove a"});
}

TEST_F(ForwardingTest, ARequestIsPassedOnOnce) {
  const std::string reply = answer("GET /v1/jobs/a", "C10DD-Forwarded-By: c:1\r\n");
  EXPECT_EQ(status(reply), 503);
  EXPECT_NE(reply.find("Retry-After: 1"), std::string::npos);
  EXPECT_NE(detail(reply).find("daemon at b:1"), std::string::npos) << detail(reply);
  EXPECT_NE(detail(reply).find("daemon at c:1"), std::string::npos) << detail(reply);
  EXPECT_EQ(operations_.asked, Asked{});
}

TEST_F(ForwardingTest, ADaemonThatServesAPartRepliesWithItsPartToAnother) {
  operations_.places->here = true;
  operations_.runs = {{{"a", "mine", 1, 1, {}}, {}}};
  const std::string reply = answer("GET /v1/jobs/a", "C10DD-Forwarded-By: c:1\r\n");
  EXPECT_EQ(body(reply).at("runs").as_array().size(), 1U);
}

TEST_F(ForwardingTest, AJobOfSeveralDaemonsIsOnePage) {
  operations_.places = JobPlaces{true, {{{"b:1"}, ""}, {{"c:1"}, ""}, {{"d:1"}, ""}}};
  operations_.runs = {{{"a", "mine", 2, 1, {}}, {}}};
  operations_.replies = {
      {200, "application/json", R"({"job":"a","runs":[{"run":"b","number":"10"}]})"},
      {404, "application/json", "{}"},
      {200, "application/json", R"({"job":"a","runs":[{"run":"d","number":1}]})"}};
  const boost::json::value page = body(answer("GET /v1/jobs/a"));
  ASSERT_EQ(page.at("runs").as_array().size(), 3U);
  EXPECT_EQ(page.at("runs").at(0).at("run").as_string(), "d");
  EXPECT_EQ(page.at("runs").at(1).at("run").as_string(), "mine");
  EXPECT_EQ(page.at("runs").at(2).at("run").as_string(), "b");
  operations_.replies = {{200, "text/plain", "b: 0 sessions\n"},
                         {200, "text/plain", "c: 0 sessions\n"},
                         {502, "text/plain", "no reply"}};
  EXPECT_EQ(status(answer("GET /v1/jobs/a")), 502) << "a part is missing";
}

TEST_F(ForwardingTest, AMoveGoesToAllOwnersAndARemovalToOneOnly) {
  operations_.places = JobPlaces{true, {{{"b:1"}, ""}}};
  operations_.replies = {{200, "application/json", R"({"job":"a","to":"c:1","runs":["r2"]})"}};
  const boost::json::value moved = body(answer("POST /v1/jobs/a/move", kJson, R"({"to": "c:1"})"));
  EXPECT_EQ(moved.at("runs"), (boost::json::value{"r1", "r2"}));
  const std::string reply = answer("DELETE /v1/jobs/a");
  EXPECT_EQ(status(reply), 409);
  EXPECT_NE(detail(reply).find("this one, b:1"), std::string::npos) << detail(reply);
}

TEST_F(ForwardingTest, AMoveThatCannotBeMadeSaysWhetherToTryAgain) {
  operations_.places = JobPlaces{};
  const std::string to = R"({"to": "c:1"})";
  operations_.done = failure(Code::unavailable, "c:1 is shutting down");
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, to)), 409);
  operations_.done = core::unavailable("the engine is being opened");
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, to)), 503);
  operations_.done = failure(Code::invalid_argument, "no daemon has this address");
  EXPECT_EQ(status(answer("POST /v1/jobs/a/move", kJson, to)), 400);
}

TEST_F(ForwardingTest, ATemporaryRefusalSaysWhenToAskAgain) {
  Failure why = failure(Code::unavailable, "the owner is silent");
  why.retry_after = std::chrono::milliseconds(1'200);
  operations_.places = why;
  const std::string reply = answer("GET /v1/jobs/a");
  EXPECT_EQ(status(reply), 503);
  EXPECT_NE(reply.find("Retry-After: 2\r\n"), std::string::npos);
}

TEST_F(ForwardingTest, AClientThatLeavesEndsTheForward) {
  const auto wire = std::make_shared<MemoryWire>();
  auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire, true);
  http_protocol(daemon_.context, operations_, {}).serve(std::move(stream));
  wire->say("GET /v1/jobs/a HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTT");
  EXPECT_TRUE(daemon_.turn_until([&] { return !operations_.asked.empty(); }));
  EXPECT_EQ(daemon_.open("http"), 1);
  wire->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return wire->closed(); }));
  EXPECT_EQ(daemon_.closed("http", "peer"), 1);
  EXPECT_EQ(wire->take(), "");
}

TEST_F(ForwardingTest, ARequestThatComesMeanwhileIsServedNext) {
  const auto wire = std::make_shared<MemoryWire>();
  auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire, true);
  http_protocol(daemon_.context, operations_, {}).serve(std::move(stream));
  operations_.replies = {{200, "text/plain", "first"}};
  wire->say("GET /v1/jobs/a HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTT");
  EXPECT_TRUE(daemon_.turn_until([&] { return wire->written().ends_with("first"); }));
  wire->take();
  wire->say("P/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(daemon_.turn_until([&] { return wire->written().ends_with("ok\n"); }));
}

TEST(FleetPages, ListTheDaemons) {
  DaemonsPage page;
  page.daemons = {
      {{"a:1", "a:2"}, "1.2", std::chrono::seconds(2), {}, false, true, 3},
      {{"b:1"}, "1.1", std::chrono::seconds(2), std::chrono::milliseconds(2'500), true, false, 1}};
  EXPECT_EQ(text_of(page),
            "a:1, a:2: version 1.2, lease 2 s, silent for 0 s, 3 jobs, this daemon\n"
            "b:1: version 1.1, lease 2 s, silent for 2.5 s, 1 job, shutting down\n");
  const boost::json::value json = boost::json::parse(json_of(page));
  EXPECT_EQ(json.at("daemons").at(1).at("silence_ms"), 2'500);
  EXPECT_EQ(json.at("daemons").at(0).at("jobs"), 3);
  page.problem = "Redis does not reply";
  EXPECT_TRUE(text_of(page).ends_with("jobs: not known: Redis does not reply\n"));
  EXPECT_TRUE(boost::json::parse(json_of(page)).at("daemons").at(0).at("jobs").is_null());
}

TEST(FleetPages, ListTheOwnersOfJobs) {
  JobsPage page;
  page.owners = {{{"a", "r", 4}, store::Owner{9, 2}, {"b:1"}, false},
                 {{"z", "", 5}, {}, {}, false}};
  page.served = {{"z", "", 5, 7, {}}, {"m", "plain-1", 99, 0, {}}};
  const boost::json::value jobs = boost::json::parse(json_of(page)).at("jobs");
  ASSERT_EQ(jobs.as_array().size(), 3U);
  EXPECT_EQ(jobs.at(0).at("owner"),
            (boost::json::value{{"addresses", {"b:1"}}, {"epoch", 9}, {"here", false}}));
  EXPECT_FALSE(jobs.at(0).as_object().contains("keys")) << "the owner knows";
  EXPECT_TRUE(jobs.at(1).at("owner").is_null()) << "nobody";
  EXPECT_EQ(jobs.at(1).at("revision"), 7);
  EXPECT_FALSE(jobs.at(2).as_object().contains("owner")) << "there is no fleet";
  page.self = {"a:1"};
  const boost::json::value in_fleet = boost::json::parse(json_of(page)).at("jobs");
  EXPECT_EQ(in_fleet.at(2).at("owner"),
            (boost::json::value{{"addresses", {"a:1"}}, {"epoch", nullptr}, {"here", true}}))
      << "it lives in memory only";
}

}  // namespace
}  // namespace c10dd::daemon
