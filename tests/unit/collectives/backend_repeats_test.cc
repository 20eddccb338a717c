// SPDX-License-Identifier: Apache-2.0
// Every collective many times in one group, one after the other and many at once: what a backend
// takes for an operation it gives back, and an operation is not confused with the one before it.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/process_group.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::Groups;
using test::kAsync;
using test::open_groups;
using test::run_ranks;

using Values = std::vector<std::int64_t>;

constexpr Rank kRanks = 3;
constexpr int kRepeats = 70;

/// One operation of a rank, with memory of its own. `round` makes its values unlike the others.
struct Try {
  Values in;
  Values out;
  Values expected;
  WorkPtr work;
  WorkPtr sent;  ///< null, or a send beside it
};

std::int64_t value_of(Rank rank, int round, std::size_t place) {
  return 1'000'000 * rank + 1'000 * round + static_cast<std::int64_t>(place);
}

Values values_of(Rank rank, int round, std::size_t count) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(rank, round, i);
  return values;
}

Values sum_of(int round, std::size_t count, std::size_t first = 0) {
  Values sum(count);
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += value_of(rank, round, first + i);
  }
  return sum;
}

Values gathered(int round, std::size_t count) {
  Values all;
  for (Rank rank = 0; rank < kRanks; ++rank) {
    for (const std::int64_t value : values_of(rank, round, count)) all.push_back(value);
  }
  return all;
}

struct Kind {
  const char* name;
  std::function<void(ProcessGroup& group, Rank rank, int round, Try& one)> start;
};

constexpr std::size_t kElements = 5;

void all_reduce(ProcessGroup& group, Rank rank, int round, Try& one) {
  one.out = values_of(rank, round, kElements);
  one.expected = sum_of(round, kElements);
  one.work = group.all_reduce(tensor_of(one.out), ReduceOp::sum, kAsync);
}

void reduce(ProcessGroup& group, Rank rank, int round, Try& one) {
  const Rank root = static_cast<Rank>(round) % kRanks;
  one.out = values_of(rank, round, kElements);
  if (rank == root) one.expected = sum_of(round, kElements);
  one.work = group.reduce(tensor_of(one.out), root, ReduceOp::sum, kAsync);
}

void broadcast(ProcessGroup& group, Rank rank, int round, Try& one) {
  const Rank root = static_cast<Rank>(round) % kRanks;
  one.out = values_of(rank, round, kElements);
  one.expected = values_of(root, round, kElements);
  one.work = group.broadcast(tensor_of(one.out), root, kAsync);
}

void all_gather(ProcessGroup& group, Rank rank, int round, Try& one) {
  one.in = values_of(rank, round, kElements);
  one.out.resize(kElements * kRanks);
  one.expected = gathered(round, kElements);
  one.work = group.all_gather_single(tensor_of(one.out), tensor_of(one.in), kAsync);
}

void gather(ProcessGroup& group, Rank rank, int round, Try& one) {
  const Rank root = static_cast<Rank>(round) % kRanks;
  one.in = values_of(rank, round, kElements);
  if (rank == root) one.out.resize(kElements * kRanks);
  if (rank == root) one.expected = gathered(round, kElements);
  one.work = group.gather_single(tensor_of(one.out), tensor_of(one.in), root, kAsync);
}

void scatter(ProcessGroup& group, Rank rank, int round, Try& one) {
  const Rank root = static_cast<Rank>(round) % kRanks;
  if (rank == root) one.in = values_of(root, round, kElements * kRanks);
  one.out.resize(kElements);
  const Values all = values_of(root, round, kElements * kRanks);
  one.expected.assign(all.begin() + rank * kElements, all.begin() + (rank + 1) * kElements);
  one.work = group.scatter_single(tensor_of(one.out), tensor_of(one.in), root, kAsync);
}

void reduce_scatter(ProcessGroup& group, Rank rank, int round, Try& one) {
  one.in = values_of(rank, round, kElements * kRanks);
  one.out.resize(kElements);
  one.expected = sum_of(round, kElements, rank * kElements);
  one.work =
      group.reduce_scatter_single(tensor_of(one.out), tensor_of(one.in), ReduceOp::sum, kAsync);
}

void all_to_all(ProcessGroup& group, Rank rank, int round, Try& one) {
  one.in = values_of(rank, round, kElements * kRanks);
  one.out.resize(kElements * kRanks);
  for (Rank from = 0; from < kRanks; ++from) {
    for (std::size_t i = 0; i < kElements; ++i) {
      one.expected.push_back(value_of(from, round, rank * kElements + i));
    }
  }
  one.work = group.all_to_all_single(tensor_of(one.out), tensor_of(one.in), kAsync);
}

void barrier(ProcessGroup& group, Rank, int, Try& one) { one.work = group.barrier(kAsync); }

/// Passes values around the ring.
void ring(ProcessGroup& group, Rank rank, int round, Try& one) {
  const Rank next = (rank + 1) % kRanks;
  const Rank last = (rank + kRanks - 1) % kRanks;
  one.in = values_of(rank, round, kElements);
  one.out.resize(kElements);
  one.expected = values_of(last, round, kElements);
  if (rank == 0) {
    one.sent = group.isend(tensor_of(one.in), next);
    one.work = group.irecv(tensor_of(one.out), last);
  } else {
    one.work = group.irecv(tensor_of(one.out), last);
    one.sent = group.isend(tensor_of(one.in), next);
  }
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"all_reduce", all_reduce},
                                        {"reduce", reduce},
                                        {"broadcast", broadcast},
                                        {"all_gather", all_gather},
                                        {"gather", gather},
                                        {"scatter", scatter},
                                        {"reduce_scatter", reduce_scatter},
                                        {"all_to_all", all_to_all},
                                        {"barrier", barrier},
                                        {"ring", ring}};
  return all;
}

void expect_right(const Kind& kind, Rank rank, int round, const Try& one) {
  one.work->wait();
  if (one.sent) one.sent->wait();
  if (!one.expected.empty()) {
    EXPECT_EQ(one.out, one.expected) << kind.name << ", rank " << rank << ", round " << round;
  }
}

class BackendRepeats : public testing::TestWithParam<std::string> {
 protected:
  Groups open() const { return open_groups(kRanks, {.backend = GetParam(), .timeout = 60s}); }
};

TEST_P(BackendRepeats, EachOperationOneAfterTheOther) {
  const Groups groups = open();
  run_ranks(kRanks, [&](Rank rank) {
    for (const Kind& kind : kinds()) {
      for (int round = 0; round < kRepeats; ++round) {
        Try one;
        kind.start(*groups[rank], rank, round, one);
        expect_right(kind, rank, round, one);
      }
    }
  });
}

TEST_P(BackendRepeats, EachOperationManyAtOnce) {
  const Groups groups = open();
  run_ranks(kRanks, [&](Rank rank) {
    for (const Kind& kind : kinds()) {
      std::vector<Try> tries(kRepeats);
      for (int round = 0; round < kRepeats; ++round) {
        kind.start(*groups[rank], rank, round, tries[round]);
      }
      for (int round = 0; round < kRepeats; ++round) {
        expect_right(kind, rank, round, tries[round]);
      }
    }
  });
}

TEST_P(BackendRepeats, AllOperationsMixedWhileEachRankWaitsForAnother) {
  const Groups groups = open();
  run_ranks(kRanks, [&](Rank rank) {
    const int all = static_cast<int>(kinds().size()) * 20;
    std::vector<Try> tries(all);
    for (int round = 0; round < all; ++round) {
      const Kind& kind = kinds()[round * 7 % kinds().size()];
      kind.start(*groups[rank], rank, round, tries[round]);
      if (round % 5 == static_cast<int>(rank)) expect_right(kind, rank, round, tries[round]);
    }
    for (int round = 0; round < all; ++round) {
      expect_right(kinds()[round * 7 % kinds().size()], rank, round, tries[round]);
    }
    groups[rank]->shutdown();
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendRepeats, testing::ValuesIn(test::backends()),
                         [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace c10dd
