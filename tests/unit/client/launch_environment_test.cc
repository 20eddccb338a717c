// SPDX-License-Identifier: Apache-2.0
// Which variables each launcher sets, which launcher has precedence, and errors name the variable.
#include "client/internal/launch_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/internal/url.h"

namespace c10dd::client {
namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

struct Found {
  const char* name;
  Variables variables;
  LaunchEnvironment expected;  ///< without `used`
};

class LaunchEnvironmentOf : public testing::TestWithParam<Found> {};

TEST_P(LaunchEnvironmentOf, GivesThePlaceJobAndRun) {
  const Found& p = GetParam();
  const auto found = read_launch_environment(environment_of(p.variables));
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  EXPECT_EQ(found->source, p.expected.source);
  EXPECT_EQ(found->rank, p.expected.rank);
  EXPECT_EQ(found->world_size, p.expected.world_size);
  EXPECT_EQ(found->local_rank, p.expected.local_rank);
  EXPECT_EQ(found->local_world_size, p.expected.local_world_size);
  EXPECT_EQ(found->node_rank, p.expected.node_rank);
  EXPECT_EQ(found->job, p.expected.job);
  EXPECT_EQ(found->run, p.expected.run);
  EXPECT_EQ(found->overruled, p.expected.overruled);
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"GROUP_RANK", "1"},
                             {"TORCHELASTIC_RUN_ID", "llm"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},      {"SLURM_NTASKS", "4"},
                          {"SLURM_LOCALID", "1"},     {"SLURM_NODEID", "1"},
                          {"SLURM_JOB_ID", "7001"},   {"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_NAME", "train"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kHydra = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
const Variables kKubernetes = {{"JOB_COMPLETION_INDEX", "1"},
                               {"WORLD_SIZE", "2"},
                               {"JOB_NAME", "llm"},
                               {"POD_NAMESPACE", "ml"},
                               {"JOB_UID", "77"}};

/// later ones replace earlier ones.
Variables all(std::vector<Variables> parts) {
  Variables sum;
  for (const Variables& part : parts) {
    for (const auto& [name, value] : part) sum[name] = value;
  }
  return sum;
}

INSTANTIATE_TEST_SUITE_P(
    Launchers, LaunchEnvironmentOf,
    testing::Values(
        Found{"Nothing", {}, {}},
        Found{"EmptyIsNotSet", {{"RANK", ""}, {"WORLD_SIZE", ""}, {"PMI_RANK", ""}}, {}},
        Found{"ByHand",
              {{"C10DD_RANK", "0"},
               {"C10DD_WORLD_SIZE", "131072"},
               {"C10DD_LOCAL_RANK", "7"},
               {"C10DD_LOCAL_WORLD_SIZE", "8"},
               {"C10DD_NODE_RANK", "9"},
               {"C10DD_JOB", "j"},
               {"C10DD_RUN", "r"}},
              {"c10dd", 0, 131072, 7, 8, 9, "j", "r", {}, {}}},
        Found{"Torchrun", kTorchrun, {"torchrun", 5, 8, 1, 4, 1, "llm", "restart-2", {}, {}}},
        Found{"TorchrunWithoutAnId",
              all({kTorchrun, {{"TORCHELASTIC_RUN_ID", "none"}}}),
              {"torchrun", 5, 8, 1, 4, 1, "", "restart-2", {}, {}}},
        Found{"Slurm", kSlurm, {"slurm", 3, 4, 1, -1, 1, "slurm-7001", "step-0", {}, {}}},
        Found{"SlurmRequeued",
              all({kSlurm, {{"SLURM_RESTART_COUNT", "1"}}}),
              {"slurm", 3, 4, 1, -1, 1, "slurm-7001", "requeue-1.step-0", {}, {}}},
        Found{"SbatchWithoutSrun",
              all({kSlurm, {{"SLURM_STEP_ID", ""}}}),
              {"", -1, -1, -1, -1, -1, "slurm-7001", "", {}, {}}},
        Found{"SlurmBatchStep",
              all({kSlurm, {{"SLURM_STEP_ID", "4294967291"}}}),
              {"", -1, -1, -1, -1, -1, "slurm-7001", "", {}, {}}},
        Found{"SlurmInteractiveStep",
              all({kSlurm, {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_JOB_NAME", "interactive"}}}),
              {"", -1, -1, -1, -1, -1, "slurm-7001", "", {}, {}}},
        Found{"SrunInsideSalloc",
              all({kSlurm, {{"SLURM_JOB_NAME", "interactive"}}}),
              {"slurm", 3, 4, 1, -1, 1, "slurm-7001", "step-0", {}, {}}},
        Found{"SbatchOfOneTask",
              {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}},
              {"slurm", 0, 1, -1, -1, -1, "", "", {}, {}}},
        Found{"SlurmWithoutTasks", {{"SLURM_PROCID", "0"}}, {}},
        Found{"OpenMpi", kOpenMpi, {"openmpi", 2, 4, 0, 2, -1, "", "", {}, {}}},
        Found{"Hydra", kHydra, {"pmi", 1, 2, 1, 2, -1, "", "", {}, {}}},
        Found{"MpirunInASlurmJob",
              all({kSlurm, kOpenMpi, {{"SLURM_PROCID", "0"}}}),
              {"openmpi", 2, 4, 0, 2, -1, "slurm-7001", "", {}, {"SLURM_PROCID=0"}}},
        Found{"SrunWithPmi2",
              all({kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}}),
              {"slurm", 3, 4, 1, -1, 1, "slurm-7001", "step-0", {}, {}}},
        Found{"PmixWithASize",
              {{"PMIX_RANK", "1"}, {"C10DD_WORLD_SIZE", "2"}, {"WORLD_SIZE", "3"}},
              {"pmix", 1, 2, -1, -1, -1, "", "", {}, {"WORLD_SIZE=3"}}},
        Found{"PmixWithoutASize", {{"PMIX_RANK", "1"}}, {}},
        Found{"Kubernetes",
              kKubernetes,
              {"kubernetes", 1, 2, -1, -1, -1, "k8s-ml-llm", "uid-77", {}, {}}},
        Found{"KubernetesWithoutASize", {{"JOB_COMPLETION_INDEX", "1"}}, {}},
        Found{"ASizeAlone", {{"WORLD_SIZE", "2"}}, {"", -1, 2, -1, -1, -1, "", "", {}, {}}},
        Found{"TorchrunInASlurmJob",
              all({kSlurm, kTorchrun, {{"SLURM_RESTART_COUNT", "3"}}}),
              {"torchrun",
               5,
               8,
               1,
               4,
               1,
               "llm",
               "requeue-3.restart-2",
               {},
               {"SLURM_PROCID=3", "SLURM_NTASKS=4"}}},
        Found{"ByHandBeforeAll",
              all({kSlurm, kTorchrun, {{"C10DD_RANK", "5"}, {"C10DD_WORLD_SIZE", "8"}}}),
              {"c10dd", 5, 8, -1, -1, -1, "llm", "", {}, {"SLURM_PROCID=3", "SLURM_NTASKS=4"}}},
        Found{"WhatIsOverruledMayBeWrong",
              all({kTorchrun, {{"SLURM_PROCID", "x"}, {"SLURM_NTASKS", "0"}}}),
              {"torchrun",
               5,
               8,
               1,
               4,
               1,
               "llm",
               "restart-2",
               {},
               {"SLURM_PROCID=x", "SLURM_NTASKS=0"}}}),
    [](const auto& found) { return found.param.name; });

TEST(LaunchEnvironmentHint, SaysWhyALauncherGivesNoRank) {
  const auto hint = [](const Variables& variables) {
    return read_launch_environment(environment_of(variables))->summary();
  };
  EXPECT_EQ(hint({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}),
            "no launcher gives a rank; SLURM_PROCID=0 and SLURM_NTASKS=4 are set, but srun did not "
            "start this process (see SLURM_STEP_ID): start it with srun");
  EXPECT_EQ(hint({{"JOB_COMPLETION_INDEX", "2"}}),
            "no launcher gives a rank; JOB_COMPLETION_INDEX=2 is set, but WORLD_SIZE is not: set "
            "WORLD_SIZE or C10DD_WORLD_SIZE to the number of ranks");
  EXPECT_EQ(hint(kTorchrun).find("; "), std::string::npos);
}

struct Bad {
  const char* name;
  Variables variables;
  std::vector<const char*> says;
};

class LaunchEnvironmentError : public testing::TestWithParam<Bad> {};

TEST_P(LaunchEnvironmentError, NamesVariableValueLimitAndWhatToDo) {
  const auto found = read_launch_environment(environment_of(GetParam().variables));
  ASSERT_FALSE(found.has_value()) << found->summary();
  EXPECT_EQ(found.error().code, Code::invalid_argument);
  for (const char* says : GetParam().says) {
    EXPECT_NE(found.error().detail.find(says), std::string::npos) << found.error().detail;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Environments, LaunchEnvironmentError,
    testing::Values(
        Bad{"NotANumber",
            {{"RANK", "first"}, {"WORLD_SIZE", "2"}},
            {"RANK is \"first\"", "from 0 to 131071", "set C10DD_RANK and C10DD_WORLD_SIZE"}},
        Bad{"AlsoWithoutASize", {{"RANK", "first"}}, {"RANK is \"first\""}},
        Bad{"Negative",
            {{"C10DD_RANK", "-1"}, {"C10DD_WORLD_SIZE", "2"}},
            {"C10DD_RANK is \"-1\"", "from 0 to 131071", "unset C10DD_RANK"}},
        Bad{"TrailingText", {{"PMI_RANK", "1x"}, {"PMI_SIZE", "2"}}, {"PMI_RANK is \"1x\""}},
        Bad{"HugeNumber",
            {{"RANK", "99999999999999999999"}, {"WORLD_SIZE", "2"}},
            {"RANK is \"99999999999999999999\"", "from 0 to 131071"}},
        Bad{"RankBeyondTheWorld",
            {{"RANK", "4"}, {"WORLD_SIZE", "4"}},
            {"RANK is 4, but WORLD_SIZE is 4", "0 to the world size - 1"}},
        Bad{"EmptyWorld",
            {{"RANK", "0"}, {"WORLD_SIZE", "0"}},
            {"WORLD_SIZE is \"0\"", "from 1 to 131072"}},
        Bad{"EmptyWorldAlone", {{"WORLD_SIZE", "0"}}, {"WORLD_SIZE is \"0\""}},
        Bad{"WorldTooLarge",
            {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "131073"}, {"SLURM_STEP_ID", "0"}},
            {"SLURM_NTASKS is \"131073\"", "from 1 to 131072", "where slurm was started"}},
        Bad{"RankWithoutASize",
            {{"RANK", "3"}},
            {"RANK is 3, but WORLD_SIZE is not set", "at most 131072", "unset RANK"}},
        Bad{"HalfByHandIsNotMixedWithALauncher",
            all({kTorchrun, {{"C10DD_RANK", "3"}}}),
            {"C10DD_RANK is 3, but C10DD_WORLD_SIZE is not set"}},
        Bad{"LocalRankBeyondTheNode",
            all({kTorchrun, {{"LOCAL_RANK", "4"}}}),
            {"LOCAL_RANK is 4, but LOCAL_WORLD_SIZE is 4"}},
        Bad{"NodeLargerThanTheWorld",
            all({kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}}),
            {"LOCAL_WORLD_SIZE is 9, but WORLD_SIZE is 8"}},
        Bad{"PmixBeyondItsSize",
            {{"PMIX_RANK", "2"}, {"WORLD_SIZE", "2"}},
            {"PMIX_RANK is 2, but WORLD_SIZE is 2"}},
        Bad{"LongJob",
            {{"C10DD_JOB", std::string(256, 'j')}},
            {"C10DD_JOB has 256 bytes, limit 255"}}),
    [](const auto& bad) { return bad.param.name; });

TEST(LaunchEnvironmentSummary, SaysWhoWonAndOverWhom) {
  const Variables variables = {
      {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}};
  const auto found = read_launch_environment(environment_of(variables));
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  EXPECT_EQ(found->summary(),
            "rank 0 of 4 from torchrun (RANK=0, WORLD_SIZE=4); overruled: SLURM_PROCID=3");
  EXPECT_EQ(LaunchEnvironment{}.summary(), "no launcher gives a rank");
}

TEST(LaunchEnvironmentOfClient, GivesJobAndRunOnlyWhenNobodyNamesTheJob) {
  const auto launch_of = [](const Variables& more) {
    const Variables variables = all({kTorchrun, more});
    return read_environment(environment_of(variables)).value();
  };
  const Launch found = launch_of({{"C10DD_ADDR", "h:1"}});
  EXPECT_EQ(found.url, "c10dd://h:1/llm");
  EXPECT_EQ(found.options.run, "restart-2");
  EXPECT_EQ(found.options.rank, 5);
  EXPECT_EQ(found.options.world_size, 8);
  const Launch named = launch_of({{"C10DD_ADDR", "h:1"}, {"C10DD_JOB", "j"}});
  EXPECT_EQ(named.url, "c10dd://h:1/j");
  EXPECT_EQ(named.options.run, "");
  EXPECT_EQ(launch_of({{"C10DD_URL", "c10dd://h:1/j"}}).options.run, "");
  EXPECT_EQ(launch_of({{"C10DD_ADDR", "h:1"}, {"C10DD_RUN", "r"}}).options.run, "r");
}

}  // namespace
}  // namespace c10dd::client
