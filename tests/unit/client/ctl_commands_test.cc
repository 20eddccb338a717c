// SPDX-License-Identifier: Apache-2.0
// The commands of c10ddctl over daemons that are absent, silent, late, close in the middle or lie:
// which one is asked, what is shown, and the exit code. Also what diagnose shows, once and for as
// long as it watches.
#include "client/ctl/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "client/ctl/diagnose.h"
#include "client/ctl/watch.h"
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

/// Returns the row of a run of job "j". The sentence names the state.
std::string diagnosed(const std::string& run, const std::string& state,
                      const std::string& since = "988") {
  return R"({"job":"j","run":")" + run + R"(","diagnosis":{"state":")" + state +
         R"(","kind":"missing","since":)" + since + R"(,"sentence":"it is )" + state +
         R"(","ranks":[3,1,2],"hosts":["n1","n2"],"waiting":61,"evidence":["key k","key l"]}})";
}
/// Returns the row of a run of job "j" with this text as its diagnosis.
std::string with_diagnosis(const std::string& run, const std::string& diagnosis) {
  return R"({"job":"j","run":")" + run + R"(","diagnosis":)" + diagnosis + "}";
}
const std::string kFine = with_diagnosis("fine", R"({"state":"running"})");

TEST_F(CtlCommands, JobsListsTheWorstRunsFirst) {
  one_.say("GET /v1/daemons", {http_reply("{}")});
  one_.say(
      "GET /v1/jobs",
      {http_reply(runs(
          run_row("a", "") + "," + diagnosed("wait-2", "waiting", "200") + "," +
          diagnosed("stuck-2", "stuck", "300") + "," + diagnosed("wait-1", "waiting", "100.5") +
          "," + kFine + "," + diagnosed("stuck-3", "stuck", R"("long")") + "," +
          diagnosed("stuck-1", "stuck", "250") + "," + with_diagnosis("bad", R"("stuck")")))});
  const Outcome table = run("jobs");
  EXPECT_EQ(table.code, 0) << table.error;
  arguments_.json = true;
  const Outcome json = run("jobs");
  std::size_t in_table = 0;
  std::size_t in_json = 0;
  for (const std::string name :
       {"stuck-1", "stuck-2", "stuck-3", "wait-1", "wait-2", "r", "bad", "fine"}) {
    in_table = table.output.find("  " + name + "  ", in_table);
    in_json = json.output.find("\"run\":\"" + name + "\"", in_json);
    EXPECT_NE(in_table, std::string::npos) << name << " in\n" << table.output;
    EXPECT_NE(in_json, std::string::npos) << name << " in\n" << json.output;
  }
  EXPECT_TRUE(test::has(table.output, "BLOCKED  STATE    DIAGNOSIS\n"));
  EXPECT_TRUE(test::has(table.output, "stuck    it is stuck\n"));
  EXPECT_TRUE(test::has(table.output, "running  -\n"));
  EXPECT_TRUE(test::has(table.output, "-        -\n")) << "of a daemon of an older version";
}

/// Job "j" at the first daemon, a thousand seconds after 1970.
class CtlDiagnose : public CtlCommands {
 protected:
  CtlDiagnose() { arguments_.operands = {"j"}; }

  static test::FakeReply page(const std::string& rows) {
    return http_reply(R"({"job":"j","runs":[)" + rows + "]}");
  }
  Outcome of(const std::string& rows) {
    one_.say("GET /v1/jobs/j", {page(rows)});
    return diagnose(arguments_, kNow);
  }
  /// Watches while the first daemon gives these replies one after the other. Returns all lines,
  /// those for standard error with "! " before.
  std::string watched(const std::deque<test::FakeReply>& replies) {
    one_.say("GET /v1/jobs/j", replies);
    std::string lines;
    std::size_t asked = 0;
    codes_.clear();
    last_code_ =
        watch(arguments_, {.print =
                               [&](const std::string& line) {
                                 lines += line + "\n";
                                 return true;
                               },
                           .warn = [&](const std::string& line) { lines += "! " + line + "\n"; },
                           .now = [] { return kNow; },
                           .set_code = [&](int code) { codes_.push_back(code); },
                           .pause = [&] { return ++asked < replies.size(); }});
    return lines;
  }

  static constexpr WallTime kNow{1000s};
  static constexpr const char* kTime = "1970-01-01T00:16:40Z ";
  std::vector<int> codes_;  // which the watch has set, one after the other
  int last_code_ = -1;
};

TEST_F(CtlDiagnose, SaysWhoIsTheCauseAndSinceWhen) {
  const Outcome stuck = of(diagnosed("r1", "stuck"));
  EXPECT_EQ(stuck.output,
            "r1: stuck for 12 s: it is stuck\n"
            "  kind: missing\n"
            "  ranks: [1-3]\n"
            "  hosts: n1, n2\n"
            "  waiting: 61\n"
            "  evidence:\n"
            "    key k\n"
            "    key l\n");
  EXPECT_EQ(stuck.error, "");
  EXPECT_EQ(stuck.code, 2);
  const Outcome waits = of(diagnosed("", "waiting", "1000.9"));
  EXPECT_EQ(waits.output.substr(0, waits.output.find('\n')),
            "run without a name: waiting for 0 s: it is waiting")
      << "the clock of the daemon is ahead";
  EXPECT_EQ(waits.code, 1);
  const Outcome runs = of(kFine);
  EXPECT_EQ(runs.output, "fine: running\n");
  EXPECT_EQ(runs.code, 0);
  const Outcome ended = of(with_diagnosis("r0", R"({"state":"ended"})"));
  EXPECT_EQ(ended.output, "r0: ended\n");
  EXPECT_EQ(ended.code, 0);
}

TEST_F(CtlDiagnose, SaysWhyARunWasStuckBefore) {
  const Outcome idle = of(with_diagnosis(
      "r0",
      R"({"state":"idle","last_stuck":{"kind":"lost","ended":940,"sentence":"it was\nstuck"}})"));
  EXPECT_EQ(idle.output, "r0: idle\n  last stuck, ended 60 s ago: it was?stuck\n");
  EXPECT_EQ(idle.code, 0);
  const Outcome odd = of(with_diagnosis(
      "r0", R"({"state":"running","last_stuck":{"sentence":"so","ended":"soon"}},"more":[1])"));
  EXPECT_EQ(odd.output, "r0: running\n  last stuck: so\n");
  EXPECT_EQ(of(with_diagnosis("r0", R"({"state":"idle","last_stuck":7})")).output, "r0: idle\n");
}

TEST_F(CtlDiagnose, SaysThatAJobWaitsForItsFirstRank) {
  one_.say("GET /v1/jobs/j", {http_reply(R"({"job":"j","runs":[],"note":"job j waits"})")});
  const Outcome none = diagnose(arguments_, kNow);
  EXPECT_EQ(none.output, "job j waits\n");
  EXPECT_EQ(none.code, 0);
}

TEST_F(CtlDiagnose, TheExitCodeIsThatOfTheWorstRun) {
  const std::string waits = diagnosed("w", "waiting");
  const std::string stuck = diagnosed("s", "stuck");
  const std::string old = R"({"job":"j","run":"old"})";
  EXPECT_EQ(of(kFine + "," + waits).code, 1);
  EXPECT_EQ(of(waits + "," + stuck + "," + kFine).code, 2);
  EXPECT_EQ(of(kFine + "," + old + "," + waits).code, exit_code::kUsage);
  const Outcome all = of(waits + "," + old + "," + stuck);
  EXPECT_EQ(all.code, 2);
  EXPECT_EQ(all.output.find("w: waiting"), 0U) << "in the order of the page";
  EXPECT_LT(all.output.find("\nold: not known"), all.output.find("\ns: stuck"));
  EXPECT_EQ(all.error.find("the daemon sends no diagnosis of old that c10ddctl "), 0U);
}

TEST_F(CtlDiagnose, ShowsOneRunOrNamesThoseThatExist) {
  const std::string two = diagnosed("a", "stuck") + "," + diagnosed("b", "waiting");
  arguments_.run = "b";
  const Outcome one = of(two);
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.output.find("b: waiting"), 0U);
  EXPECT_FALSE(test::has(one.output, "stuck"));
  arguments_.json = true;
  const Outcome json = of(two);
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(json.output.find(R"({"job":"j","runs":[{"job":"j","run":"b","diagnosis":{)"), 0U);
  EXPECT_FALSE(test::has(json.output, "stuck"));
  arguments_.run = "c";
  const Outcome none = of(two);
  EXPECT_EQ(none.code, exit_code::kUsage);
  EXPECT_EQ(none.error, "job \"j\" has no run \"c\"; its runs: a, b");
  EXPECT_EQ(none.output, "");
  arguments_.run = "";
  EXPECT_EQ(of("").error, "the daemon shows no run of job \"j\"; c10ddctl jobs lists all runs");
  one_.say("GET /v1/jobs/j", {http_reply(R"({"error":{"detail":"no run"}})", "404 No")});
  const Outcome refused = diagnose(arguments_, kNow);
  EXPECT_EQ(refused.error, "no run");
  EXPECT_EQ(refused.code, run("job", {"j"}).code);
  EXPECT_EQ(run("diagnose", {"j"}).code, refused.code);
}

TEST_F(CtlDiagnose, WhatIsNotAsExpectedIsNotKnown) {
  for (const std::string bad :
       {R"("stuck")", "7", "null", "[]", "{}", R"({"state":"odd"})", R"({"state":["stuck"]})"}) {
    const Outcome odd = of(with_diagnosis("r", bad));
    EXPECT_EQ(odd.output, "r: not known: its daemon sends no diagnosis\n") << bad;
    EXPECT_EQ(odd.code, exit_code::kUsage) << bad;
  }
  EXPECT_EQ(of("7").code, exit_code::kUsage);
  const Outcome some = of(with_diagnosis(
      "r", R"({"state":"stuck","kind":[],"since":"noon","sentence":"a\u001b\nb: running","ranks":)"
           R"([-1,2.5,"x",4294967296,5],"hosts":[7,"n\r1"],"waiting":-3,"evidence":["e\n1",{}]})"));
  EXPECT_EQ(some.output,
            "r: stuck: a??b: running\n"
            "  kind: -\n"
            "  ranks: [5]\n"
            "  hosts: n?1\n"
            "  waiting: -\n"
            "  evidence:\n"
            "    e?1\n");
  EXPECT_EQ(some.code, 2);
  for (const std::string since : {"-1e308", "1e308", "0"}) {
    const Outcome odd = of(diagnosed("r", "stuck", since));
    EXPECT_EQ(odd.code, 2);
    EXPECT_TRUE(test::has(odd.output, "it is stuck\n")) << odd.output;
  }
  EXPECT_TRUE(test::has(of(with_diagnosis("r", R"({"state":"stuck","since":940})")).output,
                        "r: stuck for 60 s: the daemon does not say why\n"));
}

TEST_F(CtlDiagnose, AWatchWritesOnlyChanges) {
  const std::string waits = diagnosed("a", "waiting");
  const std::string later = diagnosed("a", "waiting", "999");
  const std::string stuck = diagnosed("a", "stuck", "999");
  const std::string lines =
      watched({page(waits), page(waits), page(later), page(stuck + "," + kFine),
               page(stuck + "," + kFine), page(kFine), page("")});
  const std::string time = kTime;
  EXPECT_EQ(lines, time + "a: waiting for 12 s: it is waiting\n" +  //
                       time + "a: stuck for 1 s: it is stuck\n" +   //
                       time + "fine: running\n" +                   //
                       time + "a: no daemon shows it any more: it has ended, or is not loaded\n" +
                       time +
                       "fine: no daemon shows it any more: it has ended, or is not loaded\n");
  EXPECT_EQ(codes_, (std::vector<int>{1, 1, 1, 2, 2, 0, exit_code::kUsage}));
  EXPECT_EQ(last_code_, exit_code::kUsage);
}

TEST_F(CtlDiagnose, AWatchWritesAnObjectInEachLine) {
  arguments_.json = true;
  arguments_.run = "a";
  const std::string stuck = with_diagnosis("a", R"({"state":"stuck","sentence":"s"})");
  const std::string begin = R"({"time":"1970-01-01T00:16:40Z","job":"j","run":"a",)";
  EXPECT_EQ(watched({page(kFine + "," + stuck), page(kFine + "," + with_diagnosis("a", "7")),
                     page(kFine)}),
            begin + R"("diagnosis":{"state":"stuck","sentence":"s"}})" + "\n" + begin +
                R"("diagnosis":null})" + "\n" + begin + R"("ended":true})" + "\n");
}

TEST_F(CtlDiagnose, AWatchGoesOnWhileTheDaemonIsAwayOrTheJobHasNoRun) {
  arguments_.daemons.pop_back();
  const test::FakeReply away{"", Then::close};
  const test::FakeReply busy = http_reply(R"({"error":{"detail":"busy"}})", "503 No");
  const test::FakeReply none = http_reply(R"({"error":{"detail":"no run"}})", "404 No");
  const test::FakeReply stuck = page(diagnosed("a", "stuck"));
  const std::string time = kTime;
  const std::string line = time + "a: stuck for 12 s: it is stuck\n";
  const std::string lost = "! " + time + "the daemon at " + one_.text() + " did not reply: ";
  const std::string back = "! " + time + "a daemon answers again\n";
  const std::string gone = watched({away, away, none, none, stuck, away, busy, stuck, busy});
  EXPECT_EQ(gone.find(lost), 0U) << gone;
  EXPECT_EQ(gone.substr(gone.find('\n') + 1).find(back + "! " + time + "no run\n" + line + lost),
            0U)
      << gone;
  EXPECT_TRUE(gone.ends_with(back + "! " + time + "busy; c10ddctl asks again every second\n"));
  EXPECT_EQ(std::ranges::count(gone, '\n'), 7) << gone;
  EXPECT_EQ(codes_.front(), exit_code::kTryAgain) << "no daemon has replied yet";
  EXPECT_EQ(codes_[2], exit_code::kUsage);
  EXPECT_EQ(last_code_, 2) << "that of the last reply";
  arguments_.run = "b";
  EXPECT_EQ(watched({stuck, stuck}), "! " + time + "job \"j\" has no run \"b\"; its runs: a\n");
}

TEST_F(CtlDiagnose, AWatchEndsAtARefusalAndWhenNobodyReads) {
  const test::FakeReply denied = http_reply(R"({"error":{"detail":"denied"}})", "403 No");
  EXPECT_EQ(watched({denied, denied}), std::string("! ") + kTime + "denied\n");
  EXPECT_EQ(codes_.size(), 1U) << "it does not ask again";
  EXPECT_EQ(last_code_, exit_code::kNoPermission);
  one_.say("GET /v1/jobs/j", {page(diagnosed("a", "waiting"))});
  EXPECT_EQ(watch(arguments_, {.print = [](const std::string&) { return false; },
                               .warn = [](const std::string&) {},
                               .now = [] { return kNow; },
                               .set_code = [](int) {},
                               .pause = []() -> bool { throw std::logic_error("it goes on"); }}),
            1);
}

}  // namespace
}  // namespace c10dd::ctl
