// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other before they open a group over NCCL: their GPU, host and version; and
// peers that have another version or the same GPU, cannot use NCCL, or send no identity.
#include "collectives/nccl/identity.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/collectives/nccl/nccl_parts.h"

namespace c10dd::collectives::nccl {
namespace {

using test::contains;
using Parts = std::vector<std::string>;

/// Keeps what a rank sends, and replies what the peers have sent.
class PeersBootstrap final : public Bootstrap {
 public:
  PeersBootstrap(Rank number, Parts of) : rank(number), peers(std::move(of)) {}
  Parts transpose(Parts, Duration) override { throw Unavailable("parts for each rank"); }
  Parts all(const World&, std::string part, Duration) override {
    own = part;
    Parts everyone = peers;
    everyone.insert(everyone.begin() + rank, std::move(part));
    return everyone;
  }
  std::string local_address() const override { return "127.0.0.1"; }

  const Rank rank;
  const Parts peers;
  std::string own;
};

class IdentityTest : public test::NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    setenv("NCCL_HOSTID", "host-a", 1);
  }
  void TearDown() override {
    unsetenv("NCCL_HOSTID");
    NcclTest::TearDown();
  }

  static Place place_of(int device) { return {&test::nccl_library(), &test::cuda_device(device)}; }

  /// Returns what a rank with this place sends.
  static std::string sent(const Result<Place>& place, const char* host = "host-a") {
    setenv("NCCL_HOSTID", host, 1);
    const auto bootstrap = std::make_shared<PeersBootstrap>(0, Parts{});
    static_cast<void>(exchange_identities({{}, {}, bootstrap}, place, false));
    setenv("NCCL_HOSTID", "host-a", 1);
    return bootstrap->own;
  }
  /// Rank 1, with device 1, exchanges identities with these ranks: 0, and 2 and following.
  static Result<std::vector<Identity>> exchanged(const Parts& peers, bool needs_ids = false,
                                                 Rank rank = 1) {
    const auto size = static_cast<Rank>(peers.size() + 1);
    return exchange_identities({{.rank = rank, .size = size, .name = "pairs"},
                                {},
                                std::make_shared<PeersBootstrap>(rank, peers)},
                               place_of(1), needs_ids);
  }
  static std::string text(const Result<std::vector<Identity>>& result) {
    return result ? "no error" : result.error().detail;
  }
};

TEST_F(IdentityTest, GoesToAllInTheOrderOfTheRanks) {
  const int ids = nccl.ids_made;
  const auto all = exchanged({sent(place_of(0)), sent(place_of(2)), sent(place_of(0), "host-b")});
  ASSERT_TRUE(all) << text(all);
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ((*all)[0].bus_id, "0000:00:00.0");
  EXPECT_EQ((*all)[1].bus_id, "0000:01:00.0");
  EXPECT_EQ((*all)[2].bus_id, "0000:02:00.0");
  EXPECT_EQ((*all)[3].host, "host-b");
  EXPECT_EQ((*all)[1].host, "host-a");
  EXPECT_EQ((*all)[1].version, 22809);
  EXPECT_TRUE(exchanged({sent(place_of(0))}, true));
  EXPECT_EQ(nccl.ids_made, ids) << "rank 1 is the first of no block";
  const auto first = exchanged({sent(place_of(0))}, true, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(nccl.ids_made, ids + 1);
  EXPECT_EQ((*first)[0].id.size(), sizeof(UniqueId));
  EXPECT_TRUE((*first)[1].id.empty());
  ASSERT_TRUE(exchanged({sent(place_of(0))}, false, 0));
  EXPECT_EQ(nccl.ids_made, ids + 1) << "none is needed";
}

TEST_F(IdentityTest, OfTheSameGpuOfTheSameHostIsRefused) {
  const auto twins = exchanged({sent(place_of(0)), sent(place_of(1))});
  EXPECT_TRUE(contains(text(twins),
                       "process group \"pairs\": ranks 1 and 2 use the same GPU, "
                       "0000:01:00.0 of host host-a"))
      << text(twins);
  EXPECT_TRUE(exchanged({sent(place_of(0)), sent(place_of(1), "host-b")}));
}

TEST_F(IdentityTest, OfAnotherVersionIsRefused) {
  const Library other;  // its version is 0
  const Place old{&other, &test::cuda_device(2)};
  const auto mixed = exchanged({sent(place_of(0)), sent(old)});
  EXPECT_TRUE(contains(text(mixed), "rank 0 has NCCL version 22809, but rank 2 has 0"))
      << text(mixed);
}

TEST_F(IdentityTest, OfARankThatCannotUseNcclHasItsReasonAndCode) {
  const Result<Place> none = failure(Code::unavailable, "no GPU can be used: drill");
  const auto failed = exchanged({sent(place_of(0)), sent(none)});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_EQ(failed.error().detail, "rank 2: no GPU can be used: drill");
  EXPECT_TRUE(contains(text(exchanged({sent(none)}, true)), "rank 0: no GPU can be used: drill"));
}

TEST_F(IdentityTest, ThatIsNoneIsRefused) {
  const std::string good = sent(place_of(0));
  for (const std::string& lie : {std::string(), std::string("x"), std::string(400, '\xff'),
                                 good.substr(0, good.size() - 1)}) {
    EXPECT_FALSE(exchanged({good, lie})) << lie.size();
  }
}

TEST_F(IdentityTest, OfTheHostIsItsNameAndBootUnlessItIsChosen) {
  const auto host_of = [] {
    const auto all = exchange_identities({{}, {}, std::make_shared<PeersBootstrap>(0, Parts{})},
                                         place_of(0), false);
    return all->front().host;
  };
  EXPECT_EQ(host_of(), "host-a");
  setenv("NCCL_HOSTID", "", 1);
  const std::string found = host_of();
  EXPECT_GT(found.size(), 10u) << found;
  EXPECT_NE(found.find('/'), std::string::npos) << found;
  EXPECT_NE(found.back(), '/') << found;
}

TEST_F(IdentityTest, ADeviceIsThatOfTheOptionsOrOfTheRankInTheJob) {
  BackendSetup setup{{.rank = 1, .size = 2}, {}, nullptr};
  const auto chosen = [&]() -> int {
    const Result<Place> place = find_place(setup);
    return place ? place->device->index() : -1;
  };
  EXPECT_EQ(chosen(), 1);
  setup.world.members = {{.job_rank = 4}, {.job_rank = 13}};
  EXPECT_EQ(chosen(), 13 % 8);
  setenv("C10DD_RANK", "1", 1);
  setenv("C10DD_WORLD_SIZE", "16", 1);
  setenv("C10DD_LOCAL_RANK", "3", 1);
  EXPECT_EQ(chosen(), 3) << "the launcher knows better";
  setenv("C10DD_LOCAL_RANK", "8", 1);
  EXPECT_TRUE(contains(find_place(setup).error().detail, "the local rank is 8, but"));
  for (const char* name : {"C10DD_RANK", "C10DD_WORLD_SIZE", "C10DD_LOCAL_RANK"}) unsetenv(name);
  setup.options.device = 6;
  EXPECT_EQ(chosen(), 6);
  setup.options.device = 0;
  EXPECT_EQ(chosen(), 0);
  setup.options.device = 8;
  EXPECT_TRUE(contains(find_place(setup).error().detail,
                       "GroupOptions::device is 8, but this process has 8 GPUs"));
}

TEST_F(IdentityTest, TheLibrarySaysWhatHasFailed) {
  const Library& library = test::nccl_library();
  EXPECT_EQ(library.version_text(), "2.28.9");
  EXPECT_EQ(*Library::load(), &library);
  EXPECT_EQ(library.text_of("ncclDrill", Status::internal_error),
            "ncclDrill: internal error (socketProgress: Connection closed by remote peer)");
}

}  // namespace
}  // namespace c10dd::collectives::nccl
