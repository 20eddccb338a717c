// SPDX-License-Identifier: Apache-2.0
// The directory maps names of jobs to numbers, for ever, and has the incarnation of the state.
#include "daemon/core/directory/directory.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/unit/core/two_sessions.h"

namespace c10dd::core {
namespace {

TEST(Directory, NamesTheStateOnceAndKeepsTheName) {
  Directory first(0);
  const Effects named = first.resume(77, false, at(0));
  EXPECT_EQ(first.incarnation(), 77u);
  ASSERT_EQ(named.rows.size(), 1u);
  EXPECT_EQ(named.revision, 1u);
  Directory second(named.revision);
  ASSERT_TRUE(second.restore(named.rows[0]));
  EXPECT_TRUE(second.resume(78, false, at(0)).rows.empty());
  EXPECT_EQ(second.incarnation(), 77u);
  EXPECT_EQ(second.revision(), 1u);
}

TEST(Directory, NamesALostStateAnew) {
  Directory first(0);
  const Effects named = first.resume(77, false, at(0));
  Directory second(named.revision);
  ASSERT_TRUE(second.restore(named.rows[0]));
  const Effects renamed = second.resume(78, true, at(0));
  EXPECT_EQ(second.incarnation(), 78u);
  EXPECT_EQ(renamed.revision, 2u);
  Directory third(renamed.revision);
  ASSERT_TRUE(third.restore(renamed.rows[0]));
  third.resume(79, false, at(0));
  EXPECT_EQ(third.incarnation(), 78u);
}

TEST(Directory, NeverNamesTheStateZero) {
  Directory directory(0);
  directory.resume(0, false, at(0));
  EXPECT_NE(directory.incarnation(), 0u);
}

TEST(Directory, MakesNoJobWithANameThatCannotBeSeenAndKeepsOneOfAnEarlierVersion) {
  Directory first(0);
  Effects made;
  for (const std::string& name : {std::string("job "), std::string("a\xe2\x80\x8b")}) {
    EXPECT_EQ(first.open(name, "", made).error().code, Code::invalid_argument);
    EXPECT_EQ(first.open("train", name, made).error().code, Code::invalid_argument);
  }
  ASSERT_TRUE(made.rows.empty());
  ASSERT_TRUE(first.open("job-", "", made));
  std::string key(made.rows[0].key);
  key[key.find('-')] = ' ';
  Directory second(0);
  ASSERT_TRUE(second.restore({Row::Kind::put, Bytes(key), Bytes(made.rows[0].value)}));
  Effects opened;
  EXPECT_EQ(second.open("job ", "", opened).value(), 1U);
  EXPECT_TRUE(opened.rows.empty());
  EXPECT_FALSE(second.open("job ", "another-run", opened));
}

TEST(Directory, GivesAJobItsNumberForEver) {
  Directory first(0);
  Effects one;
  Effects two;
  Effects again;
  EXPECT_EQ(first.open("train", "", one).value(), 1u);
  EXPECT_EQ(first.open("train", "run-2", two).value(), 2u);
  EXPECT_EQ(first.open("train", "", again).value(), 1u);
  EXPECT_EQ(one.rows.size(), 2u);
  EXPECT_TRUE(again.rows.empty());
  EXPECT_EQ(again.revision, two.revision);
  EXPECT_EQ(first.find("train", "run-3"), std::nullopt);

  Directory second(two.revision);
  for (const RowView& row : {two.rows[0], one.rows[0], two.rows[1]})
    ASSERT_TRUE(second.restore(row));
  EXPECT_EQ(second.find("train", ""), 1u);
  EXPECT_EQ(second.find("train", "run-2"), 2u);
  Effects three;
  EXPECT_EQ(second.open("other", "", three).value(), 3u);
  EXPECT_EQ(three.revision, 3u);
}

TEST(Directory, TellsNamesApartWhateverTheyContain) {
  Directory directory(0);
  Effects a;
  Effects b;
  EXPECT_NE(directory.open("ab", "c", a).value(), directory.open("a", "bc", b).value());
  EXPECT_NE(a.rows[0].key, b.rows[0].key);
}

TEST(Directory, RefusesBadNames) {
  Directory directory(0);
  for (const std::string& bad : {std::string(), std::string(limits::kNameBytes + 1, 'j'),
                                 std::string("a\nb"), std::string("\xFF")}) {
    Effects out;
    const Result<JobNumber> number = directory.open(bad, "", out);
    ASSERT_FALSE(number);
    EXPECT_EQ(number.error().code, Code::invalid_argument);
    EXPECT_TRUE(out.rows.empty());
  }
  Effects out;
  EXPECT_EQ(directory.open("job", "a\x7F", out).error().code, Code::invalid_argument);
  EXPECT_TRUE(directory.open(std::string(limits::kNameBytes, 'j'), "caf\xC3\xA9?", out));
}

TEST(Directory, RefusesDamagedRows) {
  Directory first(0);
  Effects out;
  ASSERT_TRUE(first.open("job", "run", out));
  const Row good = out.rows[0];
  for (std::size_t n = 0; n < good.value.size(); ++n) {
    Row cut = good;
    cut.value.resize(n);
    EXPECT_FALSE(Directory(0).restore(cut)) << n;
  }
  for (std::size_t n = 1; n < 9; ++n) {
    Row cut = good;
    cut.key.resize(n);
    EXPECT_FALSE(Directory(0).restore(cut)) << n;
  }
  EXPECT_FALSE(Directory(0).restore({Row::Kind::put, "x", good.value}));
  EXPECT_FALSE(Directory(0).restore({Row::Kind::put, "", good.value}));
}

TEST(Directory, RetiresARunSomeTimeAfterItsLastSession) {
  Directory directory(0);
  Effects out;
  const JobNumber run = *directory.open("train", "run", out);
  EXPECT_EQ(directory.next_deadline(), std::nullopt);
  directory.mark_idle(run, false, at(100));
  EXPECT_EQ(directory.next_deadline(), at(130));
  directory.mark_idle(run, false, at(110));
  EXPECT_EQ(directory.next_deadline(), at(140));
  EXPECT_TRUE(directory.tick(at(139)).entries.empty());
  const Directory::Retired retired = directory.tick(at(140));
  ASSERT_EQ(retired.entries.size(), 1u);
  EXPECT_EQ(retired.entries[0].number, run);
  EXPECT_EQ(directory.find("train", "run"), std::nullopt);
  ASSERT_EQ(retired.effects.rows.size(), 1u);
  EXPECT_EQ(retired.effects.rows[0].kind, Row::Kind::erase);
  EXPECT_EQ(retired.effects.rows[0].key, out.rows[0].key);
  EXPECT_EQ(retired.effects.revision, out.revision + 1);
  EXPECT_EQ(directory.next_deadline(), std::nullopt);
  EXPECT_TRUE(directory.entries().empty());
}

TEST(Directory, KeepsARunThatIsUsedAgain) {
  Directory directory(0);
  Effects out;
  const JobNumber first = *directory.open("train", "1", out);
  const JobNumber second = *directory.open("train", "2", out);
  directory.mark_idle(first, false, at(0));
  directory.mark_idle(second, false, at(0));
  EXPECT_EQ(directory.open("train", "1", out).value(), first);
  directory.mark_in_use(second);
  EXPECT_TRUE(directory.tick(at(1'000)).entries.empty());
  EXPECT_EQ(directory.entries().size(), 2u);
}

TEST(Directory, RetiresAJobWithoutARunOnlyIfItIsEmpty) {
  Directory directory(0);
  Effects out;
  const JobNumber kept = *directory.open("kept", "", out);
  const JobNumber empty = *directory.open("empty", "", out);
  directory.mark_idle(kept, false, at(0));
  directory.mark_idle(empty, true, at(0));
  directory.mark_idle(77, true, at(0));
  const Directory::Retired retired = directory.tick(at(30));
  ASSERT_EQ(retired.entries.size(), 1u);
  EXPECT_EQ(retired.entries[0].job, "empty");
  ASSERT_EQ(retired.idle.size(), 1u);
  EXPECT_EQ(retired.idle[0].number, kept);
  EXPECT_EQ(directory.next_deadline(), std::nullopt);
  EXPECT_EQ(directory.entries().size(), 1u);
  // A client used the job in time, and now the job is not empty.
  const JobNumber again = *directory.open("empty", "", out);
  EXPECT_NE(again, empty);
  directory.mark_idle(again, true, at(40));
  directory.mark_in_use(again);
  directory.mark_idle(again, false, at(50));
  EXPECT_TRUE(directory.tick(at(1'000)).entries.empty());
}

TEST(Directory, RemovesAJobWithItsRuns) {
  Directory directory(0);
  Effects out;
  std::vector<JobNumber> numbers;
  for (const char* run : {"", "1", "2"}) numbers.push_back(*directory.open("train", run, out));
  ASSERT_TRUE(directory.open("trainer", "", out));
  std::vector<JobNumber> listed;
  for (const auto& entry : directory.entries("train")) listed.push_back(entry.number);
  EXPECT_EQ(listed, numbers);
  const Revision before = directory.revision();
  const Directory::Retired removed = directory.remove(numbers);
  EXPECT_EQ(removed.effects.rows.size(), 3u);
  EXPECT_EQ(removed.effects.revision, before + 1);
  ASSERT_EQ(directory.entries().size(), 1u);
  EXPECT_EQ(directory.entries()[0].job, "trainer");
  EXPECT_TRUE(directory.remove(numbers).effects.rows.empty());
}

TEST(Directory, RetiresNoRunAfterARestartBeforeItsRowsWereLookedAt) {
  Directory first(0);
  Effects permanent;
  Effects run;
  ASSERT_TRUE(first.open("train", "", permanent));
  ASSERT_TRUE(first.open("train", "run", run));
  Directory::Limits limits;
  limits.run_grace = std::chrono::seconds(3);
  Directory second(run.revision, limits);
  for (const RowView& row : {permanent.rows[0], run.rows[0], run.rows[1]}) {
    ASSERT_TRUE(second.restore(row));
  }
  second.resume(1, false, at(1'000));
  EXPECT_EQ(second.next_deadline(), at(1'003));
  const Directory::Retired none = second.tick(at(1'003));
  EXPECT_TRUE(none.entries.empty());
  EXPECT_TRUE(none.effects.rows.empty());
  ASSERT_EQ(none.not_reopened.size(), 1u);
  EXPECT_EQ(none.not_reopened[0].job, "train");
  EXPECT_EQ(none.not_reopened[0].run, "run");
  EXPECT_EQ(none.not_reopened[0].number, 2u);
  EXPECT_EQ(second.next_deadline(), std::nullopt) << "it is taken for occupied";
  second.mark_idle(2, false, at(2'000));
  EXPECT_EQ(second.tick(at(2'003)).entries.at(0).number, 2u);
  EXPECT_EQ(second.find("train", ""), 1u);
}

TEST(Directory, LooksAtNoRunThatSomebodyHasComeTo) {
  Directory first(0);
  Effects run;
  ASSERT_TRUE(first.open("train", "run", run));
  Directory second(run.revision);
  for (const RowView& row : run.rows) ASSERT_TRUE(second.restore(row));
  second.resume(1, false, at(0));
  Effects again;
  ASSERT_TRUE(second.open("train", "run", again));
  EXPECT_TRUE(second.tick(at(1'000)).not_reopened.empty());
  second.mark_idle(1, false, at(1'000));
  EXPECT_EQ(second.tick(at(2'000)).entries.at(0).number, 1u);
}

TEST(Directory, NeverUsesANumberAgain) {
  Directory first(0);
  Effects out;
  const JobNumber number = *first.open("train", "run", out);
  first.mark_idle(number, false, at(0));
  Effects after = first.tick(at(30)).effects;
  Effects again;
  EXPECT_EQ(first.open("train", "run", again).value(), number + 1);
  Directory second(after.revision);  // with the rows that are left: the next number alone
  ASSERT_TRUE(second.restore(out.rows[1]));
  Effects anew;
  EXPECT_EQ(second.open("train", "run", anew).value(), number + 1);
}

TEST(Directory, HoldsItsLimit) {
  Directory::Limits limits;
  limits.jobs = 2;
  Directory directory(0, limits);
  Effects out;
  ASSERT_TRUE(directory.open("a", "", out));
  ASSERT_TRUE(directory.open("b", "run", out));
  Effects refused;
  const Result<JobNumber> third = directory.open("c", "", refused);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::quota_exceeded);
  EXPECT_EQ(third.error().detail,
            "too many jobs: 3 with this one, limit 2; "
            "c10ddctl jobs lists them, and c10ddctl rm NAME removes one that nobody uses");
  EXPECT_TRUE(refused.rows.empty());
  EXPECT_TRUE(directory.open("a", "", out));
  directory.mark_idle(2, false, at(0));
  directory.tick(at(30));
  EXPECT_TRUE(directory.open("c", "", out));
}

}  // namespace
}  // namespace c10dd::core
