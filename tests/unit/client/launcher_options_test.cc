// SPDX-License-Identifier: Apache-2.0
// The command line of c10drun: its own options, those of torchrun, and what all nodes must share.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/launcher/options.h"
#include "client/launcher/shared_flags.h"
#include "protocol/limits.h"
#include "tests/unit/client/launcher_line.h"

namespace c10dd::run {
namespace {

using namespace std::chrono_literals;

TEST(LauncherOptions, HaveDefaults) {
  const Options o = parse({"--", "true"});
  EXPECT_EQ(o.nproc, 1u);
  EXPECT_EQ(o.min_nodes, 1u);
  EXPECT_EQ(o.max_nodes, 1u);
  EXPECT_EQ(o.max_restarts, 0u);
  EXPECT_EQ(o.node_rank, -1);
  EXPECT_EQ(o.daemon.addresses(), "127.0.0.1:29500");
  EXPECT_TRUE(o.daemon.job.starts_with("c10drun-")) << o.daemon.job;
  EXPECT_EQ(o.grace, 15s);
  EXPECT_EQ(o.last_call, 30s);
  EXPECT_EQ(o.join_timeout, 10min);
  EXPECT_TRUE(o.prefix);
  EXPECT_EQ(o.command, std::vector<std::string>{"true"});
}

Options parse_labels(const std::vector<std::string>& labels) {
  std::vector<const char*> words;
  for (const std::string& label : labels) words.insert(words.end(), {"--labels", label.c_str()});
  words.push_back("true");
  return parse(words);
}

TEST(LauncherOptions, TakeAsManyAndAsLongLabelsAsTheDaemon) {
  const std::string longest(limits::kNameBytes, 'x');
  std::vector<std::string> labels = {longest + "=" + longest};
  while (labels.size() + 2 < limits::kLabels) {  // c10drun adds 2 labels
    labels.push_back("label" + std::to_string(labels.size()) + "=x");
  }
  EXPECT_EQ(parse_labels(labels).labels.size(), labels.size());
  labels.emplace_back("one=more");
  EXPECT_THROW(parse_labels(labels), Fatal);
  EXPECT_THROW(parse_labels({"a=" + longest + "x"}), Fatal);
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
  EXPECT_EQ(o.daemon.addresses(), "h:5");
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

/// Every flag of torchrun (of 1.13, 2.6 and 2.15, and of torch.distributed.launch) with a value
/// that its documentation shows.
constexpr std::pair<const char*, const char*> kTorchrun[] = {
    {"--nnodes", "1:1"},
    {"--nproc-per-node", "2"},
    {"--rdzv-backend", "etcd-v2"},
    {"--rdzv-endpoint", "node1:29400"},
    {"--rdzv-id", "job"},
    {"--rdzv-conf", "timeout=900,join_timeout=600"},
    {"--standalone", nullptr},
    {"--max-restarts", "3"},
    {"--monitor-interval", "0.1"},
    {"--start-method", "forkserver"},
    {"--event-log-handler", "console"},
    {"--role", "trainer"},
    {"-m", nullptr},
    {"--module", nullptr},
    {"--no-python", nullptr},
    {"--run-path", nullptr},
    {"--log-dir", "/tmp/logs"},
    {"-r", "3"},
    {"--redirects", "0:1,1:2"},
    {"-t", "3"},
    {"--tee", "3"},
    {"--log-line-prefix-template", "${rank}: "},
    {"--local-ranks-filter", "0"},
    {"--duplicate-stdout-filters", "apple,orange"},
    {"--duplicate-stderr-filters", "apple"},
    {"--node-rank", "0"},
    {"--master-addr", "127.0.0.1"},
    {"--master-port", "29500"},
    {"--local-addr", "10.0.0.1"},
    {"--logs-specs", "mine"},
    {"--numa-binding", "node"},
    {"--signals-to-handle", "SIGTERM,SIGUSR1"},
    {"--shutdown-timeout", "30"},
    {"--virtual-local-rank", nullptr},
    {"--print-completion", "bash"},
    {"--use-env", nullptr},
};

TEST(LauncherOptions, EveryFlagOfTorchrunIsTakenOrAnsweredWithWhatToDo) {
  for (const auto& [flag, value] : kTorchrun) {
    std::string underscored = flag;
    std::replace(underscored.begin() + 2, underscored.end(), '-', '_');
    for (const std::string& name : {std::string(flag), underscored}) {
      std::vector<const char*> arguments = {name.c_str()};
      if (value != nullptr) arguments.push_back(value);
      arguments.push_back("true");
      const std::string text = refusal(arguments);
      if (text.empty()) continue;
      const std::string reply = std::string(flag) + (value == nullptr ? "" : " ") +
                                (value == nullptr ? "" : value) + " is an option of torchrun: ";
      ASSERT_TRUE(text.starts_with(reply)) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      EXPECT_GT(text.size(), reply.size() + 20) << text;
    }
  }
}

TEST(LauncherOptions, FlagsOfTorchrunMeanWhatTheyMeanThere) {
  const Options o = parse({"--rdzv_backend=c10d", "--rdzv_endpoint=head:29401", "--rdzv_id=j",
                           "--shutdown-timeout=7", "--role", "trainer", "--nproc_per_node", "4",
                           "--local_ranks_filter=0,2", "--tee", "3", "-r0", "--monitor-interval=5",
                           "train.py", "--tee", "x"});
  EXPECT_EQ(o.daemon.addresses(), "head:29401");
  EXPECT_EQ(o.daemon.job, "j");
  EXPECT_EQ(o.grace, 7s);
  EXPECT_EQ(o.role, "trainer");
  EXPECT_EQ(o.console_ranks, (std::set<std::uint32_t>{0, 2}));
  EXPECT_EQ(o.command, (std::vector<std::string>{"python3", "-u", "train.py", "--tee", "x"}));
}

TEST(LauncherOptions, ScriptsAndModulesAreRunByPython) {
  using Command = std::vector<std::string>;
  EXPECT_EQ(parse({"train.py", "--lr", "1"}).command,
            (Command{"python3", "-u", "train.py", "--lr", "1"}));
  EXPECT_EQ(parse({"--", "a/train.py"}).script, "a/train.py");
  EXPECT_EQ(parse({"-m", "pkg.train", "-m"}).command,
            (Command{"python3", "-u", "-m", "pkg.train", "-m"}));
  EXPECT_EQ(parse({"-m", "--nproc", "2", "pkg.train"}).nproc, 2u);
  EXPECT_EQ(parse({"--no-python", "train.py"}).command, Command{"train.py"});
  EXPECT_EQ(parse({"--no-python", "train.py"}).script, "");
  EXPECT_EQ(parse({"python3", "train.py"}).command, (Command{"python3", "train.py"}));
  EXPECT_EQ(parse({"train.py"}, {{"PYTHON_EXEC", "/opt/python"}}).command,
            (Command{"/opt/python", "-u", "train.py"}));
  EXPECT_NE(refusal({"-m", "--no-python", "pkg"}).find("leave one of them out"), std::string::npos);
}

TEST(LauncherOptions, HelpNamesEveryOptionOnceWithItsDefault) {
  const char* const arguments[] = {"c10drun", "--help"};
  const std::string help = parse_options(2, arguments, [](const char*) { return nullptr; }).reply;
  for (const char* line :
       {"Usage: c10drun [OPTIONS] [--] PROGRAM [ARGUMENTS]\n",
        "  --nproc, --nproc-per-node N number of workers on this node, 1 to 1024\n", "default 1\n",
        "  -m, --module                PROGRAM is a module", "default 15s\n",
        "  --no-prefix                 print the output of the workers without [RANK]\n"}) {
    EXPECT_NE(help.find(line), std::string::npos) << help;
  }
  for (const char* raw : {"TEXT", "Excludes", "{false}"}) {
    EXPECT_EQ(help.find(raw), std::string::npos) << raw;
  }
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(LauncherOptions, GivenTwiceTheLastCounts) {
  EXPECT_EQ(parse({"--nproc", "2", "--nproc", "3", "true"}).nproc, 3u);
}

TEST(LauncherOptions, FindDaemonJobAndRun) {
  const Variables url = {{"C10DD_URL", "c10dd://h:1/a"}};
  EXPECT_EQ(parse({"true"}, url).daemon.addresses(), "h:1");
  EXPECT_EQ(parse({"true"}, url).daemon.job, "a");
  EXPECT_EQ(parse({"--job", "b", "true"}, url).daemon.job, "b");
  EXPECT_EQ(parse({"--daemon", "g:2", "--job", "b", "true"}, url).daemon.addresses(), "g:2");
  EXPECT_EQ(parse({"--daemon", "c10dd://g:2/c", "true"}, url).daemon.job, "c");
  EXPECT_EQ(parse({"true"}, {{"C10DD_ADDR", "h:3"}, {"C10DD_JOB", "d"}}).daemon.job, "d");
  EXPECT_EQ(parse({"--daemon", "[::1]:7", "--job", "j", "true"}).daemon.addresses(), "[::1]:7");
  EXPECT_EQ(parse({"--daemon", "a:1,b:2", "--job", "j", "true"}).daemon.text(),
            "c10dd://a:1,b:2/j");
  EXPECT_EQ(parse({"--daemon", "c10dd://a,[::1]:7/j", "true"}).daemon.addresses(),
            "a:29500,[::1]:7");
  EXPECT_EQ(parse({"--job", "b", "true"}, {{"C10DD_URL", "c10dd://a:1,b:2/j"}}).daemon.text(),
            "c10dd://a:1,b:2/b");
  EXPECT_EQ(parse({"true"}, {{"C10DD_ADDR", "a:1,b:2"}, {"C10DD_JOB", "d"}}).daemon.text(),
            "c10dd://a:1,b:2/d");
  EXPECT_EQ(parse({"--rdzv-endpoint=a:1,b:2", "--rdzv-id=j", "true"}).daemon.text(),
            "c10dd://a:1,b:2/j");
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
        BadOptions{"Devices", {"--nproc", "gpu", "true"}, {"does not detect devices"}},
        BadOptions{"Word", {"--nproc", "many", "true"}, {"--nproc is \"many\""}},
        BadOptions{"NoNodes", {"--nnodes", "0", "true"}, {"--nnodes is \"0\"", "1 to 131072"}},
        BadOptions{
            "MinMoreThanMax", {"--nnodes", "4:2", "true"}, {"4, is more than the maximum, 2"}},
        BadOptions{"HalfARange", {"--nnodes", "2:", "true"}, {"--nnodes is \"\""}},
        BadOptions{"Restarts", {"--max-restarts", "-1", "true"}, {"--max-restarts is \"-1\""}},
        BadOptions{"NodeRank",
                   {"--nnodes", "2", "--node-rank", "2", "--job", "j", "true"},
                   {"--node-rank is 2, but --nnodes is 2", "from 0 to 1"}},
        BadOptions{"AnotherScheme",
                   {"--daemon", "http://127.0.0.1:1", "true"},
                   {"--daemon is \"http://127.0.0.1:1\"", "write HOST:PORT"}},
        BadOptions{"EmptyAddress",
                   {"--daemon", "a:1,,b:2", "--job", "j", "true"},
                   {"--daemon: invalid URL", "an address is empty"}},
        BadOptions{"SameAddress",
                   {"--daemon", "a:1,a:1", "--job", "j", "true"},
                   {"--daemon: invalid URL", "it names the address a:1 twice"}},
        BadOptions{"NodeRankOfARange",
                   {"--nnodes", "1:2", "--node-rank", "0", "--job", "j", "true"},
                   {"fixed number of nodes", "1:2"}},
        BadOptions{"NoJob", {"--nnodes", "2", "true"}, {"the job has no name", "--job NAME"}},
        BadOptions{"JobWithASlash", {"--job", "a/b", "true"}, {"job's name", "slash"}},
        BadOptions{"TwoJobs",
                   {"--job", "a", "--daemon", "c10dd://h:1/b", "true"},
                   {"--job is \"a\"", "\"b\""}},
        BadOptions{"Port", {"--daemon", "h:0", "true"}, {"--daemon: invalid URL", "port \"0\""}},
        BadOptions{"Duration", {"--grace", "soon", "true"}, {"--grace is \"soon\"", "500ms"}},
        BadOptions{"NegativeDuration", {"--last-call", "-1s", "true"}, {"--last-call is \"-1s\""}},
        BadOptions{"EndlessDuration", {"--join-timeout", "1e9h", "true"}, {"at most"}},
        BadOptions{"Label", {"--labels", "rack", "true"}, {"--labels is \"rack\"", "NAME=VALUE"}},
        BadOptions{"OurLabel", {"--labels", "nproc=2", "true"}, {"sets the label nproc itself"}},
        BadOptions{"LoneAndMany",
                   {"--standalone", "--nnodes", "2", "true"},
                   {"--standalone is for one node"}},
        BadOptions{"LoneAndDaemon", {"--standalone", "--daemon", "h:1", "true"}, {"--daemon"}},
        BadOptions{"LocalRank",
                   {"--nproc", "2", "--local-ranks-filter", "0,2", "true"},
                   {"--local-ranks-filter is \"2\"", "0 to 1"}},
        BadOptions{"NoValue", {"--nproc"}, {"--nproc needs a value: --nproc N"}},
        BadOptions{"ValueOfASwitch", {"--standalone=1", "true"}, {"--standalone takes no value"}},
        BadOptions{"Unknown", {"--gpus", "3", "true"}, {"--gpus", "c10drun --help"}},
        BadOptions{"Misspelt",
                   {"--max-restart", "3", "true"},
                   {"\"--max-restart\"; did you mean \"--max-restarts\"?"}}),
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

// ---- flags that all nodes give -----------------------------------------------------------------

TEST(LauncherSharedFlags, DifferenceNamesFlagAndNode) {
  const SharedFlags here = shared_flags(parse({"--nnodes", "3", "--job", "j", "true"}));
  const auto there = [](const char* nnodes, const char* last_call) {
    return decode_flags(encode(
        shared_flags(parse({"--nnodes", nnodes, "--last-call", last_call, "--job", "j", "true"}))));
  };
  EXPECT_EQ(difference(here, there("3", "30s"), "vm (pid 9)"), "");
  EXPECT_EQ(difference(here, there("2", "30s"), "vm (pid 9)"),
            "--nnodes is 3 here and 2 on vm (pid 9)");
  EXPECT_EQ(difference(here, there("2:4", "1m"), "vm (pid 9)"),
            "--last-call is 30 s here and 60 s on vm (pid 9), and --nnodes is 3 here and 2:4 on vm "
            "(pid 9)");
  EXPECT_EQ(difference(here, {}, "vm (pid 9)"), "") << "of a version that does not say";
}

}  // namespace
}  // namespace c10dd::run
