// SPDX-License-Identifier: Apache-2.0
// Bytes of any size, over every backend.
#include "collectives/bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/errors.h"
#include "tests/unit/collectives/thread_ranks.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using test::open_groups;
using test::run_ranks;

class BytesOfRanks : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr Rank kSize = 3;
  std::vector<std::shared_ptr<ProcessGroup>> open() const {
    return open_groups(kSize, {.backend = GetParam(), .timeout = 60s});
  }
};

/// Rank 0 has none; the others have more the higher they are, with zero bytes among them.
std::string bytes_of(Rank rank) {
  std::string bytes(rank * 5000, static_cast<char>('a' + rank));
  if (!bytes.empty()) bytes[1] = '\0';
  return bytes;
}

TEST_P(BytesOfRanks, AreGatheredBroadcastAndScattered) {
  const auto groups = open();
  const std::vector<std::string> all = {bytes_of(0), bytes_of(1), bytes_of(2)};
  run_ranks(kSize, [&](Rank rank) {
    ProcessGroup& group = *groups[rank];
    EXPECT_EQ(all_gather_bytes(group, bytes_of(rank)), all);
    for (Rank root = 0; root < kSize; ++root) {
      const bool is_root = rank == root;
      EXPECT_EQ(gather_bytes(group, bytes_of(rank), root),
                is_root ? all : std::vector<std::string>{});
      EXPECT_EQ(broadcast_bytes(group, bytes_of(rank), root), bytes_of(root));
      EXPECT_EQ(scatter_bytes(group, is_root ? all : std::vector<std::string>{"ignored"}, root),
                bytes_of(rank));
    }
  });
}

TEST_P(BytesOfRanks, AreSentAndReceived) {
  const auto groups = open();
  run_ranks(kSize, [&](Rank rank) {
    if (rank > 0) return send_bytes(*groups[rank], bytes_of(rank), 0, 40 + rank);
    for (int i = 0; i < 2; ++i) {
      const ReceivedBytes got = recv_bytes(*groups[0], kAnyRank, kAnyTag);
      EXPECT_EQ(got.bytes, bytes_of(got.source));
      EXPECT_EQ(got.tag, 40 + got.source);
    }
  });
}

TEST_P(BytesOfRanks, PartsMustBeOneForEachRank) {
  const auto groups = open();
  EXPECT_THROW(scatter_bytes(*groups[0], {"one"}, 0), InvalidArgument);
  run_ranks(kSize, [&](Rank rank) { groups[rank]->barrier(); });
}

INSTANTIATE_TEST_SUITE_P(Backends, BytesOfRanks, ::testing::ValuesIn(test::backends()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace c10dd
