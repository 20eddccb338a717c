// SPDX-License-Identifier: Apache-2.0
// The pure parts of c10drun: programs, the environment of workers, lines, reports.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/launcher/failure_report.h"
#include "client/launcher/options.h"
#include "client/launcher/output.h"
#include "client/launcher/plan.h"
#include "client/launcher/program.h"
#include "tests/unit/client/launcher_line.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::run {
namespace {

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

std::string text_of_program(const std::string& path) {
  try {
    find_program(path, "");
    return {};
  } catch (const Fatal& fatal) {
    return fatal.what();
  }
}

TEST(LauncherProgram, RefusalSaysWhatToDo) {
  TemporaryDirectory directory;
  const std::string script = directory.path() + "/train.py";
  EXPECT_EQ(text_of_program(script), "cannot execute " + script + ": no such file or directory");
  std::ofstream(script) << "print(1)\n";
  EXPECT_EQ(text_of_program(script),
            "cannot execute " + script +
                ": permission denied; leave out --no-python to run it with python3");
  EXPECT_EQ(text_of_program("/etc/passwd"),
            "cannot execute /etc/passwd: permission denied; make it executable with chmod +x");
  EXPECT_EQ(text_of_program("/etc"), "cannot execute /etc: is a directory");
}

TEST(LauncherProgram, ScriptIsMissedBeforeAnythingIsStarted) {
  const auto code_of_script = [](const std::string& path) {
    try {
      check_script(path);
      return 0;
    } catch (const Fatal& fatal) {
      return fatal.code();
    }
  };
  EXPECT_EQ(code_of_script("/etc/passwd"), 0);
  EXPECT_EQ(code_of_script("/nowhere/train.py"), 127);
  EXPECT_EQ(code_of_script("/etc"), 126);
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
  plan.threads = 4;
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
                           "TORCHELASTIC_MAX_RESTARTS=0",
                           "TORCHELASTIC_RUN_ID=j",
                           "TORCHELASTIC_USE_AGENT_STORE=False",
                           "TORCHELASTIC_ERROR_FILE=/e",
                           "OMP_NUM_THREADS=4",
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
  options.daemon.daemons.push_back({"i", 6});
  const auto several = worker_environment({}, options, plan, 0, "/e");
  EXPECT_EQ(std::count(several.begin(), several.end(), "C10DD_URL=c10dd://h:5,i:6/j"), 1)
      << "a worker knows all daemons that the launcher knows";
  const auto kept = worker_environment({{"OMP_NUM_THREADS", "8"}}, options, plan, 0, "/e");
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "OMP_NUM_THREADS=8"), 1);
  plan.threads = 0;
  for (const std::string& pair : worker_environment({}, options, plan, 0, "/e")) {
    EXPECT_FALSE(pair.starts_with("OMP_NUM_THREADS")) << "a worker alone uses all cores";
  }
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

TEST(LauncherNotes, CannotBeForgedByANameInThem) {
  EXPECT_EQ(note_text("a\n    b\n  c"), "a\n    b\n  c");
  EXPECT_EQ(note_text("job x\nc10drun: all is well\x1b[2K"), "job x?c10drun: all is well?[2K");
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

// ---- reports ----------------------------------------------------------------------------------

TEST(LauncherVerdict, ComesBackFromTheReasonOfTheGroup) {
  FailedWorker failed{3, 123, Exit{0, 11}, {}};
  failed.last.add("Traceback");
  failed.last.add("");
  failed.last.add("boom: 7");
  const FailureReport made = make_failure_report(failed, "host-b");
  EXPECT_EQ(made.cause(),
            "exit code 139: rank 3 on host-b (pid 123) was killed by SIGSEGV; "
            "last lines: Traceback | boom: 7");
  const std::string reason = "rank 1 on host-b (pid 9) has failed: " + made.cause();
  for (const std::string& text : {reason, "generation 4 of 2: ranks kept; before: " + reason}) {
    const auto read = read_failure_report(text);
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->exit_code, 139);
    EXPECT_EQ(read->head, "rank 3 on host-b (pid 123) was killed by SIGSEGV");
    EXPECT_EQ(read->text(), "node 1 (host-b, agent pid 9) reports: " + read->head);
    EXPECT_EQ(read->last, (std::vector<std::string>{"Traceback", "boom: 7"}));
  }
}

TEST(LauncherVerdict, IsBoundedAndKeepsTheNewestLines) {
  FailedWorker failed{0, 1, Exit{3, 0}, {}};
  for (int i = 0; i < 20; ++i) failed.last.add(std::to_string(i) + std::string(400, 'x'));
  const FailureReport made = make_failure_report(failed, "h");
  EXPECT_LE(made.cause().size(), kCauseBytes);
  EXPECT_NE(made.cause().find("19xxx"), std::string::npos);
  EXPECT_EQ(read_failure_report("r has failed: " + made.cause())->last.size(), 4u);
}

TEST(LauncherVerdict, MembersOfTheGroupAreCalledNodes) {
  EXPECT_EQ(of_nodes("rank 1 on h (pid 9) is lost: silent for 3 s"),
            "node 1 (h, agent pid 9) is lost: silent for 3 s");
  EXPECT_EQ(of_nodes("generation 4 of 2: ranks kept; before: rank 0 on a-b.c (pid 12) has left: "
                     "drained; rank 10 on x (pid 1)"),
            "generation 4 of 2: ranks kept; before: node 0 (a-b.c, agent pid 12) has left: "
            "drained; node 10 (x, agent pid 1)");
  EXPECT_EQ(of_nodes("rank 1 on h (pid 9) has failed: exit code 3: rank 7 on h (pid 8) exited"),
            "node 1 (h, agent pid 9) has failed: exit code 3: rank 7 on h (pid 8) exited");
  for (const char* other : {"", "rank", "rank x on h (pid 9)", "rank 1 in h (pid 9)",
                            "rank 1 on h (pid x)", "rank 1 on h (pid 9"}) {
    EXPECT_EQ(of_nodes(other), other);
  }
}

TEST(LauncherVerdict, IsNotReadFromOtherReasons) {
  for (const char* reason :
       {"", "rank 1 on h (pid 9) is lost: silent for 3 s", "rank 1 on h (pid 9) has failed: a bug",
        "rank 1 on h (pid 9) has failed: exit code 0: x",
        "rank 1 on h (pid 9) has failed: exit code 300: x",
        "rank 1 on h (pid 9) has failed: exit code 3"}) {
    EXPECT_FALSE(read_failure_report(reason).has_value()) << reason;
  }
}

}  // namespace
}  // namespace c10dd::run
