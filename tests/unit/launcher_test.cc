// SPDX-License-Identifier: Apache-2.0
// The pure parts of c10drun: options, the environment of workers, lines, verdicts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/run/options.h"
#include "client/run/output.h"
#include "client/run/plan.h"
#include "client/run/program.h"
#include "client/run/verdict.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;
using Variables = std::map<std::string, std::string>;

Options parse(std::vector<const char*> arguments, const Variables& variables = {}) {
  arguments.insert(arguments.begin(), "c10drun");
  return parse_options(static_cast<int>(arguments.size()), arguments.data(),
                       [&](const char* name) -> const char* {
                         const auto it = variables.find(name);
                         return it == variables.end() ? nullptr : it->second.c_str();
                       })
      .options;
}

// ---- options -----------------------------------------------------------------------------------

TEST(LauncherOptions, HaveDefaults) {
  const Options o = parse({"--", "true"});
  EXPECT_EQ(o.nproc, 1u);
  EXPECT_EQ(o.min_nodes, 1u);
  EXPECT_EQ(o.max_nodes, 1u);
  EXPECT_EQ(o.max_restarts, 3u);
  EXPECT_EQ(o.node_rank, -1);
  EXPECT_EQ(o.daemon.address(), "127.0.0.1:29500");
  EXPECT_TRUE(o.daemon.job.starts_with("c10drun-")) << o.daemon.job;
  EXPECT_EQ(o.grace, 15s);
  EXPECT_EQ(o.last_call, 30s);
  EXPECT_EQ(o.join_timeout, 10min);
  EXPECT_TRUE(o.prefix);
  EXPECT_EQ(o.command, std::vector<std::string>{"true"});
}

TEST(LauncherOptions, AreTaken) {
  const Options o = parse({"--nproc",  "4",        "--nnodes",    "2:4",      "--max-restarts",
                           "0",        "--job",    "j",           "--run",    "r",
                           "--daemon", "h:5",      "--log-dir",   "/l",       "--no-prefix",
                           "--grace",  "500ms",    "--last-call", "2m",       "--join-timeout",
                           "1h",       "--labels", "a=b",         "--labels", "c=",
                           "--domain", "rack1",    "--",          "prog",     "--nproc",
                           "--",       "x"});
  EXPECT_EQ(o.nproc, 4u);
  EXPECT_EQ(o.min_nodes, 2u);
  EXPECT_EQ(o.max_nodes, 4u);
  EXPECT_EQ(o.max_restarts, 0u);
  EXPECT_EQ(o.daemon.address(), "h:5");
  EXPECT_EQ(o.daemon.job, "j");
  EXPECT_EQ(o.run, "r");
  EXPECT_EQ(o.log_dir, "/l");
  EXPECT_FALSE(o.prefix);
  EXPECT_EQ(o.grace, 500ms);
  EXPECT_EQ(o.last_call, 2min);
  EXPECT_EQ(o.join_timeout, 1h);
  EXPECT_EQ(o.labels, (Variables{{"a", "b"}, {"c", ""}}));
  EXPECT_EQ(o.domain, "rack1");
  EXPECT_EQ(o.command, (std::vector<std::string>{"prog", "--nproc", "--", "x"}));
}

TEST(LauncherOptions, EndAtTheProgramAlsoWithoutAMark) {
  const Options o = parse({"--nproc", "2", "python3", "train.py", "--nproc", "7", "--", "y"});
  EXPECT_EQ(o.nproc, 2u);
  EXPECT_EQ(o.command,
            (std::vector<std::string>{"python3", "train.py", "--nproc", "7", "--", "y"}));
}

TEST(LauncherOptions, TakeTorchrunsSpelling) {
  const Options o = parse(
      {"--nproc_per_node=2", "--nnodes=3", "--node_rank=1", "--max_restarts=5", "--job=j", "true"});
  EXPECT_EQ(o.nproc, 2u);
  EXPECT_EQ(o.node_rank, 1);
  EXPECT_EQ(o.max_restarts, 5u);
}

TEST(LauncherOptions, GivenTwiceTheLastCounts) {
  EXPECT_EQ(parse({"--nproc", "2", "--nproc", "3", "true"}).nproc, 3u);
}

TEST(LauncherOptions, FindDaemonJobAndRun) {
  const Variables url = {{"C10DD_URL", "c10dd://h:1/a"}};
  EXPECT_EQ(parse({"true"}, url).daemon.address(), "h:1");
  EXPECT_EQ(parse({"true"}, url).daemon.job, "a");
  EXPECT_EQ(parse({"--job", "b", "true"}, url).daemon.job, "b");
  EXPECT_EQ(parse({"--daemon", "g:2", "--job", "b", "true"}, url).daemon.address(), "g:2");
  EXPECT_EQ(parse({"--daemon", "c10dd://g:2/c", "true"}, url).daemon.job, "c");
  EXPECT_EQ(parse({"true"}, {{"C10DD_ADDR", "h:3"}, {"C10DD_JOB", "d"}}).daemon.job, "d");
  EXPECT_EQ(parse({"--daemon", "[::1]:7", "--job", "j", "true"}).daemon.address(), "[::1]:7");
  const Variables slurm = {{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "2"}};
  EXPECT_EQ(parse({"--nnodes", "2", "true"}, slurm).daemon.job, "slurm-7");
  EXPECT_EQ(parse({"--nnodes", "2", "true"}, slurm).run, "requeue-2");
  EXPECT_EQ(parse({"--standalone", "--job", "s", "true"}, url).daemon.job, "s");
}

TEST(LauncherOptions, AreNotDisturbedByAnOuterLauncher) {
  EXPECT_EQ(parse({"true"}, {{"RANK", "9"}, {"WORLD_SIZE", "2"}}).nproc, 1u);
}

struct BadOptions {
  const char* name;
  std::vector<const char*> arguments;
  std::vector<const char*> says;
};

class LauncherOptionsError : public testing::TestWithParam<BadOptions> {};

TEST_P(LauncherOptionsError, SaysWhatIsWrong) {
  try {
    parse(GetParam().arguments);
    FAIL() << "accepted";
  } catch (const Fatal& fatal) {
    EXPECT_EQ(fatal.code(), 64);
    for (const char* says : GetParam().says) {
      EXPECT_NE(std::string(fatal.what()).find(says), std::string::npos) << fatal.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, LauncherOptionsError,
    testing::Values(
        BadOptions{"NoProgram", {}, {"no program", "c10drun --standalone"}},
        BadOptions{"NoProgramAfterTheMark", {"--nproc", "2", "--"}, {"no program to run after --"}},
        BadOptions{"NoWorkers", {"--nproc", "0", "true"}, {"--nproc is \"0\"", "1 to 1024"}},
        BadOptions{"Devices", {"--nproc", "gpu", "true"}, {"does not count devices"}},
        BadOptions{"Word", {"--nproc", "many", "true"}, {"--nproc is \"many\""}},
        BadOptions{"NoNodes", {"--nnodes", "0", "true"}, {"--nnodes is \"0\"", "1 to 131072"}},
        BadOptions{"MinMoreThanMax", {"--nnodes", "4:2", "true"}, {"4, is more than the most, 2"}},
        BadOptions{"HalfARange", {"--nnodes", "2:", "true"}, {"--nnodes is \"\""}},
        BadOptions{"Restarts", {"--max-restarts", "-1", "true"}, {"--max-restarts is \"-1\""}},
        BadOptions{"NodeRank",
                   {"--nnodes", "2", "--node-rank", "2", "--job", "j", "true"},
                   {"--node-rank is \"2\"", "0 to 1"}},
        BadOptions{"NodeRankOfARange",
                   {"--nnodes", "1:2", "--node-rank", "0", "--job", "j", "true"},
                   {"fixed number of nodes", "1:2"}},
        BadOptions{"NoJob", {"--nnodes", "2", "true"}, {"no name for the job", "--job NAME"}},
        BadOptions{"JobWithASlash", {"--job", "a/b", "true"}, {"job's name", "slash"}},
        BadOptions{"TwoJobs",
                   {"--job", "a", "--daemon", "c10dd://h:1/b", "true"},
                   {"--job is \"a\"", "\"b\""}},
        BadOptions{"Port", {"--daemon", "h:0", "true"}, {"--daemon: bad URL", "port \"0\""}},
        BadOptions{"Duration", {"--grace", "soon", "true"}, {"--grace is \"soon\"", "500ms"}},
        BadOptions{"NegativeDuration", {"--last-call", "-1s", "true"}, {"--last-call is \"-1s\""}},
        BadOptions{"EndlessDuration", {"--join-timeout", "1e9h", "true"}, {"at most"}},
        BadOptions{"Label", {"--labels", "rack", "true"}, {"--labels is \"rack\"", "NAME=VALUE"}},
        BadOptions{"OurLabel", {"--labels", "nproc=2", "true"}, {"sets the label nproc itself"}},
        BadOptions{"LoneAndMany",
                   {"--standalone", "--nnodes", "2", "true"},
                   {"--standalone is for one node"}},
        BadOptions{"LoneAndDaemon", {"--standalone", "--daemon", "h:1", "true"}, {"--daemon"}},
        BadOptions{"Unknown", {"--gpus", "3", "true"}, {"--gpus", "c10drun --help"}}),
    [](const auto& bad) { return bad.param.name; });

TEST(LauncherOptions, ReadDurations) {
  EXPECT_EQ(parse_duration("x", "15"), 15s);
  EXPECT_EQ(parse_duration("x", "1.5s"), 1500ms);
  EXPECT_EQ(parse_duration("x", "0"), 0s);
  EXPECT_EQ(parse_duration("x", "10m"), 10min);
  EXPECT_THROW(parse_duration("x", ""), Fatal);
  EXPECT_THROW(parse_duration("x", "3 s"), Fatal);
  EXPECT_THROW(parse_duration("x", "nan"), Fatal);
  EXPECT_THROW(parse_duration("x", "31d"), Fatal);
}

// ---- program -----------------------------------------------------------------------------------

int code_of_program(const std::string& name, const std::string& path) {
  try {
    find_program(name, path);
    return 0;
  } catch (const Fatal& fatal) {
    return fatal.code();
  }
}

TEST(LauncherProgram, IsFoundAsAShellFindsIt) {
  EXPECT_EQ(find_program("sh", "/nowhere:/bin"), "/bin/sh");
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
  EXPECT_EQ(code_of_program("sh", "/nowhere:/etc"), 127);
  EXPECT_EQ(code_of_program("/nowhere/sh", "/bin"), 127);
  EXPECT_EQ(code_of_program("/etc/passwd", ""), 126);
  EXPECT_EQ(code_of_program("/etc", ""), 126);
  EXPECT_EQ(code_of_program("passwd", "/etc"), 126);
}

// ---- environment -------------------------------------------------------------------------------

Member node(std::uint32_t rank, const char* nproc, const char* address) {
  Member member;
  member.rank = rank;
  member.host = "host-" + std::to_string(rank);
  if (nproc != nullptr) member.labels["nproc"] = nproc;
  if (address != nullptr) member.labels["address"] = address;
  return member;
}

Generation generation_of(std::uint32_t rank, std::uint32_t size) {
  Generation generation;
  generation.number = 7;
  generation.rank = rank;
  generation.size = size;
  return generation;
}

TEST(LauncherPlan, CountsRanksOverNodesOfDifferentSize) {
  const std::vector<Member> nodes = {node(0, "3", "10.0.0.1"), node(1, "1", "10.0.0.2"),
                                     node(2, "4", "10.0.0.3")};
  const Plan plan = make_plan(generation_of(2, 3), nodes);
  EXPECT_EQ(plan.first_rank, 4u);
  EXPECT_EQ(plan.local_size, 4u);
  EXPECT_EQ(plan.world_size, 8u);
  EXPECT_EQ(plan.nodes, 3u);
  EXPECT_EQ(plan.master_address, "10.0.0.1");
  EXPECT_EQ(make_plan(generation_of(0, 3), nodes).first_rank, 0u);
  EXPECT_EQ(make_plan(generation_of(0, 1), {node(0, "2", nullptr)}).master_address, "host-0");
}

TEST(LauncherPlan, RefusesWhoIsNoAgentAndTooLargeAWorld) {
  EXPECT_THROW(make_plan(generation_of(0, 1), {node(0, nullptr, "a")}), Fatal);
  EXPECT_THROW(make_plan(generation_of(0, 1), {node(0, "1025", "a")}), Fatal);
  const std::vector<Member> nodes(129, node(0, "1024", "a"));
  EXPECT_THROW(make_plan(generation_of(0, 129), nodes), Fatal);
}

TEST(LauncherPlan, GivesWorkersTheWholeEnvironment) {
  Options options = parse({"--job", "j", "--run", "r", "--daemon", "h:5", "true"});
  Plan plan = make_plan(generation_of(1, 2), {node(0, "3", "a"), node(1, "2", "b")});
  plan.master_port = "1234";
  plan.nonce = "abc";
  plan.restarts = 2;
  const auto pairs = worker_environment({{"HOME", "/h"}, {"RANK", "99"}}, options, plan, 1, "/e");
  const std::set<std::string> all(pairs.begin(), pairs.end());
  EXPECT_EQ(all.size(), pairs.size());
  for (const char* pair : {"HOME=/h",
                           "RANK=4",
                           "WORLD_SIZE=5",
                           "LOCAL_RANK=1",
                           "LOCAL_WORLD_SIZE=2",
                           "GROUP_RANK=1",
                           "GROUP_WORLD_SIZE=2",
                           "ROLE_RANK=4",
                           "ROLE_WORLD_SIZE=5",
                           "ROLE_NAME=default",
                           "MASTER_ADDR=a",
                           "MASTER_PORT=1234",
                           "TORCHELASTIC_RESTART_COUNT=2",
                           "TORCHELASTIC_MAX_RESTARTS=3",
                           "TORCHELASTIC_RUN_ID=j",
                           "TORCHELASTIC_USE_AGENT_STORE=False",
                           "TORCHELASTIC_ERROR_FILE=/e",
                           "OMP_NUM_THREADS=1",
                           "C10DD_URL=c10dd://h:5/j",
                           "C10DD_JOB=j",
                           "C10DD_RUN=r.g7-abc",
                           "C10DD_RANK=4",
                           "C10DD_WORLD_SIZE=5",
                           "C10DD_LOCAL_RANK=1",
                           "C10DD_LOCAL_WORLD_SIZE=2",
                           "C10DD_NODE_RANK=1",
                           "C10DD_GENERATION=7"}) {
    EXPECT_TRUE(all.contains(pair)) << pair;
  }
  const auto kept = worker_environment({{"OMP_NUM_THREADS", "8"}}, options, plan, 0, "/e");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "OMP_NUM_THREADS=8"), 1);
}

// ---- output ------------------------------------------------------------------------------------

TEST(LauncherLines, AreCutWhereverTheBytesAreCut) {
  const std::string text = "one\n\ntwo\r\nthree";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    std::vector<std::string> seen;
    Lines lines([&](std::string_view line) { seen.emplace_back(line); });
    for (std::size_t at = 0; at < text.size(); at += piece) lines.feed(text.substr(at, piece));
    lines.finish();
    lines.finish();
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "", "two\r", "three"})) << piece;
  }
}

TEST(LauncherLines, AreBounded) {
  std::vector<std::size_t> sizes;
  Lines lines([&](std::string_view line) { sizes.push_back(line.size()); });
  lines.feed(std::string(kLineBytes, 'x') + "\n" + std::string(2 * kLineBytes + 5, 'y') + "\n");
  EXPECT_EQ(sizes, (std::vector<std::size_t>{kLineBytes, kLineBytes, kLineBytes, 5}));
}

TEST(LauncherLastLines, AreTheNewestAndBounded) {
  LastLines last;
  for (int i = 0; i < 30; ++i) last.add("line " + std::to_string(i) + "\x01");
  EXPECT_EQ(last.lines().size(), kLastLines);
  EXPECT_EQ(last.lines().front(), "line 10?");
  last.add(std::string(5'000, 'x'));
  EXPECT_EQ(last.lines().back().size(), kLastLineBytes);
  EXPECT_EQ(last.text(600, "> ").find("> line 2"), 0u);
}

// ---- verdicts ----------------------------------------------------------------------------------

TEST(LauncherVerdict, ComesBackFromTheReasonOfTheGroup) {
  Casualty casualty{3, 123, Exit{0, 11}, {}};
  casualty.last.add("Traceback");
  casualty.last.add("");
  casualty.last.add("boom: 7");
  const Verdict made = make_verdict(casualty, "host-b");
  EXPECT_EQ(made.cause(),
            "exit code 139: rank 3 on host-b (pid 123) was killed by SIGSEGV; "
            "last lines: Traceback | boom: 7");
  const std::string reason = "rank 1 on host-b (pid 9) has failed: " + made.cause();
  for (const std::string& text : {reason, "generation 4 of 2: ranks kept; before: " + reason}) {
    const auto read = read_verdict(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->exit_code, 139);
    EXPECT_EQ(read->head, "rank 3 on host-b (pid 123) was killed by SIGSEGV");
    EXPECT_EQ(read->last, (std::vector<std::string>{"Traceback", "boom: 7"}));
  }
}

TEST(LauncherVerdict, IsBoundedAndKeepsTheNewestLines) {
  Casualty casualty{0, 1, Exit{3, 0}, {}};
  for (int i = 0; i < 20; ++i) casualty.last.add(std::to_string(i) + std::string(400, 'x'));
  const Verdict made = make_verdict(casualty, "h");
  EXPECT_LE(made.cause().size(), kCauseBytes);
  EXPECT_NE(made.cause().find("19xxx"), std::string::npos);
  EXPECT_EQ(read_verdict("r has failed: " + made.cause())->last.size(), 4u);
}

TEST(LauncherVerdict, IsNotReadFromOtherReasons) {
  for (const char* reason :
       {"", "rank 1 on h (pid 9) is lost: silent for 3 s", "rank 1 on h (pid 9) has failed: a bug",
        "rank 1 on h (pid 9) has failed: exit code 0: x",
        "rank 1 on h (pid 9) has failed: exit code 300: x",
        "rank 1 on h (pid 9) has failed: exit code 3"}) {
    EXPECT_FALSE(read_verdict(reason).has_value()) << reason;
  }
}

}  // namespace
}  // namespace c10dd::run
