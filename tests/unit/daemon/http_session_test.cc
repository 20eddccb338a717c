// SPDX-License-Identifier: Apache-2.0
// HTTP on one connection: requests in a row, the calls that each makes to the daemon, and how a
// connection ends.
#include "daemon/http/http_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "protocol/limits.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/memory_stream.h"
#include "tests/unit/daemon/samples.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {
namespace {

using std::chrono::milliseconds;

class HttpSessionTest : public testing::Test {
 protected:
  HttpSessionTest() { daemon_.options.listen_host = "127.0.0.1"; }

  void connect(const std::string& early = "", bool local = true) {
    auto stream = std::make_shared<MemoryStream>(daemon_.loop, wire_, local);
    stream->put_head(early);
    http_protocol(daemon_.context, operations_, patience_).serve(std::move(stream));
  }

  static std::string request(const std::string& line, const std::string& fields = "",
                             const std::string& body = "") {
    const std::string length =
        body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n";
    return line + " HTTP/1.1\r\nHost: localhost\r\n" + fields + length + "\r\n" + body;
  }

  /// Sends these bytes. Returns the reply once it is complete.
  std::string answer_to(const std::string& bytes) {
    wire_->say(bytes);
    EXPECT_TRUE(daemon_.turn_until([&] { return whole(wire_->written()); }));
    return wire_->take();
  }

  /// Returns true if there is a reply with its whole body.
  static bool whole(const std::string& bytes) {
    const std::string field = "Content-Length: ";
    const std::size_t body = bytes.find("\r\n\r\n");
    const std::size_t length = bytes.find(field);
    if (body == std::string::npos || length > body) return false;
    return bytes.size() >= body + 4 + std::stoul(bytes.substr(length + field.size()));
  }

  static int status(const std::string& reply) { return std::stoi(reply.substr(9, 3)); }

  /// Returns true if the connection has ended for this reason.
  bool ended(const std::string& reason) {
    const bool over = daemon_.turn_until([&] { return wire_->session_ended(); });
    wire_->hang_up();
    return over && daemon_.turn_until([&] { return wire_->closed(); }) &&
           daemon_.closed("http", reason) == 1 && daemon_.open("http") == 0;
  }

  SmallDaemon daemon_;
  FakeOperations operations_;
  HttpPatience patience_;
  std::shared_ptr<MemoryWire> wire_ = std::make_shared<MemoryWire>();
};

TEST_F(HttpSessionTest, AnswersRequestAfterRequest) {
  connect("GET /livez HT");
  EXPECT_TRUE(answer_to("TP/1.1\r\nHost: localhost\r\n\r\n").ends_with("\r\n\r\nok\n"));
  EXPECT_EQ(daemon_.open("http"), 1);
  for (int i = 0; i < 3; ++i) {
    const std::string reply = answer_to(request("GET /livez"));
    EXPECT_EQ(status(reply), 200);
    EXPECT_NE(reply.find("Connection: keep-alive"), std::string::npos);
  }
  EXPECT_EQ(status(answer_to(request("GET /nowhere"))), 404);
  EXPECT_TRUE(operations_.asked.empty());
  wire_->hang_up();
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->closed(); }));
  EXPECT_EQ(daemon_.closed("http", "peer"), 1);
}

TEST_F(HttpSessionTest, AnswersRequestsThatComeTogether) {
  connect(request("GET /livez") + request("GET /readyz"));
  wire_->say(request("GET /v1/version"));
  EXPECT_TRUE(
      daemon_.turn_until([&] { return wire_->written().find("uptime") != std::string::npos; }));
  const std::string replies = wire_->take();
  EXPECT_LT(replies.find("ok\n"), replies.find("ready\nengine: memory"));
  EXPECT_LT(replies.find("ready\nengine: memory"), replies.find("uptime"));
}

TEST_F(HttpSessionTest, AnswerToHeadHasNoBody) {
  connect();
  wire_->say(request("HEAD /livez"));
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->written().ends_with("\r\n\r\n"); }));
  EXPECT_NE(wire_->written().find("Content-Length: 3\r\n"), std::string::npos);
}

TEST_F(HttpSessionTest, EndsWithARequestThatSaysSo) {
  connect(request("GET /livez", "Connection: close\r\n"));
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->closed(); }));
  EXPECT_NE(wire_->take().find("Connection: close"), std::string::npos);
  EXPECT_EQ(daemon_.closed("http", "peer"), 1);
}

TEST_F(HttpSessionTest, EndsWithTheNextAnswerInADrain) {
  connect();
  EXPECT_EQ(status(answer_to(request("GET /livez"))), 200);
  daemon_.draining = true;
  EXPECT_NE(answer_to(request("GET /livez")).find("Connection: close"), std::string::npos);
  EXPECT_TRUE(ended("drain"));
}

// ---- routes ------------------------------------------------------------------------------------

TEST_F(HttpSessionTest, AsksTheDaemonForWhatARouteNeeds) {
  connect();
  operations_.metrics = "c 7\n";
  EXPECT_TRUE(answer_to(request("GET /metrics")).ends_with("\r\n\r\nc 7\n"));
  operations_.jobs.push_back({"digits", "", 1, 5, {}});
  EXPECT_NE(answer_to(request("GET /v1/jobs")).find("\"job\":\"digits\""), std::string::npos);
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_EQ(status(answer_to(request("POST /v1/checkpoint", json, R"({"path": "/c"})"))), 200);
  EXPECT_EQ(status(answer_to(request("DELETE /v1/jobs/a%2Fb"))), 200);
  operations_.done = failure(Code::not_found, "there is none");
  EXPECT_EQ(status(answer_to(request("DELETE /v1/jobs/a"))), 404);
  operations_.trainers = "10.0.0.1:7";
  EXPECT_NE(answer_to(request("GET /v1/jobs/c")).find("MASTER_ADDR=10.0.0.1 MASTER_PORT=7 "),
            std::string::npos);
  EXPECT_EQ(operations_.asked, (std::vector<std::string>{"metrics", "jobs", "checkpoint /c",
                                                         "remove a/b", "remove a", "runs of c"}));
}

TEST_F(HttpSessionTest, ShowsWhyTheDaemonIsNotReady) {
  operations_.known.not_ready = "the engine is being opened";
  connect();
  const std::string reply = answer_to(request("GET /readyz"));
  EXPECT_EQ(status(reply), 503);
  EXPECT_NE(reply.find("not ready: the engine is being opened\n"), std::string::npos);
}

TEST_F(HttpSessionTest, ChangesNothingForOtherMachines) {
  connect("", false);
  EXPECT_EQ(status(answer_to(request("DELETE /v1/jobs/a"))), 403);
  EXPECT_TRUE(operations_.asked.empty());
}

TEST_F(HttpSessionTest, AnswersToItsOwnNamesOnly) {
  connect();
  const std::string foreign = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n";
  const std::string reply = answer_to(foreign);
  EXPECT_EQ(status(reply), 403);
  EXPECT_NE(reply.find("evil.example"), std::string::npos);
  EXPECT_TRUE(operations_.asked.empty());
  EXPECT_EQ(status(answer_to("GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")), 200)
      << "HTTP/1.0 needs no host";
  daemon_.options.listen_host = "0.0.0.0";
  EXPECT_EQ(status(answer_to(foreign)), 200);
}

// ---- refusals and time-outs --------------------------------------------------------------------

TEST_F(HttpSessionTest, AsksWhoAClientIsIfTheDaemonDoes) {
  std::vector<std::string> tokens;
  daemon_.context.roles_of = [&](std::string_view token,
                                 const Stream&) -> std::optional<Result<core::JobRoles>> {
    tokens.emplace_back(token);
    if (token.empty() || token == "bad") return failure(Code::unauthenticated, "who are you?");
    core::JobRoles roles;
    roles.add(*core::JobPattern::of("llm-*"), core::Role::viewer);
    return roles;
  };
  connect();
  EXPECT_EQ(status(answer_to(request("GET /livez"))), 200);
  const std::string stranger = answer_to(request("GET /v1/jobs/llm-1"));
  EXPECT_EQ(status(stranger), 401);
  EXPECT_NE(stranger.find("WWW-Authenticate: Bearer realm=\"c10dd\"\r\n"), std::string::npos);
  const auto with = [&](const std::string& field) {
    return status(answer_to(request("GET /v1/jobs/vision", "Authorization: " + field + "\r\n")));
  };
  EXPECT_EQ(with("Bearer abc.def.ghi"), 403) << "another job";
  EXPECT_EQ(with("bearer  abc"), 403);
  EXPECT_EQ(with("Basic YWxhZGRpbg=="), 401) << "no token";
  EXPECT_EQ(with("Bearer"), 401);
  EXPECT_EQ(tokens, (std::vector<std::string>{"", "", "abc.def.ghi", "abc", "", ""}));
  const std::string bad = answer_to(request("GET /v1/jobs/llm-1", "Authorization: Bearer bad\r\n"));
  EXPECT_EQ(status(bad), 401);
  EXPECT_NE(bad.find("WWW-Authenticate: Bearer realm=\"c10dd\", error=\"invalid_token\"\r\n"),
            std::string::npos);
  operations_.asked.clear();
  const std::string secret =
      std::string(kHttpSecret) + ": secret\r\n" + std::string(kHttpForwardedBy) + ": a:1\r\n";
  EXPECT_EQ(status(answer_to(request("DELETE /v1/jobs/vision", secret))), 200)
      << "the daemon that passes it on has asked";
  EXPECT_EQ(tokens.size(), 7U);
}

TEST_F(HttpSessionTest, RequestThatIsNoneIsToldAndEndsTheConnection) {
  connect();
  const std::string reply = answer_to("HELLO\r\n\r\n" + request("GET /livez"));
  EXPECT_GE(status(reply), 400);
  EXPECT_NE(reply.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(ended("malformed"));
  EXPECT_EQ(wire_->take(), "") << "nothing behind it is answered";
  EXPECT_EQ(daemon_.count(metric::kProtocolErrors, "code=\"malformed\",protocol=\"http\""), 1);
}

TEST_F(HttpSessionTest, ClientThatWaitsIsToldToGoOn) {
  connect();
  const std::string whole =
      request("POST /v1/checkpoint", "Content-Type: application/json\r\nExpect: 100-continue\r\n",
              R"({"path": "/c"})");
  wire_->say(whole.substr(0, whole.find('{')));
  EXPECT_TRUE(daemon_.turn_until([&] { return !wire_->written().empty(); }));
  EXPECT_EQ(wire_->take(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(status(answer_to(whole.substr(whole.find('{')))), 200);
}

TEST_F(HttpSessionTest, HalfARequestIsWaitedForSomeTime) {
  patience_.request = milliseconds(5);
  connect("GET /livez HTTP/1.1\r\n");
  const std::string reply = answer_to("");
  EXPECT_EQ(status(reply), 408);
  EXPECT_NE(reply.find("the request is incomplete after 0 s"), std::string::npos);
  EXPECT_TRUE(ended("timed_out"));
}

TEST_F(HttpSessionTest, SilenceBetweenRequestsEndsTheConnection) {
  patience_.idle = milliseconds(5);
  connect();
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->closed(); }));
  EXPECT_EQ(wire_->take(), "");
  EXPECT_EQ(daemon_.closed("http", "idle"), 1);
}

TEST_F(HttpSessionTest, ReaderThatIsSlowIsWaitedForSomeTime) {
  patience_.write = milliseconds(5);
  wire_->give_room(10);
  connect(request("GET /livez"));
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->closed(); }));
  EXPECT_EQ(daemon_.closed("http", "slow_consumer"), 1);
}

TEST_F(HttpSessionTest, PeerThatGoesBeforeItsAnswerIsNoError) {
  wire_->give_room(10);
  connect(request("GET /livez"));
  daemon_.turn_a_while();
  EXPECT_EQ(wire_->take(), "HTTP/1.1 2");
  wire_->break_off();
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.closed("http", "peer") == 1; }));
}

TEST_F(HttpSessionTest, LargeAnswerCountsUntilItIsRead) {
  operations_.metrics = std::string(3 * kMiB, 'm');
  wire_->give_room(0);
  connect(request("GET /metrics"));
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.budget.held() > 3 * kMiB; }));
  wire_->give_room(4 * kMiB);
  EXPECT_EQ(status(answer_to("")), 200);
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.budget.held() == 0; }));
}

TEST_F(HttpSessionTest, AnswerThatHoldsFarTooMuchEndsTheConnection) {
  operations_.metrics = std::string(130 * kMiB, 'm');
  wire_->give_room(0);
  connect(request("GET /metrics"));
  EXPECT_TRUE(daemon_.turn_until([&] { return wire_->closed(); }));
  EXPECT_EQ(daemon_.closed("http", "quota_exceeded"), 1);
  EXPECT_EQ(daemon_.budget.held(), 0u);
}

}  // namespace
}  // namespace c10dd::daemon
