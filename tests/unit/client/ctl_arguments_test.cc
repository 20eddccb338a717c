// SPDX-License-Identifier: Apache-2.0
// The command line of c10ddctl: what each word means, which daemons are asked, and what the errors
// name.
#include "client/ctl/arguments.h"

#include <gtest/gtest.h>

#include <map>

#include "client/ctl/table.h"

namespace c10dd::ctl {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

Result<Parsed> parse_with(const Words& words, const std::map<std::string, std::string>& set = {}) {
  return parse(words, [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

Arguments good(const Words& words, const std::map<std::string, std::string>& set = {}) {
  const Result<Parsed> parsed = parse_with(words, set);
  EXPECT_TRUE(parsed) << parsed.error().detail;
  return parsed ? parsed->arguments : Arguments{};
}

std::string refusal_of(const Words& words, const std::map<std::string, std::string>& set = {}) {
  const Result<Parsed> parsed = parse_with(words, set);
  EXPECT_FALSE(parsed) << testing::PrintToString(words);
  if (parsed) return "no error";
  EXPECT_EQ(parsed.error().code, Code::invalid_argument);
  return parsed.error().detail;
}

std::string daemons_of(const Arguments& arguments) {
  std::string all;
  for (const client::HostPort& daemon : arguments.daemons) all += daemon.text() + " ";
  return all;
}

TEST(CtlArguments, HaveDefaults) {
  const Arguments plain = good({"status"});
  EXPECT_EQ(plain.command, "status");
  EXPECT_TRUE(plain.operands.empty());
  EXPECT_EQ(plain.timeout, 10s);
  EXPECT_FALSE(plain.json || plain.idle || plain.watch);
  EXPECT_EQ(plain.endpoint + plain.run + std::to_string(plain.world_size), "main0");
  EXPECT_EQ(daemons_of(plain), "127.0.0.1:29500 ");
}

TEST(CtlArguments, MayStandBeforeAndBehindTheCommand) {
  const Arguments lease = good({"--timeout", "0.5", "lease", "j", "--endpoint", "e", "--run=r",
                                "--world-size", "8", "-o", "json", "--daemon", "a:1,[::1]:2"});
  EXPECT_EQ(lease.command, "lease");
  EXPECT_EQ(lease.operands, Words{"j"});
  EXPECT_EQ(lease.timeout, 500ms);
  EXPECT_EQ(lease.endpoint + lease.run + std::to_string(lease.world_size), "er8");
  EXPECT_TRUE(lease.json);
  EXPECT_EQ(daemons_of(lease), "a:1 [::1]:2 ");
  EXPECT_EQ(good({"move", "j", "b:2"}).operands, (Words{"j", "b:2"}));
  EXPECT_EQ(*good({"rm", "--idle"}).idle, 0s);
  EXPECT_EQ(*good({"rm", "--idle", "30m"}).idle, 30min);
}

TEST(CtlArguments, DiagnoseTakesARunAndMayWatch) {
  const Arguments plain = good({"diagnose", "j"});
  EXPECT_EQ(plain.operands, Words{"j"});
  EXPECT_EQ(plain.run, "");
  EXPECT_FALSE(plain.watch);
  const Arguments one = good({"diagnose", "--watch", "j", "--run", "r1"});
  EXPECT_EQ(one.run, "r1");
  EXPECT_TRUE(one.watch);
}

TEST(CtlArguments, TheFirstThatNamesDaemonsDecides) {
  const std::map<std::string, std::string> both{{"C10DD_URL", "c10dd://u:1/job"},
                                                {"C10DD_ADDR", "a:2"}};
  EXPECT_EQ(daemons_of(good({"jobs"}, both)), "u:1 ");
  EXPECT_EQ(daemons_of(good({"jobs", "--daemon", "d"}, both)), "d:29500 ");
  EXPECT_EQ(daemons_of(good({"jobs"}, {{"C10DD_URL", ""}, {"C10DD_ADDR", "a:2"}})), "a:2 ");
  EXPECT_EQ(refusal_of({"jobs"}, {{"C10DD_ADDR", "a:x"}}).find("C10DD_ADDR: "), 0U);
  EXPECT_NE(refusal_of({"jobs", "--daemon", "http://a:1"}).find("--daemon is \"http://a:1\""),
            std::string::npos);
}

TEST(CtlArguments, ThatAreWrongAreNamed) {
  const std::pair<Words, const char*> all[] = {
      {{}, "no command was given"},
      {{"stats"}, "unknown command \"stats\"; did you mean \"status\"?"},
      {{"jobs", "--tiemout=1"}, "unknown option \"--tiemout\"; did you mean \"--timeout\"?"},
      {{"jobs", "--idle"}, "unknown option \"--idle\""},
      {{"job", "j", "--watch"}, "unknown option \"--watch\""},
      {{"diagnose"}, "wrong number of arguments; write c10ddctl diagnose NAME"},
      {{"job"}, "wrong number of arguments; write c10ddctl job NAME"},
      {{"rm", "a", "b"}, "wrong number of arguments; write c10ddctl rm NAME"},
      {{"rm", "a", "--idle=30m"}, "wrong number of arguments"},
      {{"diagnose", ""}, "an argument is empty; write c10ddctl diagnose NAME"},
      {{"diagnose", "j", "--run", ""}, "--run: the value is empty; give one, or leave it out"},
      {{"ca", "token", "D", "--out="}, "--out needs a value"},
      {{"jobs", "--timeout"}, "--timeout needs a value"},
      {{"jobs", "--timeout", "1", "--timeout", "2"}, "--timeout is given more than once"},
      {{"jobs", "--timeout", "0.09"}, "--timeout is \"0.09\": expected seconds, 0.1 to 3600"},
      {{"jobs", "--timeout", "3601"}, "--timeout is \"3601\""},
      {{"jobs", "--timeout", "1x"}, "--timeout is \"1x\""},
      {{"jobs", "-o", "xml"}, "--output is \"xml\": expected table or json"},
      {{"lease", "j", "--world-size", "-1"}, "--world-size is \"-1\""},
      {{"rm", "--idle=soon"}, "--idle is \"soon\""},
      {{"ca"},
       "the command is not complete; write one of ca init, ca daemon, ca renew, ca token, ca show"},
      {{"ca", "tokn", "D"}, "unknown command \"ca tokn\"; did you mean \"ca token\"?"},
      {{"ca", "init"}, "wrong number of arguments; write c10ddctl ca init DIR"},
      {{"ca", "init", "D", "E"}, "wrong number of arguments; write c10ddctl ca init DIR"},
      {{"ca", "init", "D", "--name", "x"}, "unknown option \"--name\""},
      {{"ca", "token", "D", "--nmae", "x"}, "unknown option \"--nmae\"; did you mean \"--name\"?"},
      {{"ca", "token", "D", "--name"}, "--name needs a value"},
      {{"ca", "token", "D", "--name", "a", "--name", "b"}, "--name is given more than once"}};
  for (const auto& [words, why] : all) {
    const std::string text = refusal_of(words);
    EXPECT_EQ(text.find(why), 0U) << text << " is not: " << why;
  }
  EXPECT_EQ(good({"jobs", "--timeout", "3600"}).timeout, 1h);
  EXPECT_EQ(good({"jobs", "--timeout", "0.1"}).timeout, 100ms);
}

TEST(CtlArguments, OfTheGroupCaAskNoDaemon) {
  const Arguments init =
      good({"ca", "init", "D", "--host", "a", "--host=b,c"}, {{"C10DD_URL", "?"}});
  EXPECT_EQ(init.command, "ca init");
  EXPECT_EQ(init.operands, Words{"D"});
  EXPECT_EQ(init.ca.hosts, (Words{"a", "b,c"}));
  EXPECT_EQ(daemons_of(init), "");
  const Arguments token = good({"-o", "json", "ca", "token", "--jobs", "llm-*", "D", "--jobs", "b",
                                "--name", "alice", "--ttl", "12h", "--out", "f"});
  EXPECT_EQ(token.command, "ca token");
  EXPECT_EQ(token.operands, Words{"D"}) << "an option takes one word each time";
  EXPECT_EQ(token.ca.jobs, (Words{"llm-*", "b"}));
  EXPECT_EQ(token.ca.name + token.ca.role + token.ca.ttl + token.ca.out, "alicetrainer12hf");
  EXPECT_TRUE(token.json);
  EXPECT_EQ(good({"ca", "daemon", "D", "--out", "E"}).ca.out, "E");
  EXPECT_EQ(good({"ca", "show", "jobs"}).operands, Words{"jobs"});
}

TEST(CtlArguments, HelpIsGivenWithoutAnythingElse) {
  const auto reply = [](const Words& words) { return parse_with(words).value().reply; };
  EXPECT_NE(reply({"--help"}).find("Commands:\n  status"), std::string::npos);
  EXPECT_EQ(reply({"rm", "-h"}).find("c10ddctl [OPTIONS] rm NAME: remove a job"), 0U);
  EXPECT_NE(reply({"rm", "-h"}).find("--idle [TIME]"), std::string::npos);
  EXPECT_EQ(reply({"jobs", "-h"}).find("--idle"), std::string::npos);
  EXPECT_NE(reply({"ca", "--help"}).find("Commands:\n  ca init DIR"), std::string::npos);
  EXPECT_EQ(reply({"ca", "-h"}).find("  status"), std::string::npos);
  EXPECT_EQ(reply({"ca", "token", "-h"}).find("c10ddctl [OPTIONS] ca token DIR: sign"), 0U);
  EXPECT_EQ(reply({"--version"}), std::string("c10ddctl ") + C10DD_VERSION + "\n");
}

TEST(CtlTable, HasColumnsAsWideAsTheirLongestCell) {
  Table table({"A", "LONG", "C"});
  table.add({"aaa", "", "c"});
  table.add({"", "b", ""});
  EXPECT_EQ(table.text(), "A    LONG  C\naaa  -     c\n-    b     -\n");
}

}  // namespace
}  // namespace c10dd::ctl
