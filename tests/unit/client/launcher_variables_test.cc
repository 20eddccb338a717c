// SPDX-License-Identifier: Apache-2.0
// The options that c10drun takes from variables of torchrun and Kubeflow, and the names it gives.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "client/launcher/flaps.h"
#include "client/launcher/options.h"
#include "tests/unit/client/launcher_line.h"

namespace c10dd::run {
namespace {

const Variables kKubeflow = {{"PET_NNODES", "2"},          {"PET_NPROC_PER_NODE", "3"},
                             {"PET_NODE_RANK", "1"},       {"PET_MASTER_ADDR", "job-0-0.job"},
                             {"PET_MASTER_PORT", "29400"}, {"C10DD_ADDR", "head:29500"}};

Variables with(Variables some, const Variables& more) {
  for (const auto& [name, value] : more) some[name] = value;
  return some;
}

std::string why_refused(const Variables& variables, std::vector<const char*> arguments = {}) {
  arguments.push_back("true");
  return refusal(arguments, variables);
}

TEST(LauncherVariables, OfTorchrunAreItsOptions) {
  const Options o = parse({"true"}, kKubeflow);
  EXPECT_EQ(o.min_nodes, 2u);
  EXPECT_EQ(o.nproc, 3u);
  EXPECT_EQ(o.node_rank, 1);
  EXPECT_EQ(o.daemon.text(), "c10dd://head:29500/pet-job-0-0.job-29400");
  EXPECT_EQ(o.from_variables.size(), 3u) << "what it took is printed";
}

TEST(LauncherVariables, OfTheCommandLineAndOfC10ddGoFirst) {
  const Variables all = with(
      kKubeflow,
      {{"PET_RDZV_ENDPOINT", "other:1"}, {"PET_RDZV_ID", "theirs"}, {"PET_MAX_RESTARTS", "7"}});
  EXPECT_EQ(parse({"true"}, all).daemon.text(), "c10dd://head:29500/theirs");
  EXPECT_EQ(parse({"true"}, all).max_restarts, 7u);
  EXPECT_EQ(parse({"--nproc", "5", "true"}, all).nproc, 5u);
  const std::vector<std::string> taken = parse({"--nproc", "5", "true"}, all).from_variables;
  EXPECT_EQ(taken.size(), 4u);
  for (const std::string& one : taken) {
    EXPECT_FALSE(one.starts_with("PET_RDZV_ENDPOINT")) << "C10DD_ADDR went first";
  }
  EXPECT_EQ(parse({"true"}, with(all, {{"C10DD_JOB", "ours"}})).daemon.job, "ours");
  EXPECT_EQ(parse({"true"}, with(all, {{"C10DD_URL", "c10dd://h:1/ours"}})).daemon.job, "ours");
  Variables without = all;
  without.erase("C10DD_ADDR");
  EXPECT_EQ(parse({"true"}, without).daemon.addresses(), "other:1");
}

TEST(LauncherVariables, SwitchesAreZeroOrOne) {
  EXPECT_TRUE(parse({"true"}, {{"PET_STANDALONE", "1"}}).standalone);
  EXPECT_FALSE(parse({"true"}, {{"PET_STANDALONE", "0"}}).standalone);
  EXPECT_EQ(why_refused({{"PET_STANDALONE", "yes"}}),
            "PET_STANDALONE is \"yes\": expected 1, or 0 to leave the option out");
}

TEST(LauncherVariables, ThatAreWrongAreNamedWithTheirValue) {
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_MAX_RESTARTS"}) {
    const std::string text = why_refused(with(kKubeflow, {{name, "many"}}));
    EXPECT_NE(text.find(std::string(name) + "=many"), std::string::npos) << text;
  }
  EXPECT_NE(
      why_refused({{"PET_RDZV_CONF", "a=1"}}).find("PET_RDZV_CONF a=1 is an option of torchrun"),
      std::string::npos);
  EXPECT_EQ(why_refused({{"PET_RDZV_BACKEND", "c10d"}, {"PET_TEE", "3"}}), "");
}

TEST(LauncherVariables, OfTorchrunsStoreAreNoDaemon) {
  Variables some = kKubeflow;
  some.erase("C10DD_ADDR");
  EXPECT_NE(why_refused(some).find("set C10DD_ADDR=HOST:PORT"), std::string::npos)
      << why_refused(some);
}

TEST(LauncherNames, OfOneNodeAreUniqueUnlessTheyAreChosen) {
  const Variables slurm = {{"SLURM_JOB_ID", "5"}};
  const std::string first = parse({"true"}, slurm).daemon.job;
  EXPECT_TRUE(first.starts_with("slurm-5-")) << first;
  EXPECT_NE(parse({"true"}, slurm).daemon.job, first);
  EXPECT_NE(parse({"true"}).daemon.job, parse({"true"}).daemon.job);
  EXPECT_EQ(parse({"true"}, {{"C10DD_JOB", "mine"}}).daemon.job, "mine");
  EXPECT_EQ(parse({"--nnodes", "2", "true"}, slurm).daemon.job, "slurm-5");
}

TEST(LauncherFlaps, HoldAHostOffLongerEachTimeUpToFiveMinutes) {
  EXPECT_EQ(flap_delay(0), Duration::zero());
  EXPECT_EQ(flap_delay(1), std::chrono::seconds(10));
  EXPECT_EQ(flap_delay(2), std::chrono::seconds(20));
  EXPECT_EQ(flap_delay(5), std::chrono::seconds(160));
  EXPECT_EQ(flap_delay(6), std::chrono::minutes(5));
  EXPECT_EQ(flap_delay(~0u), std::chrono::minutes(5));
  EXPECT_EQ(why_refused({}, {"--max-flaps", "-1"}),
            "--max-flaps is \"-1\": expected an integer from 0 to 1000000");
}

TEST(LauncherOptions, StandardInputIsOfARankOfThisNode) {
  EXPECT_EQ(parse({"--nproc", "4", "--stdin", "3", "true"}).stdin_rank, 3);
  EXPECT_EQ(why_refused({}, {"--nproc", "4", "--stdin", "9"}),
            "--stdin is \"9\": expected an integer from 0 to 3");
}

}  // namespace
}  // namespace c10dd::run
