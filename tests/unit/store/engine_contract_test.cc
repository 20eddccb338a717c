// SPDX-License-Identifier: Apache-2.0
// The contract of store/engine.h, one body for every engine of the build, Redis on a real server.
#include <limits>

#include "protocol/limits.h"
#include "tests/unit/store/engine_home.h"

namespace c10dd::store {
namespace {

using Contents = std::map<Bytes, Bytes>;
using Outcomes = std::vector<Outcome>;

constexpr JobNumber kJob = 7;

Row put(Bytes key, Bytes value) { return {Row::Kind::put, std::move(key), std::move(value)}; }
Row erase(Bytes key) { return {Row::Kind::erase, std::move(key), {}}; }
Row erase_prefix(Bytes key) { return {Row::Kind::erase_prefix, std::move(key), {}}; }

class EngineContract : public EngineTest {
 protected:
  Claim claim(JobNumber job = kJob) {
    Result<Claim> claimed = engine_->claim(job);
    EXPECT_TRUE(claimed) << claimed.error().detail;
    return claimed ? *claimed : Claim{};
  }
  Outcome commit(const JobBatch& batch) { return engine_->commit({&batch, 1}).at(0); }
};

class PersistentEngine : public EngineContract {};

TEST_P(EngineContract, NamesItselfAndItsDurability) {
  EXPECT_EQ(engine_->name(), GetParam());
  EXPECT_EQ(engine_->durability(), GetParam() == "memory" ? "none" : "fsync");
  EXPECT_EQ(engine_->shared(), GetParam() == "redis");
}

TEST_P(EngineContract, StartsEmpty) {
  EXPECT_TRUE(engine_->jobs()->empty());
  EXPECT_TRUE(rows_of(*engine_, kJob).empty());
  const Claim first = claim();
  EXPECT_GT(first.epoch, 0u);
  EXPECT_EQ(first.revision, 0u);
  EXPECT_TRUE(rows_of(*engine_, kJob).empty());
}

TEST_P(EngineContract, AClaimTellsWhereEpochsBegan) {
  std::vector<EpochStart> begun;
  for (Revision revision = 0; revision < kEpochStarts + 3; ++revision) {
    const Claim now = claim();
    begun.push_back({now.epoch, revision});
    EXPECT_EQ(now.starts.back(), begun.back());
    if (engine_->shared()) {
      const std::size_t known = std::min(begun.size(), kEpochStarts);
      EXPECT_EQ(now.starts,
                std::vector<EpochStart>(begun.end() - static_cast<long>(known), begun.end()));
    }
    ASSERT_EQ(commit({kJob, now.epoch, revision, revision + 1, {put("a", "1")}}), Outcome::durable);
  }
}

TEST_P(EngineContract, AClaimNeedsItsPrecondition) {
  const Epoch directory = claim(0).epoch;
  ASSERT_EQ(commit({0, directory, 0, 1, {put("i", "one")}}), Outcome::durable);
  const ClaimTerms right{.state = {"i", "one"}};
  EXPECT_TRUE(engine_->claim(kJob, right));
  if (GetParam() == "rocksdb") return;  // nobody else can change its state
  for (const Precondition& wrong : {Precondition{"i", "two"}, Precondition{"n", "one"}}) {
    EXPECT_EQ(engine_->claim(8, {.state = wrong}).error().code, Code::state_rolled_back);
  }
  EXPECT_TRUE(engine_->claim(kJob, right)) << "the engine goes on";
}

TEST_P(EngineContract, LoadsWhatWasCommitted) {
  const Epoch epoch = claim().epoch;
  EXPECT_EQ(commit({kJob, epoch, 0, 1, {put("b", "2"), put("a", "1")}}), Outcome::durable);
  EXPECT_EQ(commit({kJob, epoch, 1, 2, {put("c", "3"), put("a", ""), erase("b")}}),
            Outcome::durable);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", ""}, {"c", "3"}}));
}

TEST_P(EngineContract, KeepsArbitraryBytesInUnsignedOrder) {
  const Epoch epoch = claim().epoch;
  Contents expected;
  JobBatch batch{kJob, epoch, 0, 1, {}};
  for (int a = 0; a < 256; ++a) {
    Bytes key(1, static_cast<char>(a));
    key += Bytes("\0\xff\r\n", 4);
    for (const Bytes& name : {key, key.substr(0, 1), key + key}) {
      expected[name] = name + Bytes(3, '\0') + name;
      batch.rows.push_back(put(name, expected[name]));
    }
  }
  expected[""] = "the empty key";
  batch.rows.push_back(put("", "the empty key"));
  EXPECT_EQ(commit(batch), Outcome::durable);
  EXPECT_EQ(rows_of(*engine_, kJob), expected);
}

TEST_P(EngineContract, AppliesTheRowsOfABatchInOrder) {
  const Epoch epoch = claim().epoch;
  commit({kJob, epoch, 0, 1, {put("p1", "old"), put("p2", "old"), put("q", "old")}});
  EXPECT_EQ(commit({kJob,
                    epoch,
                    1,
                    2,
                    {put("p3", "new"), put("q", "a"), erase_prefix("p"), put("p2", "kept"),
                     put("q", "b"), erase("q"), put("r", "1"), put("r", "2"), erase("none")}}),
            Outcome::durable);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"p2", "kept"}, {"r", "2"}}));
}

TEST_P(EngineContract, ErasesExactlyThePrefix) {
  const Bytes nul("n\0", 2);
  const Contents all{{"a", ""},         {"a\xff", ""}, {"a\xff\xff", ""}, {"a\xff\xffz", ""},
                     {"b", ""},         {"\xff", ""},  {"\xff\xff", ""},  {"g*h?[i]\\j^-", ""},
                     {"g*h?[i]\\", ""}, {"gxhyi", ""}, {nul, ""},         {nul + "1", ""},
                     {"n", ""},         {"n1", ""}};
  Revision revision = 0;
  const Epoch epoch = claim().epoch;
  for (const Bytes& prefix :
       std::vector<Bytes>{"a\xff\xff", "\xff", "g*h?[i]\\", nul, "zz", "g*", ""}) {
    JobBatch batch{kJob, epoch, revision, revision + 1, {}};
    for (const auto& [key, value] : all) batch.rows.push_back(put(key, value));
    batch.rows.push_back(erase_prefix(prefix));
    ASSERT_EQ(commit(batch), Outcome::durable);
    ++revision;
    Contents expected;
    for (const auto& [key, value] : all) {
      if (!key.starts_with(prefix)) expected[key] = value;
    }
    EXPECT_EQ(rows_of(*engine_, kJob), expected) << testing::PrintToString(prefix);
  }
}

TEST_P(EngineContract, RefusesAGapInTheChainWithoutAnyEffect) {
  const Epoch epoch = claim().epoch;
  ASSERT_EQ(commit({kJob, epoch, 0, 5, {put("a", "1")}}), Outcome::durable);
  ASSERT_EQ(commit({kJob, epoch, 5, 6, {put("a", "2")}}), Outcome::durable);
  for (const auto& [from, to] :
       std::vector<std::pair<Revision, Revision>>{{7, 8}, {0, 5}, {0, 6}, {4, 7}, {5, 7}, {0, 7}}) {
    EXPECT_EQ(commit({kJob, epoch, from, to, {erase_prefix(""), put("x", "")}}),
              from > 6 ? Outcome::lost : Outcome::fenced)
        << from << ".." << to;
  }
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "2"}}));
  EXPECT_EQ(commit({kJob, epoch, 6, 7, {}}), Outcome::durable);
}

TEST_P(EngineContract, TakesTheNewestCommitAgainAsSuccess) {
  const Epoch epoch = claim().epoch;
  ASSERT_EQ(commit({kJob, epoch, 0, 3, {put("old", "")}}), Outcome::durable);
  const std::vector<JobBatch> batches{{kJob, epoch, 3, 4, {put("a", "1"), erase("old")}},
                                      {kJob, epoch, 4, 4, {}},
                                      {kJob, epoch, 4, 9, {put("b", "2")}}};
  EXPECT_EQ(engine_->commit(batches), Outcomes(3, Outcome::durable));
  EXPECT_EQ(engine_->commit(batches), Outcomes(3, Outcome::durable));
  EXPECT_EQ(commit(batches[0]), Outcome::durable);
  EXPECT_EQ(commit(batches[2]), Outcome::durable);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "1"}, {"b", "2"}}));

  // A repeat with an additional batch. All of it may be repeated once more.
  const std::vector<JobBatch> longer{batches[2], {kJob, epoch, 9, 10, {put("c", "3")}}};
  EXPECT_EQ(engine_->commit(longer), Outcomes(2, Outcome::durable));
  EXPECT_EQ(engine_->commit(longer), Outcomes(2, Outcome::durable));
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
}

TEST_P(EngineContract, JudgesEachBatchOfACommit) {
  const Epoch old = claim(1).epoch;
  const Epoch now = claim(1).epoch;
  const Epoch other = claim(2).epoch;
  EXPECT_EQ(engine_->commit(std::vector<JobBatch>{{1, now, 0, 1, {put("a", "1")}},
                                                  {2, other, 0, 1, {put("a", "2")}},
                                                  {1, old, 1, 2, {put("b", "old")}},
                                                  {2, other, 2, 3, {put("b", "gap")}},
                                                  {3, 1, 0, 1, {put("a", "never claimed")}},
                                                  {1, now, 1, 2, {put("a", "3")}},
                                                  {1, now + 1, 2, 3, {put("a", "future")}}}),
            (Outcomes{Outcome::durable, Outcome::durable, Outcome::fenced, Outcome::lost,
                      Outcome::absent, Outcome::durable, Outcome::fenced}));
  EXPECT_EQ(rows_of(*engine_, 1), (Contents{{"a", "3"}}));
  EXPECT_EQ(rows_of(*engine_, 2), (Contents{{"a", "2"}}));
  EXPECT_EQ(rows_of(*engine_, 3), Contents{});
  EXPECT_EQ(engine_->jobs().value(), (std::vector<JobNumber>{1, 2}));
  EXPECT_TRUE(engine_->commit({}).empty());
}

TEST_P(EngineContract, ClaimFencesTheOwnerBefore) {
  const Claim before = claim();
  ASSERT_EQ(commit({kJob, before.epoch, 0, 1, {put("a", "1")}}), Outcome::durable);
  const Claim after = claim();
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.revision, 1u);
  EXPECT_EQ(commit({kJob, before.epoch, 1, 2, {erase("a"), put("b", "")}}), Outcome::fenced);
  EXPECT_EQ(commit({kJob, before.epoch, 0, 1, {put("a", "1")}}), Outcome::fenced);
  EXPECT_EQ(commit({kJob, after.epoch, 0, 1, {put("a", "other")}}), Outcome::fenced);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "1"}}));
  EXPECT_EQ(commit({kJob, after.epoch, 1, 2, {put("a", "2")}}), Outcome::durable);
  EXPECT_EQ(engine_->renew({kJob, before.epoch}).error().code, Code::not_owner);
  EXPECT_TRUE(engine_->renew({kJob, after.epoch}));
}

TEST_P(EngineContract, ReleaseEndsAnEpoch) {
  const Claim before = claim();
  ASSERT_EQ(commit({kJob, before.epoch, 0, 4, {put("a", "1")}}), Outcome::durable);
  ASSERT_TRUE(engine_->release({kJob, before.epoch}));
  EXPECT_EQ(engine_->release({kJob, before.epoch}).error().code, Code::not_owner);
  EXPECT_EQ(commit({kJob, before.epoch, 4, 5, {put("a", "2")}}), Outcome::fenced);
  const Claim after = claim();
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.revision, 4u);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "1"}}));
}

TEST_P(EngineContract, ConfirmsOwnersOnly) {
  const Epoch old = claim(1).epoch;
  const Epoch now = claim(1).epoch;
  const Epoch other = claim(2).epoch;
  EXPECT_EQ(engine_->confirm(std::vector<Ownership>{{1, now}, {1, old}, {2, other}, {3, 1}}),
            (Outcomes{Outcome::durable, Outcome::fenced, Outcome::durable, Outcome::absent}));
  EXPECT_TRUE(engine_->confirm({}).empty());
}

TEST_P(EngineContract, KeepsJobsApart) {
  const std::vector<JobNumber> jobs{0, 1, 2, 255, 256, 1ull << 32, 1ull << 63};
  for (const JobNumber job : jobs) {
    const JobBatch batch{job, claim(job).epoch, 0, 1, {put("k", std::to_string(job)), put("", "")}};
    EXPECT_EQ(commit(batch), Outcome::durable);
  }
  EXPECT_EQ(commit({256, claim(256).epoch, 1, 2, {erase_prefix("")}}), Outcome::durable);
  EXPECT_EQ(engine_->jobs().value(), jobs);
  for (const JobNumber job : jobs) {
    EXPECT_EQ(rows_of(*engine_, job),
              job == 256 ? Contents{} : (Contents{{"k", std::to_string(job)}, {"", ""}}));
  }
}

TEST_P(EngineContract, CountsRevisionsBeyondDoubles) {
  const Revision large = std::numeric_limits<Revision>::max() - 2;
  const Epoch epoch = claim().epoch;
  ASSERT_EQ(commit({kJob, epoch, 0, large, {put("a", "1")}}), Outcome::durable);
  EXPECT_EQ(commit({kJob, epoch, large + 1, large + 2, {put("a", "gap")}}), Outcome::lost);
  EXPECT_EQ(commit({kJob, epoch, large - 1, large + 1, {put("a", "gap")}}), Outcome::fenced);
  EXPECT_EQ(commit({kJob, epoch, large, large + 1, {put("a", "2")}}), Outcome::durable);
  EXPECT_EQ(commit({kJob, epoch, large, large + 1, {put("a", "2")}}), Outcome::durable);
  EXPECT_EQ(claim().revision, large + 1);
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "2"}}));
}

TEST_P(EngineContract, TakesABatchOfAHundredThousandRows) {
  const Epoch epoch = claim().epoch;
  JobBatch batch{kJob, epoch, 0, 1, {}};
  Contents expected;
  for (int n = 0; n < 100'000; ++n) {
    Bytes key = "key/" + std::to_string(n);
    Bytes value(100, static_cast<char>(n));
    expected[key] = value;
    batch.rows.push_back(put(std::move(key), std::move(value)));
  }
  ASSERT_EQ(commit(batch), Outcome::durable);
  ASSERT_EQ(rows_of(*engine_, kJob), expected);

  JobBatch erasing{kJob, epoch, 1, 2, {}};
  for (int n = 0; n < 90'000; ++n) {
    erasing.rows.push_back(erase("key/" + std::to_string(n)));
    expected.erase("key/" + std::to_string(n));
  }
  erasing.rows.push_back(erase_prefix("key/91"));
  std::erase_if(expected, [](const auto& row) { return row.first.starts_with("key/91"); });
  ASSERT_EQ(commit(erasing), Outcome::durable);
  EXPECT_EQ(rows_of(*engine_, kJob), expected);
}

TEST_P(EngineContract, ReadsInPiecesBetweenWhichOthersCommit) {
  constexpr JobNumber kOther = kJob + 1;
  const Epoch epoch = claim().epoch;
  const Epoch other = claim(kOther).epoch;
  Contents expected;
  JobBatch batch{kJob, epoch, 0, 1, {}};
  for (int n = 0; n < 250; ++n) {
    const Bytes key = std::to_string(1000 + n);
    expected[key] = n % 50 == 0 ? Bytes(600'000, 'v') : "v";
    batch.rows.push_back(put(key, expected[key]));
  }
  ASSERT_EQ(commit(batch), Outcome::durable);
  Contents rows;
  Revision revision = 0;
  const auto reader = engine_->read(kJob);
  for (bool more = true; more; ++revision) {
    std::vector<Row> piece;
    const Result<bool> read = reader->next(piece, 100);
    ASSERT_TRUE(read) << read.error().detail;
    EXPECT_LE(piece.size(), 100U);
    std::size_t bytes = 0;
    for (Row& row : piece) {
      EXPECT_TRUE(rows.empty() || rows.rbegin()->first < row.key);
      bytes += row.value.size();
      rows[row.key] = std::move(row.value);
    }
    EXPECT_LT(bytes, 1'300'000U);
    more = *read;
    EXPECT_EQ(commit({kOther, other, revision, revision + 1, {put("k", Bytes(1, 'x'))}}),
              Outcome::durable);
  }
  EXPECT_EQ(rows, expected);
  EXPECT_GE(revision, 3U);
  EXPECT_TRUE(engine_->renew({kJob, epoch}));
}

TEST_P(EngineContract, TellsAllChangesSinceARevisionOrNone) {
  const auto apply = [](Contents& rows, const RowView& row) {
    if (row.kind == Row::Kind::put) rows[Bytes(row.key)] = row.value;
    if (row.kind == Row::Kind::erase) rows.erase(Bytes(row.key));
  };
  for (const JobNumber job : {JobNumber{0}, kJob}) {
    const Epoch epoch = claim(job).epoch;
    std::vector<Contents> states{rows_of(*engine_, job)};
    for (const Row& row : {put("a", "1"), put("b", "2"), erase("a"), put("b", "")}) {
      const Revision from = states.size() - 1;
      ASSERT_EQ(commit({job, epoch, from, from + 1, {row}}), Outcome::durable);
      states.push_back(rows_of(*engine_, job));
    }
    for (Revision from = 0; from < states.size(); ++from) {
      const Result<std::optional<Changes>> changes = engine_->changes(job, from);
      ASSERT_TRUE(changes) << changes.error().detail;
      EXPECT_EQ(changes->has_value(), engine_->shared() && job == 0);
      if (!*changes) continue;
      EXPECT_EQ((*changes)->revision, states.size() - 1);
      for (const RowView& row : (*changes)->rows) apply(states[from], row);
      EXPECT_EQ(states[from], states.back()) << "from " << from;
    }
  }
}

TEST_P(EngineContract, TakesMaximalKeysAndValues) {
  const Epoch epoch = claim().epoch;
  const Bytes key(limits::kKeyBytes, '\xff');
  const Bytes value(limits::kValueBytes, '\0');
  ASSERT_EQ(commit({kJob, epoch, 0, 1, {put(key, value), put("b", value)}}), Outcome::durable);
  EXPECT_TRUE(rows_of(*engine_, kJob) == (Contents{{key, value}, {"b", value}}));
}

TEST_P(PersistentEngine, HasTheSameRowsWhenItIsOpenedAgain) {
  const Claim before = claim();
  const JobBatch batch{kJob, before.epoch, 0, 9, {put("a", "1"), put(Bytes("\0", 1), "\xff")}};
  ASSERT_EQ(commit(batch), Outcome::durable);
  const Claim empty = claim(8);
  EXPECT_EQ(commit({8, empty.epoch, 0, 3, {}}), Outcome::durable);
  reopen();
  EXPECT_EQ(claim(8).revision, 3u) << "a revision without rows counts too";
  EXPECT_EQ(engine_->jobs().value(), (std::vector<JobNumber>{kJob, 8}));
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{"a", "1"}, {Bytes("\0", 1), "\xff"}}));
  EXPECT_EQ(engine_->confirm(std::vector<Ownership>{{kJob, before.epoch}}),
            Outcomes{Outcome::durable});
  EXPECT_EQ(commit(batch), Outcome::durable) << "an unknown outcome is resolved by repeating";
  const Claim after = claim();
  EXPECT_GT(after.epoch, before.epoch);
  EXPECT_EQ(after.revision, 9u);
  EXPECT_EQ(commit({kJob, before.epoch, 9, 10, {}}), Outcome::fenced);
  EXPECT_EQ(commit({kJob, after.epoch, 9, 10, {erase("a")}}), Outcome::durable);
  reopen();
  EXPECT_EQ(rows_of(*engine_, kJob), (Contents{{Bytes("\0", 1), "\xff"}}));
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineContract, testing::ValuesIn(built_engines()), engine_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PersistentEngine);  // a build without any
INSTANTIATE_TEST_SUITE_P(Engines, PersistentEngine, testing::ValuesIn(persistent_engines()),
                         engine_name);

}  // namespace
}  // namespace c10dd::store
