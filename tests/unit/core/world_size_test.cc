// SPDX-License-Identifier: Apache-2.0
// How many ranks a job has, as the values of Gloo and of torchrun's agents tell it.
#include "daemon/core/torch/world_size.h"

#include <gtest/gtest.h>

namespace c10dd::core {
namespace {

TEST(WorldSizeOfGloo, IsInTheLengthOfARanksValue) {
  EXPECT_EQ(world_size_of_gloo("/default_pg/0//cpu//0/3", 154 + 8 * 12), 12U);
  EXPECT_EQ(world_size_of_gloo("/default_pg//0/3", 136 * 11), 12U);
  EXPECT_EQ(world_size_of_gloo("/default_pg//0/3", 3), std::nullopt);
  EXPECT_EQ(world_size_of_gloo("/default_pg//rank_3", 136), std::nullopt);
  EXPECT_EQ(world_size_of_gloo("/default_pg/0//cuda//0", 136), std::nullopt);
  EXPECT_EQ(world_size_of_gloo("/a", 136), std::nullopt);
}

class WorldSizeTest : public testing::Test {
 protected:
  void set(std::string_view key, Bytes value) {
    world_.look_at(key, {Blob(std::move(value)), ++revision_});
  }
  void share(std::string_view key, int ranks) {
    set(key, "{\"role\": \"default\", \"rank\": 0, \"local_world_size\": " + std::to_string(ranks) +
                 "}");
  }

  WorldSize world_;
  Revision revision_ = 0;
};

TEST_F(WorldSizeTest, IsUnknownWithoutAValueThatTellsIt) {
  set("/default_pg/0//cpu//0/0", "host");
  set("/torchelastic/other/0", "{\"local_world_size\": 2}");
  EXPECT_EQ(world_.found(), std::nullopt);
}

TEST_F(WorldSizeTest, MayDifferAmongTheRanksOfAGroup) {
  set("/default_pg/0//cpu//0/0", Bytes(154 + 8 * 4, 'x'));
  set("/default_pg/0//cpu//0/1", Bytes(154 + 8 * 4, 'x'));
  set("/default_pg/1//cpu//0/0", Bytes(154 + 8 * 2, 'x'));
  EXPECT_TRUE(world_.differing().empty()) << "groups have sizes of their own";
  set("/default_pg/0//cpu//0/2", Bytes(154 + 8 * 3, 'x'));
  EXPECT_EQ(world_.differing(), (WorldSize::Told{{3, {2}}, {4, {0, 1}}}));
  EXPECT_EQ(world_.found(), 4U);
}

TEST_F(WorldSizeTest, IsTheSumOfTheNodesWhenOneOfThemHasReadAll) {
  share("/none/torchelastic/role_info0", 2);
  share("/none/torchelastic/role_info1", 3);
  EXPECT_EQ(world_.found(), std::nullopt);  // there may be a node 2
  set("/none/torchelastic/role_info1.FIN", "FIN");
  EXPECT_EQ(world_.found(), 5U);
}

TEST_F(WorldSizeTest, IsUnknownIfTheSizeOfANodeIsMissing) {
  share("/none/torchelastic/role_info0", 2);
  share("/none/torchelastic/role_info2", 2);
  set("/none/torchelastic/role_info2.FIN", "FIN");
  EXPECT_EQ(world_.found(), std::nullopt);
}

TEST_F(WorldSizeTest, IsTheNumberThatTheAgentsHaveWorkedOut) {
  share("/none/torchelastic/role_info/0", 2);
  share("/none/torchelastic/role_info/1", 2);
  EXPECT_EQ(world_.found(), std::nullopt);
  set("/none/torchelastic/assigned_ranks/1", "[2, 4, 2, 4]");
  EXPECT_EQ(world_.found(), 4U);
}

TEST_F(WorldSizeTest, IsThatOfTheNewestRound) {
  set("/torch.rendezvous.id.0/torchelastic/assigned_ranks/0", "[0, 8, 0, 8]");
  set("/torch.rendezvous.id.1/torchelastic/assigned_ranks/0", "[0, 4, 0, 4]");
  EXPECT_EQ(world_.found(), 4U);
  share("/torch.rendezvous.id.2/torchelastic/role_info/0", 2);
  EXPECT_EQ(world_.found(), std::nullopt);
}

TEST_F(WorldSizeTest, IsNotReadFromAValueThatNoAgentWrites) {
  for (const char* value : {"", "[", "[1]", "[0, -1]", "[0, 1e9]", "[0, 999999999]", "7", "{}",
                            "{\"local_world_size\": \"2\"}", "[0, \"2\"]"}) {
    set("/none/torchelastic/assigned_ranks/0", value);
    EXPECT_EQ(world_.found(), std::nullopt) << value;
  }
  set("/none/torchelastic/assigned_ranks/0", "[0, 2" + Bytes(5'000, ' ') + "]");
  EXPECT_EQ(world_.found(), std::nullopt);
}

}  // namespace
}  // namespace c10dd::core
