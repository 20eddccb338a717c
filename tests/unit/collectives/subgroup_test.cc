// SPDX-License-Identifier: Apache-2.0
// Groups of some ranks of another group, on every backend.
#include "collectives/subgroup.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/errors.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::open_groups;
using test::run_ranks;

class Subgroup : public ::testing::TestWithParam<std::string> {
 protected:
  GroupOptions options() const { return {.backend = GetParam(), .timeout = 60s}; }
};

std::vector<Rank> job_ranks(const ProcessGroup& group) {
  std::vector<Rank> ranks;
  for (const GroupMember& member : group.world().members) ranks.push_back(member.job_rank);
  return ranks;
}

double sum_of_ranks(ProcessGroup& group, Rank own) {
  std::vector<double> value = {static_cast<double>(own)};
  group.all_reduce(tensor_of(value));
  return value[0];
}

TEST_P(Subgroup, SplitGivesEachColorItsGroupInTheOrderOfTheKeys) {
  constexpr Rank kSize = 5;
  const auto groups = open_groups(kSize, options());
  run_ranks(kSize, [&](Rank rank) {
    // Ranks 0, 2, 4 have color 0, with keys that turn their order round; rank 3 takes no part.
    const std::int32_t color = rank == 3 ? -1 : static_cast<std::int32_t>(rank % 2);
    const auto group = groups[rank]->split(color, -static_cast<std::int32_t>(rank), {.kind = "tp"});
    if (rank == 3) {
      EXPECT_EQ(group, nullptr);
      return;
    }
    const bool even = rank % 2 == 0;
    EXPECT_EQ(group->size(), even ? 3u : 1u);
    EXPECT_EQ(group->rank(), even ? (4 - rank) / 2 : 0u);
    EXPECT_EQ(group->kind(), "tp");
    EXPECT_EQ(group->world().name, even ? "world/[4,2,0]" : "world/[1]");
    EXPECT_EQ(job_ranks(*group), even ? (std::vector<Rank>{4, 2, 0}) : (std::vector<Rank>{1}));
    EXPECT_EQ(sum_of_ranks(*group, rank), even ? 6 : 1);
  });
}

TEST_P(Subgroup, ARankWhoseOptionsAreRefusedCanSplitAgain) {
  constexpr Rank kSize = 3;
  const auto groups = open_groups(kSize, options());
  run_ranks(kSize, [&](Rank rank) {
    if (rank == 1) {
      EXPECT_THROW(groups[rank]->split(0, 0, {.timeout = 0s}), InvalidArgument);
    }
    const auto group = groups[rank]->split(0);
    EXPECT_EQ(sum_of_ranks(*group, rank), 3);
  });
}

TEST_P(Subgroup, GroupsOfGroupsKnowTheRanksOfTheJob) {
  constexpr Rank kSize = 4;
  const auto groups = open_groups(kSize, options());
  run_ranks(kSize, [&](Rank rank) {
    auto pair = groups[rank]->split(static_cast<std::int32_t>(rank / 2));
    EXPECT_EQ(sum_of_ranks(*pair, rank), rank < 2 ? 1 : 5);
    const auto turned = pair->split(0, -static_cast<std::int32_t>(pair->rank()));
    EXPECT_EQ(job_ranks(*turned), rank < 2 ? (std::vector<Rank>{1, 0}) : (std::vector<Rank>{3, 2}));
    pair.reset();  // a group lives on without the one that it was made from
    EXPECT_EQ(sum_of_ranks(*turned, rank), rank < 2 ? 1 : 5);
  });
}

TEST_P(Subgroup, NeitherDisturbsTheOther) {
  const auto groups = open_groups(2, options());
  run_ranks(2, [&](Rank rank) {
    const auto other = groups[rank]->split(0);
    std::vector<WorkPtr> works;
    std::vector<std::vector<float>> values(20, std::vector<float>(1000, 1.0f));
    for (std::size_t i = 0; i < values.size(); ++i) {
      ProcessGroup& group = i % 2 == 0 ? *groups[rank] : *other;
      works.push_back(group.all_reduce(tensor_of(values[i]), ReduceOp::sum, {.async = true}));
    }
    for (const WorkPtr& work : works) work->wait();
    for (const auto& one : values) EXPECT_EQ(one[999], 2.0f);
  });
}

TEST_P(Subgroup, AFailureNamesTheRankOfTheJob) {
  const auto groups = open_groups(3, options());
  std::vector<std::shared_ptr<ProcessGroup>> pairs(3);
  run_ranks(3, [&](Rank rank) { pairs[rank] = groups[rank]->split(rank == 0 ? 1 : 0); });
  try {
    pairs[1]->barrier({.timeout = 50ms});
    ADD_FAILURE() << "rank 2 has not come";
  } catch (const TimedOut& late) {
    EXPECT_NE(std::string(late.what()).find("rank 1 of group \"world/[1-2]\" is rank 2 of the job"),
              std::string::npos)
        << late.what();
  }
  run_ranks(3, [&](Rank rank) { groups[rank]->barrier(); });  // the other group lives on
}

TEST_P(Subgroup, ARankThatCannotOpenItsGroupDoesNotHoldUpTheOthers) {
  const auto groups = open_groups(3, options());
  run_ranks(3, [&](Rank rank) {
    const SubgroupOptions bad{.backend = "no such backend"};
    if (rank == 2) {
      EXPECT_THROW(groups[rank]->split(1, 0, bad), InvalidArgument);
    } else {
      EXPECT_EQ(sum_of_ranks(*groups[rank]->split(0), rank), 1);
    }
    groups[rank]->barrier();
  });
}

TEST_P(Subgroup, NewGroupNeedsABootstrapThatCanReachSomeRanks) {
  const auto groups = open_groups(2, options());
  try {
    groups[0]->new_group({0});
    ADD_FAILURE() << "a ThreadBootstrap is for all ranks";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported) << error.what();
  }
}

TEST(Subworld, ChecksTheListOfRanks) {
  const World parent{.rank = 1, .size = 4, .members = {{0}, {1}, {2}, {3}}};
  const auto error_of = [&](const std::vector<Rank>& ranks) -> std::string {
    try {
      collectives::subworld(parent, ranks, {});
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({1, 2, 1}),
            "new_group of process group \"world\": rank 1 is in the list twice");
  EXPECT_EQ(error_of({1, 4}),
            "new_group of process group \"world\": rank 4 must be below the world size 4");
  EXPECT_EQ(error_of({0, 2}),
            "new_group of process group \"world\": this rank (1) is not in the list; only the "
            "members of the new group may call new_group");
  EXPECT_NE(error_of({}), "no error");
  const World child = collectives::subworld(parent, {3, 1}, {.kind = "pp"});
  EXPECT_EQ(child.rank, 1u);
  EXPECT_EQ(child.size, 2u);
  EXPECT_EQ(child.kind, "pp");
  EXPECT_EQ(child.members[0].job_rank, 3u);
}

TEST(Subworld, LongNamesAreShortAndDifferent) {
  World parent{.rank = 1, .size = 4096};
  for (Rank rank = 0; rank < parent.size; ++rank) parent.members.push_back({rank});
  std::vector<Rank> odd;
  for (Rank rank = 1; rank < 4096; rank += 2) odd.push_back(rank);
  const std::string name = collectives::subworld(parent, odd, {}).name;
  EXPECT_LE(name.size(), 200u);
  odd.pop_back();
  EXPECT_NE(collectives::subworld(parent, odd, {}).name, name);
}

INSTANTIATE_TEST_SUITE_P(Backends, Subgroup, ::testing::ValuesIn(test::backends()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace c10dd
