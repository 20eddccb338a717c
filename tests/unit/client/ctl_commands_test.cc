// SPDX-License-Identifier: Apache-2.0
// The commands of c10ddctl over daemons that are absent, silent, late, close in the middle or lie:
// which one is asked, what is shown, and the exit code.
#include "client/ctl/commands.h"

#include <gtest/gtest.h>

#include "protocol/exit_codes.h"
#include "tests/integration/reserved_port.h"
#include "tests/unit/client/fake_http_daemon.h"
#include "tests/unit/comes_true.h"

namespace c10dd::ctl {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeHttpDaemon;
using test::http_reply;
using Then = test::FakeReply::Then;

class CtlCommands : public testing::Test {
 protected:
  CtlCommands() {
    arguments_.daemons = {one_.at(), two_.at()};
    arguments_.timeout = 60s;
  }
  void TearDown() override {
    EXPECT_TRUE(comes_true([&] {
      return one_.server().open_connections() + two_.server().open_connections() == 0;
    })) << "a connection is left";
  }
  Outcome run(const std::string& command, std::vector<std::string> operands = {}) {
    Arguments arguments = arguments_;
    arguments.command = command;
    arguments.operands = std::move(operands);
    return ctl::run(arguments);
  }
  /// The rows of a fleet of both daemons, as the first one tells them.
  std::string fleet(int silence_of_two = 10) const {
    const auto row = [](const std::string& address, bool here, int silence) {
      return R"({"addresses":[")" + address + R"("],"version":"1","lease_seconds":2,"jobs":3,)" +
             R"("here":)" + (here ? "true" : "false") + R"(,"draining":false,"silence_ms":)" +
             std::to_string(silence) + "}";
    };
    return R"({"daemons":[)" + row(one_.text(), true, 0) + "," +
           row(two_.text(), false, silence_of_two) + "]}";
  }
  static std::string run_row(const std::string& job, const std::string& more) {
    return R"({"job":")" + job + R"(","run":"r")" + more + "}";
  }
  static std::string runs(const std::string& rows) { return R"({"jobs":[)" + rows + "]}"; }

  FakeHttpDaemon one_, two_;
  const test::ReservedPort absent_;
  Arguments arguments_;
};

TEST_F(CtlCommands, StatusAsksEachDaemon) {
  one_.say("GET /readyz", {http_reply("ready\nengine: redis\ndurability: fsync\nnote: n\x1b\n")});
  two_.say("GET /readyz", {http_reply("not ready: it starts\n", "503 No")});
  const Outcome some = run("status");
  EXPECT_EQ(some.code, exit_code::kTryAgain);
  EXPECT_EQ(some.output, "DAEMON           READY  ENGINE  DURABILITY  NOTE\n" + one_.text() +
                             std::string(17 - one_.text().size(), ' ') +
                             "yes    redis   fsync       n?\n" + two_.text() +
                             std::string(17 - two_.text().size(), ' ') +
                             "no     -       -           it starts\n");
  two_.say("GET /readyz", {http_reply("ready\n")});
  EXPECT_EQ(run("status").code, 0);
  arguments_.daemons = {{"127.0.0.1", absent_.number()}};
  EXPECT_EQ(run("status").code, exit_code::kUnreachable);
}

TEST_F(CtlCommands, AReadGoesToTheNextDaemonAndAChangeOnlyIfTheFirstHasNotReceivedIt) {
  one_.say("GET /v1/daemons", {{"", Then::close}});
  two_.say("GET /v1/daemons", {http_reply(fleet())});
  EXPECT_EQ(run("daemons").code, 0);
  one_.say("POST /v1/jobs/j%2F1/move", {{"", Then::close}});
  two_.say("POST /v1/jobs/j%2F1/move", {http_reply(R"({"runs":["","r"]})")});
  const Outcome lost = run("move", {"j/1", "b:2"});
  EXPECT_EQ(lost.code, exit_code::kTryAgain);
  EXPECT_EQ(two_.asked("POST /v1/jobs/j%2F1/move"), 0);
  arguments_.daemons[0] = {"127.0.0.1", absent_.number()};
  const Outcome moved = run("move", {"j/1", "b:2"});
  EXPECT_EQ(moved.output, "moved j/1 to b:2\nmoved j/1 run r to b:2\n");
  EXPECT_EQ(moved.code, 0);
  EXPECT_TRUE(two_.last().ends_with("\r\n\r\n{\"to\":\"b:2\"}"));
  two_.say("POST /v1/jobs/j/move", {http_reply(R"({"note":"it is there"})")});
  EXPECT_EQ(run("move", {"j", "b:2"}).output, "it is there\n");
}

TEST_F(CtlCommands, WithoutAnyReplyAllAreNamed) {
  one_.say("GET /v1/daemons", {{"", Then::close}});
  arguments_.daemons[1] = {"127.0.0.1", absent_.number()};
  const Outcome none = run("daemons");
  EXPECT_EQ(none.code, exit_code::kUnreachable) << "that of the last";
  EXPECT_TRUE(test::has(none.error, one_.text()));
  EXPECT_TRUE(test::has(none.error, "\nno daemon answers at " + absent_.address()));
  EXPECT_EQ(none.output, "");
}

TEST_F(CtlCommands, ARefusalHasItsExitCodeAndItsText) {
  const std::pair<const char*, int> all[] = {{"403 No", exit_code::kNoPermission},
                                             {"409 No", exit_code::kTryAgain},
                                             {"503 No", exit_code::kTryAgain},
                                             {"501 No", exit_code::kUsage},
                                             {"404 No", exit_code::kUsage}};
  for (const auto& [status, code] : all) {
    one_.say("GET /v1/daemons", {http_reply(R"({"error":{"detail":"why\u001b"}})", status)});
    const Outcome refused = run("daemons");
    EXPECT_EQ(refused.code, code) << status;
    EXPECT_EQ(refused.error, "why?") << status;
  }
  one_.say("GET /v1/daemons", {http_reply("plain", "404 No")});
  EXPECT_EQ(run("daemons").error, "HTTP status 404: plain");
  for (const std::string body : {"no JSON", "[]", ""}) {
    one_.say("GET /v1/daemons", {http_reply(body)});
    const Outcome odd = run("daemons");
    EXPECT_EQ(odd.code, exit_code::kUnreachable) << body;
    EXPECT_TRUE(test::has(odd.error, "at " + one_.text() + " is not a c10dd daemon"));
  }
}

TEST_F(CtlCommands, DaemonsShowsWhoIsSilent) {
  one_.say("GET /v1/daemons", {http_reply(fleet(1'999)), http_reply(fleet(2'000))});
  EXPECT_TRUE(test::has(run("daemons").output, "1999 ms  3     serves"));
  EXPECT_TRUE(test::has(run("daemons").output, "2000 ms  3     silent (dead or unreachable)"));
  one_.say("GET /v1/daemons",
           {http_reply(R"({"problem":"deaf","daemons":[{"addresses":["a:1"]}]})")});
  const Outcome deaf = run("daemons");
  EXPECT_EQ(deaf.code, exit_code::kTryAgain);
  EXPECT_EQ(deaf.error, "deaf");
  EXPECT_TRUE(test::has(deaf.output, "unknown"));
}

TEST_F(CtlCommands, JobsGathersTheRunsOfAllDaemonsThatLive) {
  one_.say("GET /v1/daemons", {http_reply(fleet())});
  one_.say("GET /v1/jobs",
           {http_reply(runs(run_row("a", R"(,"revision":1,"keys":11)") + "," + run_row("b", "")))});
  two_.say("GET /v1/jobs",
           {http_reply(runs(run_row("b", R"(,"revision":2,"keys":22)") + "," + run_row("a", "")))});
  const Outcome all = run("jobs");
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_TRUE(test::has(all.output, "\na    r    -      -      11")) << "the owner knows it";
  EXPECT_TRUE(test::has(all.output, "\nb    r    -      -      22"));
  two_.say("GET /v1/jobs", {http_reply("no", "503 No")});
  const Outcome some = run("jobs");
  EXPECT_EQ(some.code, exit_code::kTryAgain);
  EXPECT_TRUE(test::has(some.output, "\nb    r    -      -      -"));
  EXPECT_EQ(some.error, "HTTP status 503: no");
  const int asked = two_.asked("GET /v1/jobs");
  one_.say("GET /v1/daemons", {http_reply(fleet(5'000))});
  EXPECT_EQ(run("jobs").code, 0);
  EXPECT_EQ(two_.asked("GET /v1/jobs"), asked) << "one that is silent is not asked";
}

TEST_F(CtlCommands, RemovesOnlyWhatNobodyUses) {
  one_.say("GET /v1/jobs",
           {http_reply(runs(run_row("busy", R"(,"sessions":1)") + "," +
                            run_row("fresh", R"(,"sessions":0,"idle_seconds":59)") + "," +
                            run_row("idle", R"(,"sessions":0,"idle_seconds":60)") + "," +
                            run_row("leased", R"(,"sessions":0,"idle_seconds":99)") + "," +
                            run_row("raced", R"(,"sessions":0,"idle_seconds":99)") + "," +
                            run_row("unknown", "")))});
  one_.say("GET /v1/daemons", {http_reply("{}")});
  for (const std::string job : {"busy", "fresh", "idle", "raced", "unknown"}) {
    one_.say("GET /v1/jobs/" + job + "/endpoints", {http_reply(R"({"endpoints":[]})")});
    one_.say("DELETE /v1/jobs/" + job, {http_reply("", "204 Gone")});
  }
  one_.say("GET /v1/jobs/leased/endpoints", {http_reply(R"({"endpoints":[{}]})")});
  one_.say("DELETE /v1/jobs/raced", {http_reply("used", "409 No")});
  arguments_.idle = 60s;
  const Outcome removed = run("rm");
  EXPECT_EQ(removed.output, "removed idle\n");
  EXPECT_EQ(removed.error, "HTTP status 409: used");
  EXPECT_EQ(removed.code, exit_code::kTryAgain);
  EXPECT_EQ(one_.asked("DELETE /v1/jobs/busy") + one_.asked("DELETE /v1/jobs/fresh") +
                one_.asked("DELETE /v1/jobs/leased") + one_.asked("DELETE /v1/jobs/unknown"),
            0);
  arguments_.idle = 0s;
  EXPECT_EQ(run("rm").output, "removed fresh\nremoved idle\nremoved unknown\n");
  one_.say("GET /v1/daemons", {http_reply(fleet())});
  two_.say("GET /v1/jobs", {{"", Then::close}});
  const int before = one_.asked("DELETE /v1/jobs/idle");
  EXPECT_EQ(run("rm").code, exit_code::kTryAgain) << "another daemon may know of sessions";
  EXPECT_EQ(one_.asked("DELETE /v1/jobs/idle"), before);
}

TEST_F(CtlCommands, RemovesOneAndShowsOne) {
  one_.say("DELETE /v1/jobs/a%20b", {http_reply("", "204 Gone"), http_reply("no", "404 No")});
  EXPECT_EQ(run("rm", {"a b"}).output, "removed a b\n");
  EXPECT_EQ(run("rm", {"a b"}).code, exit_code::kUsage);
  one_.say("GET /v1/jobs/a%20b", {http_reply("page\x1b\n"), http_reply("{}")});
  EXPECT_EQ(run("job", {"a b"}).output, "page?\n");
  EXPECT_TRUE(test::has(one_.last(), "Accept: text/plain\r\n"));
  arguments_.json = true;
  EXPECT_EQ(run("job", {"a b"}).output, "{}");
  EXPECT_TRUE(test::has(one_.last(), "Accept: application/json\r\n"));
}

}  // namespace
}  // namespace c10dd::ctl
