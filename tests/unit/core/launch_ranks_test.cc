// SPDX-License-Identifier: Apache-2.0
// The processes of a launch, and the ranks that their keys tell.
#include "daemon/core/torch/launch_ranks.h"

#include <gtest/gtest.h>

#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

constexpr std::string_view kRank0 = "/default_pg/0//cpu//0/0";
constexpr std::string_view kRank1 = "/default_pg/0//cpu//0/1";

class LaunchRanksTest : public testing::Test {
 protected:
  /// Opens session `n` of process `pid`; pid 0: not known.
  void open(std::uint64_t n, std::uint64_t pid, const std::string& host = "a") {
    Session& session = open_[id(n)];
    session.host = host;
    session.pid = pid;
    ranks_.opened(id(n), session);
  }
  void end(std::uint64_t n, std::int64_t when = 5, Ending how = Ending::disconnected) {
    ranks_.ended(id(n), how, at(when));
    open_.erase(id(n));
  }
  bool set(std::uint64_t n, std::string_view key, std::string_view value = "v") {
    keys_.put(key, Blob(Bytes(value)), 1);
    return ranks_.key_set(key, value, id(n), at(3));
  }
  void join(std::uint64_t n) { ranks_.key_set("init/", "1", id(n), at(2)); }
  static SessionId id(std::uint64_t n) { return {0, n}; }

  std::map<SessionId, Session> open_;
  KeySpace keys_{Quotas{}};
  LaunchRanks ranks_;
};

TEST_F(LaunchRanksTest, TakeTheRankOfTheFirstKeyThatAProcessSets) {
  open(1, 11);
  open(2, 12);
  set(1, kRank0);
  set(2, kRank1);
  set(2, "/default_pg/3//cpu//0/0");  // in a smaller group it is rank 0
  ASSERT_NE(ranks_.of_rank(0), nullptr);
  EXPECT_EQ(ranks_.of_rank(0)->pid, 11U);
  EXPECT_EQ(ranks_.of_rank(1)->pid, 12U);
  EXPECT_EQ(ranks_.of_session(id(2))->rank, 1U);
  EXPECT_EQ(ranks_.of_rank(2), nullptr);
  EXPECT_EQ(ranks_.here(), 2U);
}

TEST_F(LaunchRanksTest, LeaveTheRankToTheLeaderOfAllNotToThatOfASmallerGroup) {
  open(1, 11);
  open(2, 12);
  set(1, "/default_pg/0//cuda//0");
  set(2, "/default_pg/4//cuda//0");  // by this key NCCL's group 4 finds its rank 0
  EXPECT_EQ(ranks_.of_rank(0)->pid, 11U);
  EXPECT_EQ(ranks_.of_session(id(2))->rank, std::nullopt);
  set(2, kRank0);  // the process of another launch has come, and is now this rank
  EXPECT_EQ(ranks_.of_rank(0)->pid, 12U);
  EXPECT_EQ(ranks_.of_session(id(1))->rank, std::nullopt);
  EXPECT_EQ(ranks_.here(), 1U);  // nothing says any more that the first process is a rank
}

TEST_F(LaunchRanksTest, RememberAProcessThatLeftWhileOthersAreHere) {
  for (std::uint64_t n = 1; n <= 3; ++n) {
    open(n, 10 + n);
    join(n);
  }
  open(4, 11);  // a further connection of the first process
  end(1);
  EXPECT_EQ(ranks_.gone(), 0U);
  end(4, 7, Ending::goodbye);
  EXPECT_EQ(ranks_.gone(), 1U);
  EXPECT_EQ(ranks_.here(), 2U);
  const auto& left = ranks_.processes().at({"a", 11, SessionId{}});
  EXPECT_TRUE(left.has_left());
  EXPECT_EQ(left.left_at, at(7));
  EXPECT_EQ(left.ending, Ending::goodbye);
  end(2);
  end(3);  // all have left: the launch has ended
  EXPECT_TRUE(ranks_.processes().empty());
  EXPECT_EQ(ranks_.gone(), 0U);
}

TEST_F(LaunchRanksTest, KeepTheFirst1024ThatHaveLeftAndCountTheOthers) {
  open(1, 11);
  join(1);
  for (std::uint64_t n = 2; n <= 1'027; ++n) open(n, 100 + n), join(n);
  for (std::uint64_t n = 2; n <= 1'025; ++n) end(n);
  EXPECT_EQ(ranks_.gone(), 1'024U);
  EXPECT_EQ(ranks_.forgotten(), 0U);
  for (std::uint64_t n = 1'026; n <= 1'027; ++n) end(n);
  EXPECT_EQ(ranks_.gone(), 1'024U);
  EXPECT_EQ(ranks_.forgotten(), 2U);
  EXPECT_EQ(ranks_.here(), 1U);
}

TEST_F(LaunchRanksTest, NoteKeysOf512Bytes) {
  const std::string end = "/0//cpu//0/1";
  const std::string longest = "/" + std::string(511 - end.size(), 'p') + end;
  ASSERT_EQ(longest.size(), 512U);
  open(1, 11);
  EXPECT_TRUE(set(1, longest));
  open(2, 12);
  EXPECT_FALSE(set(2, "/p" + longest.substr(1)));
  EXPECT_EQ(ranks_.of_session(id(2))->rank, std::nullopt);
}

TEST_F(LaunchRanksTest, ForgetThoseThatLeftWhenAnotherProcessJoins) {
  open(1, 11);
  open(2, 12);
  join(1);
  join(2);
  set(1, kRank0);
  end(1);
  EXPECT_EQ(ranks_.gone(), 1U);
  open(3, 13);
  EXPECT_EQ(ranks_.gone(), 1U);  // a connection that does not join may be a probe
  join(3);
  EXPECT_EQ(ranks_.gone(), 0U);
  EXPECT_EQ(ranks_.of_rank(0), nullptr);
  EXPECT_EQ(ranks_.here(), 2U);
}

TEST_F(LaunchRanksTest, TakeAProcessThatComesBackAsTheSame) {
  open(1, 11);
  open(2, 12);
  join(1);
  join(2);
  end(1);
  open(3, 11);
  EXPECT_EQ(ranks_.gone(), 0U);
  EXPECT_EQ(ranks_.here(), 2U);
}

TEST_F(LaunchRanksTest, TellSessionsOfUnknownPidApart) {
  open(1, 0);
  open(2, 0);
  set(1, kRank0);
  set(2, kRank1);
  EXPECT_EQ(ranks_.here(), 2U);
  end(1);
  EXPECT_EQ(ranks_.gone(), 1U);
  EXPECT_NE(ranks_.of_rank(1), nullptr);
}

TEST_F(LaunchRanksTest, DoNotCountWhoOnlyUsesTheStore) {
  open(1, 11);
  set(1, "config");
  set(1, "/some/key/7x");
  EXPECT_EQ(ranks_.here(), 0U);
  end(1);
  EXPECT_TRUE(ranks_.processes().empty());
}

TEST_F(LaunchRanksTest, SayWhichProcessHasGivenUp) {
  open(1, 11);
  EXPECT_TRUE(set(1, "/default_pg/0//exception_dump", std::string_view("\3\0\0\0", 4)));
  const LaunchRanks::Process& process = *ranks_.of_session(id(1));
  EXPECT_TRUE(process.gave_up);
  EXPECT_EQ(process.gave_up_as, 3U);
  EXPECT_EQ(process.dumped_at, at(3));
  open(2, 12);
  EXPECT_TRUE(set(2, "exception_dump", "nonsense"));
  EXPECT_EQ(ranks_.of_session(id(2))->gave_up_as, std::nullopt);
}

TEST_F(LaunchRanksTest, ReadTheKeysAgainOnlyAfterAChange) {
  open(1, 11);
  set(1, kRank0, Bytes(154 + 8 * 4, 'v'));
  EXPECT_EQ(ranks_.told(keys_).world_size, 4U);
  EXPECT_EQ(ranks_.told(keys_).ranks, std::set<Rank>{0});
  EXPECT_TRUE(ranks_.told(keys_).trainers);
  set(1, kRank1, Bytes(154 + 8 * 3, 'v'));
  EXPECT_EQ(ranks_.told(keys_).ranks, (std::set<Rank>{0, 1}));
  EXPECT_EQ(ranks_.told(keys_).differing.size(), 2U);
  keys_.erase(kRank1, 2);
  ranks_.key_removed(kRank1);
  EXPECT_EQ(ranks_.told(keys_).ranks, std::set<Rank>{0});
  EXPECT_TRUE(ranks_.told(keys_).differing.empty());
  LaunchRanks restored;
  restored.key_restored(kRank0);
  EXPECT_EQ(restored.told(keys_).ranks, std::set<Rank>{0});
  EXPECT_EQ(restored.here(), 0U);
}

TEST_F(LaunchRanksTest, CountAgentsButGiveThemNoRank) {
  open(1, 11);
  join(1);
  set(1, "/none/torchelastic/role_info/0", R"({"local_world_size": 2})");
  EXPECT_EQ(ranks_.of_rank(0), nullptr);
  EXPECT_TRUE(ranks_.told(keys_).ranks.empty());
  EXPECT_EQ(ranks_.told(keys_).nodes, std::set<Rank>{0});
  EXPECT_FALSE(ranks_.told(keys_).trainers);
}

}  // namespace
}  // namespace c10dd::core
