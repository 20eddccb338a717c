// SPDX-License-Identifier: Apache-2.0
// Which member gets which rank, and the texts about it: each rule by itself, then all rules in
// random situations, then the time for the largest groups.
#include "daemon/core/group/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <random>
#include <set>

#include "tests/unit/slowdown.h"

namespace c10dd::core {
namespace {

using Hosts = std::vector<std::string>;
using Indices = std::vector<std::size_t>;

/// Candidates in order of joining.
class Crowd {
 public:
  Crowd& survivor(const std::string& host, const std::string& domain, std::int64_t previous_rank) {
    return add(host, domain, previous_rank, false);
  }
  Crowd& newcomers(const std::string& host, const std::string& domain, int count = 1) {
    for (int i = 0; i < count; ++i) add(host, domain, -1, false);
    return *this;
  }
  Crowd& spares(const std::string& host, const std::string& domain, int count = 1) {
    for (int i = 0; i < count; ++i) add(host, domain, -1, true);
    return *this;
  }
  /// Of one host, in this order.
  Crowd& survivors(const std::string& host, const std::string& domain,
                   const std::vector<std::int64_t>& previous_ranks) {
    for (const std::int64_t rank : previous_ranks) survivor(host, domain, rank);
    return *this;
  }

  const std::vector<Candidate>& all() const { return all_; }
  std::vector<Candidate>& all() { return all_; }

  RankPlan plan(const std::vector<Hole>& holes, std::uint32_t max, std::uint32_t wanted) const {
    return assign_ranks(all_, holes, max, wanted);
  }
  Hosts hosts(const RankPlan& plan) const {
    Hosts hosts;
    for (const std::size_t index : plan.ranks) hosts.push_back(all_[index].host);
    return hosts;
  }

 private:
  Crowd& add(const std::string& host, const std::string& domain, std::int64_t previous_rank,
             bool spare) {
    all_.push_back({all_.size() + 1, host, domain, local_ranks_[host]++, -1, previous_rank, spare});
    return *this;
  }

  std::vector<Candidate> all_;
  std::map<std::string, std::int32_t> local_ranks_;
};

std::vector<Hole> holes(const std::string& host, const std::string& domain, Rank first,
                        Rank count = 1) {
  std::vector<Hole> holes;
  for (Rank rank = first; rank < first + count; ++rank) holes.push_back({rank, host, domain});
  return holes;
}

bool says(const RankPlan& plan, const std::string& text) {
  return plan.reason.find(text) != std::string::npos;
}

TEST(Ranks, FirstGenerationStandsByDomainHostAndLocalRank) {
  const std::vector<Candidate> candidates = {
      {1, "h1", "rackB", 1}, {2, "h2", "rackA", 0}, {3, "h3", "rackB", 0},
      {4, "h1", "rackB", 0}, {5, "h2", "rackA", 1}, {6, "h3", "rackB", 1},
  };
  const RankPlan plan = assign_ranks(candidates, {}, 6, 6);
  EXPECT_EQ(plan.ranks, (Indices{3, 0, 2, 5, 1, 4}));
  EXPECT_TRUE(plan.parked.empty());
  EXPECT_EQ(plan.reason,
            "6 ranks, the first generation, by domain, host and local rank; ranks [0-1] are new: "
            "h1; ranks [2-3] are new: h3; ranks [4-5] are new: h2");
}

TEST(Ranks, EqualLocalRanksStandInOrderOfJoining) {
  const std::vector<Candidate> candidates = {
      {7, "h1", "", -1}, {3, "h1", "", -1}, {5, "h1", "", -1}};
  EXPECT_EQ(assign_ranks(candidates, {}, 3, 3).ranks, (Indices{1, 2, 0}));
}

TEST(Ranks, NobodyGivesAnEmptyPlan) {
  const RankPlan plan = assign_ranks({}, holes("h1", "", 0, 2), 4, 4);
  EXPECT_TRUE(plan.ranks.empty());
  EXPECT_TRUE(plan.parked.empty());
}

TEST(Ranks, SurvivorsKeepTheirRanksHoweverTheyJoinAgain) {
  Crowd crowd;
  crowd.survivor("h2", "", 3).survivor("h1", "", 0).survivor("h2", "", 2).survivor("h1", "", 1);
  const RankPlan plan = crowd.plan({}, 4, 4);
  EXPECT_EQ(plan.ranks, (Indices{1, 3, 2, 0}));
  EXPECT_EQ(plan.reason, "4 ranks, 4 before; ranks [0-3] kept");
}

TEST(Ranks, HoleGoesToSpareOfSameDomainBeforeOneThatJoinedEarlier) {
  Crowd crowd;
  crowd.survivor("host-a", "rack1", 0)
      .survivor("host-c", "rack1", 2)
      .survivor("host-f", "rack2", 3);
  crowd.spares("host-e", "rack1").spares("host-d", "rack2");
  const RankPlan plan = crowd.plan(holes("host-b", "rack2", 1), 8, 4);
  EXPECT_EQ(plan.ranks, (Indices{0, 4, 1, 2}));
  EXPECT_EQ(plan.parked, Indices{3});
  EXPECT_EQ(plan.reason,
            "4 ranks, 4 before; ranks [0,2-3] kept; rank 1 (host-b) is replaced by the spare "
            "host-d, of the same domain rack2; left over as spares: 1 (host-e)");
}

TEST(Ranks, EachDomainGetsItsOwnSpareAlthoughAnotherHasTwoThatJoinedEarlier) {
  Crowd crowd;
  crowd.survivors("h0", "rack1", {0, 1});
  crowd.spares("a1", "rack1", 2).spares("a2", "rack1", 2).spares("b1", "rack2", 2);
  std::vector<Hole> lost = holes("x", "rack1", 2, 2);
  for (const Hole& hole : holes("y", "rack2", 4, 2)) lost.push_back(hole);
  const RankPlan plan = crowd.plan(lost, 6, 6);
  EXPECT_EQ(crowd.hosts(plan), (Hosts{"h0", "h0", "a1", "a1", "b1", "b1"}));
}

TEST(Ranks, SpareIsChosenForTheHolesThatNewcomersLeave) {
  Crowd crowd;
  crowd.newcomers("a1", "rack1").spares("a2", "rack1").spares("b1", "rack2").survivor("z", "", 2);
  std::vector<Hole> lost = holes("x", "rack1", 0);
  lost.push_back({1, "y", "rack2"});
  EXPECT_EQ(crowd.hosts(crowd.plan(lost, 3, 3)), (Hosts{"a1", "b1", "z"}));
}

TEST(Ranks, SparesOfTheDomainAreChosenBeforeAHostOfTheRightSizeFromAnother) {
  Crowd crowd;
  crowd.spares("b1", "rack2", 2).spares("a1", "rack1").spares("a2", "rack1").survivor("z", "", 2);
  EXPECT_EQ(crowd.hosts(crowd.plan(holes("x", "rack1", 0, 2), 3, 3)), (Hosts{"a1", "a2", "z"}));
}

TEST(Ranks, LostHostIsReplacedByWholeHostInOrderOfLocalRanks) {
  Crowd crowd;
  crowd.survivors("h0", "", {0, 1}).survivors("h2", "", {6, 7});
  crowd.spares("single", "").spares("h3", "", 4);
  std::swap(crowd.all()[5].local_rank, crowd.all()[8].local_rank);
  const RankPlan plan = crowd.plan(holes("h1", "", 2, 4), 8, 8);
  EXPECT_EQ(plan.ranks, (Indices{0, 1, 8, 6, 7, 5, 2, 3}));
  EXPECT_EQ(plan.parked, Indices{4});
}

TEST(Ranks, ReplacementOfSameSizeGoesToItsOwnDomain) {
  Crowd crowd;
  crowd.newcomers("b9", "rack2", 2).newcomers("a9", "rack1", 2).survivors("z", "rack3", {4, 5});
  std::vector<Hole> lost = holes("a1", "rack1", 0, 2);
  for (const Hole& hole : holes("b1", "rack2", 2, 2)) lost.push_back(hole);
  EXPECT_EQ(crowd.hosts(crowd.plan(lost, 6, 6)), (Hosts{"a9", "a9", "b9", "b9", "z", "z"}));
}

TEST(Ranks, SmallHostsFillTheHolesOfTheirDomain) {
  Crowd crowd;
  crowd.newcomers("b8", "rack2").newcomers("a8", "rack1").newcomers("b9", "rack2");
  crowd.newcomers("a9", "rack1").survivor("z", "rack3", 4);
  std::vector<Hole> lost = holes("a1", "rack1", 0, 2);
  for (const Hole& hole : holes("b1", "rack2", 2, 2)) lost.push_back(hole);
  EXPECT_EQ(crowd.hosts(crowd.plan(lost, 5, 5)), (Hosts{"a8", "a9", "b8", "b9", "z"}));
}

TEST(Ranks, HostThatComesBackGetsItsOwnRanks) {
  Crowd crowd;
  crowd.newcomers("h9", "rack1", 2).newcomers("h1", "rack1", 2).survivors("h0", "rack1", {0, 1});
  std::vector<Hole> lost = holes("h1", "rack1", 2, 2);
  for (const Hole& hole : holes("h2", "rack1", 4, 2)) lost.push_back(hole);
  const RankPlan plan = crowd.plan(lost, 6, 6);
  EXPECT_EQ(crowd.hosts(plan), (Hosts{"h0", "h0", "h1", "h1", "h9", "h9"}));
  EXPECT_TRUE(says(plan, "ranks [2-3] (h1) are replaced on the same host")) << plan.reason;
}

TEST(Ranks, ShrinkMovesSurvivorsAboveTheSizeIntoHolesAsBlocks) {
  Crowd crowd;
  crowd.survivors("h3", "", {6, 7}).survivors("h0", "", {0}).survivors("h1", "", {2, 3});
  crowd.survivors("h2", "", {5});
  std::vector<Hole> lost = holes("h0", "", 1);
  for (const Hole& hole : holes("h2", "", 4)) lost.push_back(hole);
  const RankPlan plan = crowd.plan(lost, 8, 8);
  EXPECT_EQ(plan.ranks, (Indices{2, 0, 3, 4, 1, 5}));
  EXPECT_TRUE(says(plan, "6 ranks, 8 before; ranks [0,2-3,5] kept")) << plan.reason;
  EXPECT_TRUE(says(plan, "former rank 6 (h3) becomes rank 1 in place of h0")) << plan.reason;
}

TEST(Ranks, ShrinkMovesWholeHostIntoTheRanksOfALostOne) {
  Crowd crowd;
  crowd.survivors("h3", "", {6, 7}).survivors("h0", "", {0, 1}).survivors("h2", "", {4, 5});
  const RankPlan plan = crowd.plan(holes("h1", "", 2, 2), 8, 8);
  EXPECT_EQ(crowd.hosts(plan), (Hosts{"h0", "h0", "h3", "h3", "h2", "h2"}));
  EXPECT_TRUE(says(plan, "former ranks [6-7] (h3) become ranks [2-3] in place of h1"))
      << plan.reason;
}

TEST(Ranks, ShrinkOfManyHostsKeepsThoseThatMoveTogether) {
  Crowd crowd;
  crowd.survivors("h4", "", {8, 9}).survivors("h3", "", {6, 7}).survivors("h1", "", {2, 3});
  std::vector<Hole> lost = holes("h0", "", 0, 2);
  for (const Hole& hole : holes("h2", "", 4, 2)) lost.push_back(hole);
  const RankPlan plan = crowd.plan(lost, 10, 10);
  EXPECT_EQ(crowd.hosts(plan), (Hosts{"h4", "h4", "h1", "h1", "h3", "h3"}));
}

TEST(Ranks, SurvivorsWinOverNewcomersAndNewcomersOverSpares) {
  Crowd crowd;
  crowd.spares("s", "").newcomers("n1", "").newcomers("n2", "").survivor("o", "", 1);
  crowd.survivor("o", "", 0);
  EXPECT_EQ(crowd.plan({}, 2, 2).ranks, (Indices{4, 3}));
  EXPECT_EQ(crowd.plan({}, 2, 2).parked, (Indices{0, 1, 2}));
  EXPECT_EQ(crowd.plan({}, 3, 3).ranks, (Indices{4, 3, 1}));
  EXPECT_EQ(crowd.plan({}, 4, 4).parked, Indices{0});
  EXPECT_EQ(crowd.plan({}, 1, 1).ranks, Indices{4}) << "survivors by previous rank";
}

TEST(Ranks, FormerSpareWithARankCountsAsSurvivor) {
  Crowd crowd;
  crowd.newcomers("n", "").survivor("s", "", 0);
  crowd.all()[1].spare = true;
  EXPECT_EQ(crowd.plan({}, 1, 1).ranks, Indices{1});
}

TEST(Ranks, SparesFillPlacesOnlyUpToWanted) {
  Crowd crowd;
  crowd.newcomers("h1", "", 2).spares("h2", "", 4);
  EXPECT_EQ(crowd.plan({}, 8, 2).ranks.size(), 2U);
  EXPECT_EQ(crowd.plan({}, 8, 4).ranks.size(), 4U);
  EXPECT_EQ(crowd.plan({}, 8, 4).parked, (Indices{4, 5}));
  EXPECT_EQ(crowd.plan({}, 4, 8).ranks.size(), 4U) << "max binds wanted";
  EXPECT_EQ(crowd.plan({}, 8, 1).ranks.size(), 2U) << "wanted does not bind newcomers";
}

TEST(Ranks, WholeHostsComeBeforePartsOfOne) {
  Crowd crowd;
  crowd.newcomers("h1", "", 4).newcomers("h2", "", 3).newcomers("h3", "", 2);
  EXPECT_EQ(crowd.hosts(crowd.plan({}, 6, 6)), (Hosts{"h1", "h1", "h1", "h1", "h3", "h3"}));
  EXPECT_EQ(crowd.plan({}, 8, 8).parked, Indices{8});
}

TEST(Ranks, ClaimsAreHonoured) {
  Crowd crowd;
  crowd.newcomers("h1", "", 2).newcomers("h2", "", 2);
  const std::vector<std::int64_t> requests = {2, 0, 3, 1};
  for (std::size_t i = 0; i < requests.size(); ++i) crowd.all()[i].requested_rank = requests[i];
  const RankPlan plan = crowd.plan({}, 4, 4);
  EXPECT_EQ(plan.ranks, (Indices{1, 3, 0, 2}));
  EXPECT_TRUE(says(plan, "4 ranks, the first generation, as requested")) << plan.reason;
}

TEST(Ranks, ReplacementClaimsTheRankOfTheLostOne) {
  Crowd crowd;
  crowd.newcomers("h9", "").survivor("h1", "", 1);
  crowd.all()[0].requested_rank = 0;
  crowd.all()[1].requested_rank = 1;
  const RankPlan plan = crowd.plan(holes("h0", "", 0), 2, 2);
  EXPECT_EQ(plan.ranks, (Indices{0, 1}));
  EXPECT_TRUE(says(plan, "rank 1 kept; rank 0 (h0) is replaced by h9")) << plan.reason;
}

TEST(RanksDeathTest, ClaimAboveTheSizeIsABug) {
  Crowd crowd;
  crowd.newcomers("h1", "", 2);
  crowd.all()[0].requested_rank = 0;
  crowd.all()[1].requested_rank = 2;
  EXPECT_DEATH(crowd.plan({}, 4, 4), "assertion failed: request");
}

TEST(Ranks, GrowthPutsNewcomersAfterSurvivors) {
  Crowd crowd;
  crowd.newcomers("h2", "rack1", 2).survivors("h1", "rack2", {0, 1}).newcomers("h3", "rack2", 2);
  const RankPlan plan = crowd.plan({}, 8, 2);
  EXPECT_EQ(crowd.hosts(plan), (Hosts{"h1", "h1", "h2", "h2", "h3", "h3"}));
  EXPECT_EQ(plan.reason,
            "6 ranks, 2 before; ranks [0-1] kept; ranks [2-3] are new: h2; ranks [4-5] are new: "
            "h3");
}

// PyTorch #182375: a survivor that becomes rank 0 has to know, or nobody hosts the store.
TEST(Ranks, LostRankZeroHasExactlyOneSuccessorAndThePlanSaysWho) {
  Crowd crowd;
  crowd.survivor("h1", "", 1).survivor("h2", "", 2).survivor("h3", "", 3);
  const RankPlan plan = crowd.plan(holes("h0", "", 0), 4, 3);
  EXPECT_EQ(plan.ranks, (Indices{2, 0, 1}));
  EXPECT_EQ(
      plan.reason,
      "3 ranks, 4 before; ranks [1-2] kept; former rank 3 (h3) becomes rank 0 in place of h0");
}

// NVRx #348: one node more than max made the whole rendezvous fail.
TEST(Ranks, OneCandidateTooManyIsParkedNotDropped) {
  Crowd crowd;
  crowd.newcomers("h1", "", 4).newcomers("h2", "", 4).newcomers("h3", "");
  const RankPlan plan = crowd.plan({}, 8, 8);
  EXPECT_EQ(plan.ranks.size(), 8U);
  EXPECT_EQ(plan.parked, Indices{8});
  EXPECT_TRUE(says(plan, "left over: 1 (h3), at most 8 have a place")) << plan.reason;
}

TEST(Ranks, LeftOverStandInOrderOfJoining) {
  Crowd crowd;
  crowd.spares("h1", "", 2).newcomers("h2", "").survivor("h3", "", 0);
  crowd.all()[0].joined = 90;
  EXPECT_EQ(crowd.plan({}, 1, 1).parked, (Indices{1, 2, 0}));
}

TEST(Ranks, ReasonStaysShortWhateverTheNamesAndNumbers) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Crowd crowd;
    std::vector<Hole> lost;
    for (Rank rank = 100'000; rank < 100'300; ++rank) {
      const std::string host(255, static_cast<char>('a' + random() % 26));
      if (random() % 3 == 0) {
        lost.push_back({rank - 100'000, host, std::string(255, 'r')});
        crowd.spares(std::string(255, 'x'), std::string(255, 'q'), 2);
      } else {
        crowd.survivor(host, std::string(255, 'd'), random() % 2 == 0 ? rank : rank - 100'000);
      }
    }
    const RankPlan plan = crowd.plan(lost, 300, 300);
    EXPECT_LE(plan.reason.size(), 512U) << plan.reason;
    EXPECT_TRUE(says(plan, " more; left over: ")) << plan.reason;
  }
}

TEST(Ranks, ReasonIsPrintableWhateverTheHostIsCalled) {
  Crowd crowd;
  crowd.newcomers("h\n\xff", "");
  EXPECT_TRUE(says(crowd.plan({}, 1, 1), "new: h??"));
}

struct Situation {
  std::vector<Candidate> candidates;
  std::vector<Hole> holes;
  std::uint32_t max = 0;
  std::uint32_t wanted = 0;
  bool first = false;
};

/// A generation of some hosts, some of which were lost, with newcomers and spares.
Situation random_situation(std::mt19937& random) {
  Situation s;
  s.first = random() % 4 == 0;
  const auto below = [&random](std::uint32_t n) {
    return static_cast<std::uint32_t>(random() % n);
  };
  Rank rank = 0;
  const std::uint32_t hosts = 1 + below(12);
  for (std::uint32_t host = 0; host < hosts; ++host) {
    const std::string name = "h" + std::to_string(host);
    const std::string domain = host % 4 == 3 ? "" : "rack" + std::to_string(host % 4);
    const bool lost = below(3) == 0;
    const std::uint32_t size = 1 + below(5);
    for (std::uint32_t local = 0; local < size; ++local) {
      Candidate c{0, name, domain, static_cast<std::int32_t>(local), -1, -1, below(3) == 0};
      const bool was_member = !s.first && below(4) != 0;
      if (was_member && (lost || below(8) == 0)) {
        s.holes.push_back({rank++, name, domain});
        if (below(2) == 0) continue;
      } else if (was_member) {
        c.previous_rank = rank++;
      }
      s.candidates.push_back(c);
    }
  }
  std::shuffle(s.candidates.begin(), s.candidates.end(), random);
  for (std::size_t i = 0; i < s.candidates.size(); ++i) s.candidates[i].joined = i;
  std::shuffle(s.candidates.begin(), s.candidates.end(), random);
  s.max = 1 + below(40);
  s.wanted = below(50);
  return s;
}

void expect_sound(const Situation& s, const RankPlan& plan) {
  std::set<std::size_t> seen(plan.ranks.begin(), plan.ranks.end());
  ASSERT_EQ(seen.size(), plan.ranks.size());
  seen.insert(plan.parked.begin(), plan.parked.end());
  ASSERT_EQ(seen.size(), plan.ranks.size() + plan.parked.size());
  ASSERT_EQ(seen.size(), s.candidates.size());
  ASSERT_TRUE(seen.empty() || *seen.rbegin() < s.candidates.size());
  ASSERT_LE(plan.ranks.size(), s.max);

  bool parks_survivor = false;
  bool parks_newcomer = false;
  for (const std::size_t index : plan.parked) {
    parks_survivor |= s.candidates[index].previous_rank >= 0;
    parks_newcomer |= s.candidates[index].previous_rank < 0 && !s.candidates[index].spare;
  }
  EXPECT_TRUE(!(parks_survivor || parks_newcomer) || plan.ranks.size() == s.max);
  std::size_t spares = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Candidate& c = s.candidates[plan.ranks[rank]];
    const bool survives = c.previous_rank >= 0;
    if (survives && static_cast<std::size_t>(c.previous_rank) < plan.ranks.size()) {
      EXPECT_EQ(static_cast<std::size_t>(c.previous_rank), rank);
    }
    EXPECT_TRUE(survives || !parks_survivor);
    EXPECT_TRUE(survives || !c.spare || !parks_newcomer);
    if (!survives && c.spare) ++spares;
  }
  EXPECT_TRUE(spares == 0 || plan.ranks.size() <= s.wanted);
}

/// Whether equal values stand together.
bool contiguous(const Hosts& values) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if ((i == 0 || values[i] != values[i - 1]) && !seen.insert(values[i]).second) return false;
  }
  return true;
}

TEST(Ranks, EveryPlanIsSoundWhateverTheSituation) {
  std::mt19937 random(20'260'101);
  for (int round = 0; round < 5'000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const Situation s = random_situation(random);
    const RankPlan plan = assign_ranks(s.candidates, s.holes, s.max, s.wanted);
    expect_sound(s, plan);
    const RankPlan again = assign_ranks(s.candidates, s.holes, s.max, s.wanted);
    EXPECT_EQ(plan.ranks, again.ranks);
    EXPECT_EQ(plan.parked, again.parked);
    EXPECT_EQ(plan.reason, again.reason);
    if (!s.first) continue;
    Hosts hosts;
    Hosts domains;
    for (const std::size_t index : plan.ranks) {
      hosts.push_back(s.candidates[index].host);
      domains.push_back(s.candidates[index].domain);
    }
    EXPECT_TRUE(contiguous(hosts));
    EXPECT_TRUE(contiguous(domains));
  }
}

TEST(Ranks, PlanDependsOnTheOrderOfJoiningNotOfTheList) {
  std::mt19937 random(11);
  for (int round = 0; round < 2'000 && !testing::Test::HasFailure(); ++round) {
    const Situation s = random_situation(random);
    Situation shuffled = s;
    std::shuffle(shuffled.candidates.begin(), shuffled.candidates.end(), random);
    std::shuffle(shuffled.holes.begin(), shuffled.holes.end(), random);
    const auto by_rank = [](const Situation& of) {
      std::vector<std::uint64_t> joined;
      const RankPlan plan = assign_ranks(of.candidates, of.holes, of.max, of.wanted);
      for (const std::size_t index : plan.ranks) joined.push_back(of.candidates[index].joined);
      return joined;
    };
    EXPECT_EQ(by_rank(s), by_rank(shuffled));
  }
}

TEST(Ranks, HundredThousandCandidatesTakeWellUnderASecond) {
  constexpr Rank kCount = 100'000;
  for (const Rank host_size : {1U, 8U, kCount}) {
    for (const Rank lost_one_in : {1U, 2U, 100U}) {
      Situation s;
      for (Rank rank = 0; rank < kCount; ++rank) {
        const std::string host = "host-" + std::to_string(rank / host_size);
        const std::string domain = "rack" + std::to_string(rank / host_size / 16);
        const bool lost = rank / 8 % lost_one_in == 0;
        if (lost) s.holes.push_back({rank, host, domain});
        s.candidates.push_back({kCount - rank, lost ? "new-" + host : host, domain,
                                static_cast<std::int32_t>(rank % host_size), -1,
                                lost ? -1 : std::int64_t{rank}, lost && rank % 16 < 8});
      }
      const std::clock_t start = std::clock();  // CPU time, which other load does not change
      const RankPlan plan = assign_ranks(s.candidates, s.holes, kCount - 5'000, kCount);
      const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      RecordProperty("ms_" + std::to_string(host_size) + "_" + std::to_string(lost_one_in),
                     static_cast<int>(spent * 1000));
      EXPECT_EQ(plan.parked.size(), 5'000U);
      EXPECT_LT(spent, 5 * test::kSlowdown)
          << host_size << " a host, one in " << lost_one_in << " lost";
    }
  }
}

}  // namespace
}  // namespace c10dd::core
