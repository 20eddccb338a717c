// SPDX-License-Identifier: Apache-2.0
// How long a sentence and how much work a diagnosis may become.
#include "protocol/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>

#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "tests/unit/protocol/diagnosed_job.h"

namespace c10dd::diagnosed {
namespace {

TEST(Diagnosis, LeavesOutMoreUntilTheSentenceFits) {
  DiagnosedJob job(2);
  job.ranks[1] = {1, "", 7, Is::gone, ""};
  const auto with = [&](std::size_t what, std::size_t host) {
    job.wait_fors = {WaitFor{In::barrier, std::string(what, 'b'), kStart, {0}, {1}}};
    job.ranks[1].host = std::string(host, 'h');
    return job.sentence();
  };
  const std::string end = ", which is gone; 1 rank waits";
  EXPECT_EQ(with(180, 2), std::string(180, 'b') + " waits for rank 1 on hh (pid 7)" + end);
  const std::string cut = std::string(61, 'b') + "... waits for rank 1";
  EXPECT_EQ(with(181, 2), cut + " on hh (pid 7)" + end);
  EXPECT_EQ(with(10'000, 255), cut + end);
  EXPECT_EQ(with(100, 255), std::string(100, 'b') + " waits for rank 1" + end);
  job.ranks[1].doing = std::string(10'000, 'd');
  EXPECT_EQ(with(3, 2), "bbb waits for rank 1 on hh (pid 7), which is gone: " +
                            std::string(61, 'd') + "...; 1 rank waits");
  job.wait_fors[0].lost = "\xff\n\u202e" + std::string(300, 'l');
  EXPECT_EQ(job.sentence(), "bbb ???" + std::string(230, 'l') + "...");
}

TEST(Diagnosis, FoldsRanksAndCountsStatesThatItDoesNotName) {
  DiagnosedJob job(1001);
  for (std::size_t i = 1; i <= 1000; ++i) job.ranks[i].doing = "in step " + std::to_string(i);
  job.add(In::barrier, "it", 1s, {0}, from_to(1, 1000));
  EXPECT_EQ(job.sentence(),
            "it waits for rank 1, which is in step 1, for rank 10, which is in step 10, for rank "
            "100, which is in step 100, and 997 more ranks; 1 rank waits");
  for (std::size_t i = 1; i <= 1000; ++i) job.ranks[i].doing = i % 2 ? "in step 1" : "in step 2";
  EXPECT_EQ(job.sentence(),
            "it waits for ranks [1,3,5,7,9,11,13,15,...], which are in step 1, and for ranks "
            "[2,4,6,8,10,12,14,16,...], which are in step 2; 1 rank waits");
  for (std::size_t i = 1; i <= 1000; ++i) job.ranks[i].doing.assign(100 + i % 3, 'd');
  EXPECT_TRUE(job.sentence().ends_with("..., and 667 more ranks; 1 rank waits"));
}

/// Makes a job of anything: long names, bytes that are no text, ranks that are not known.
DiagnosedJob any_job(std::mt19937& random) {
  const auto below = [&](std::size_t end) { return random() % end; };
  const auto text = [&] {
    const Texts pieces = {"a", "\xff", "\n", "\u202e", "\u00fc", "\"", "%", "{}"};
    std::string made(below(30) == 0 ? below(10'000) : below(30), 'x');
    for (std::size_t i = below(6); i > 0; --i) made += pieces[below(pieces.size())];
    return made;
  };
  DiagnosedJob job(1 + below(9));
  for (RankFacts& one : job.ranks) {
    one = {below(5) ? one.rank : std::nullopt,
           below(4) ? text() : "n",
           below(3),
           Is(below(2) * below(8)),
           text(),
           below(3) > 0};
  }
  for (std::size_t i = below(7); i > 0; --i) {
    std::vector<Places> parts(4);  // waiting, awaited, others
    for (std::size_t at = 0; at < job.ranks.size(); ++at) parts[below(4)].push_back(at);
    WaitFor& one = job.add(static_cast<In>(below(7)), text(), below(4) * 1s, parts[0], parts[1]);
    if (below(9) == 0) one.lost = text();
    if (below(9) == 0) one.issued = {{text(), parts[0]}, {text(), parts[1]}, {text(), {}}};
    if (below(5) == 0) one.queued = parts[0];
    one.unsent = below(5) == 0;
    one.unnamed = below(5) ? 0 : below(3);
    one.process_group = below(3);
    one.confirmed = below(2) == 0;
  }
  for (std::size_t i = below(2) * below(3); i > 0; --i) {
    Deviation one{.kind = Deviation::Kind(below(2)), .group = text(), .since = kStart};
    for (std::size_t at = 0; at < job.ranks.size(); ++at) {
      (below(2) ? one.ranks : one.others).push_back(at);
    }
    job.deviations.push_back(one);
  }
  return job;
}

/// Returns the same job with its ranks at other places.
DiagnosedJob turned_round(DiagnosedJob job) {
  std::ranges::reverse(job.ranks);
  const auto move = [&](Places& places) {
    for (std::size_t& at : places) at = job.ranks.size() - 1 - at;
    std::ranges::reverse(places);
  };
  for (WaitFor& one : job.wait_fors) {
    for (Places* const places : {&one.waiting, &one.awaited, &one.queued}) move(*places);
    for (IssuedCall& call : one.issued) move(call.ranks);
  }
  for (Deviation& one : job.deviations) {
    for (Places* const places : {&one.ranks, &one.others}) move(*places);
  }
  return job;
}

TEST(Diagnosis, SaysTheSameInAnyOrderOfTheRanksAndFitsAndIsText) {
  std::mt19937 random(7);
  for (int i = 0; i < 5'000; ++i) {
    const DiagnosedJob job = any_job(random);
    const Diagnosis found = job.found();
    Texts lines = found.evidence;
    lines.push_back(found.sentence);
    for (const std::string& line : lines) ASSERT_EQ(line, printable(line, 240));
    ASSERT_EQ(found.kind == Kind::none, found.state == Diagnosis::State::running);
    ASSERT_EQ(job.found(1h).sentence, found.sentence) << "no time that passes";
    const Diagnosis same = turned_round(job).found();
    ASSERT_TRUE(same.says_the_same(found)) << same.sentence << "\n" << found.sentence;
    ASSERT_EQ(std::tie(same.ranks, same.hosts, same.evidence, same.waiting),
              std::tie(found.ranks, found.hosts, found.evidence, found.waiting));
    ASSERT_EQ(std::tie(same.process_groups, same.hopeless),
              std::tie(found.process_groups, found.hopeless));
  }
}

/// Makes a job with 8 groups that each miss a rank, a long circle, or ranks in many wait-fors.
DiagnosedJob large_job(int shape, std::size_t size) {
  DiagnosedJob job(shape == 2 ? 64 : size, shape == 0);
  for (std::size_t i = 0; i < 8 && shape == 0; ++i) {
    job.barrier("g", i * 1s, from_to(i, size - 9 + i), {size - 8 + i});
  }
  for (std::size_t i = 0; i < size && shape == 1; ++i) {
    job.barrier("c", -1s * i, {i}, {(i + 1) % size});
  }
  for (std::size_t i = 0; i < size / 8 && shape == 2; ++i) {
    job.barrier("d", 1s, from_to(0, 31), from_to(32, 63));
    job.barrier("e", 1s, from_to(32, 62), {63});
  }
  return job;
}

TEST(Diagnosis, TakesTimeInProportionToTheLengthOfTheLists) {
  const auto milliseconds = [](const DiagnosedJob& job) {
    const std::clock_t began = std::clock();
    for (int i = 0; i < 5; ++i) EXPECT_NE(job.found().kind, Kind::none);
    return 1e3 / 5 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  };
  EXPECT_EQ(large_job(1, 100).found().evidence.size(), Diagnosis::kEvidence);
  for (const int shape : {0, 1, 2}) {
    const double small = milliseconds(large_job(shape, 4'096));
    const double large = milliseconds(large_job(shape, limits::kWorldSize));
    std::printf("shape %d: %.3f ms, for 32 times as many ranks %.3f ms\n", shape, small, large);
    EXPECT_LT(large, 32 * 6 * std::max(small, 0.2)) << "shape " << shape;
  }
}

}  // namespace
}  // namespace c10dd::diagnosed
