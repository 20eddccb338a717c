// SPDX-License-Identifier: Apache-2.0
// How ranks wait for each other at the end of the opening of a group, and what exit messages carry,
// over peers that the test plays.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "collectives/gloo/exit_messages.h"
#include "collectives/gloo/transport.h"
#include "tests/unit/collectives/gloo/fake_network.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::FakeBytes;
using test::FakeContext;
using test::FakeNetwork;

constexpr std::uint8_t kOpeningKind = 0x22;
constexpr std::uint64_t kOpeningSlotOfWire = std::uint64_t{kOpeningKind} << 56;
constexpr std::uint64_t kExitSlotOfWire = std::uint64_t{0x7e} << 56;

/// A rank of a group that is being opened.
struct OpeningRank {
  OpeningRank(int rank, int ranks)
      : transport(
            std::make_shared<Transport>(std::make_shared<FakeContext>(network, rank, ranks))) {
    transport->watch({});
  }
  ~OpeningRank() {
    transport.reset();
    EXPECT_EQ(network.buffers, 0);
  }
  void come(int peer) { network.deliver(peer, kOpeningSlotOfWire, {}); }
  std::size_t told(int peer) { return network.frames(peer, kOpeningKind); }

  FakeNetwork network;
  std::shared_ptr<Transport> transport;
};

TEST(TransportOpening, WaitsForEachRankAndTellsItsPeersOneAfterTheOther) {
  OpeningRank own(1, 5);  // it hears of ranks 0, 4, 2, and tells ranks 2, 3, 0
  auto opened = std::async(std::launch::async, [&] { return own.transport->await_peers(1h); });
  own.network.next(2, kOpeningKind);
  EXPECT_EQ(own.told(3), 0u) << "rank 0 has not come";
  own.come(4);
  own.come(0);
  own.network.next(3, kOpeningKind);
  own.network.next(0, kOpeningKind);
  EXPECT_NE(opened.wait_for(0s), std::future_status::ready) << "rank 2 has not come";
  own.come(2);
  EXPECT_TRUE(opened.get());
  for (const int peer : {0, 2, 3, 4}) EXPECT_EQ(own.told(peer), 0u) << "told twice: " << peer;
  // What fails later is no opening any more.
  own.network.end_connection(4);
  Operation operation{.collective = Collective::barrier, .sequence = 2};
  operation.deadline = std::chrono::steady_clock::now() + 1h;
  EXPECT_TRUE(own.transport->begin(operation));
  own.transport->stop_for_lost_peer("", "reset");
  own.transport->end();
  EXPECT_EQ(own.transport->stopped()->detail.rfind("barrier 2 failed", 0), 0u)
      << own.transport->stopped()->detail;
}

TEST(TransportOpening, ASilentRankEndsItAtItsDeadline) {
  OpeningRank own(0, 3);
  own.come(2);
  const Result<void> opened = own.transport->await_peers(200ms);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::timed_out);
  EXPECT_EQ(opened.error().detail, "opening the group timed out after 0.2 s waiting for rank 1");
}

TEST(TransportOpening, ARankThatDiesMeanwhileIsNamed) {
  OpeningRank own(0, 3);
  auto opened = std::async(std::launch::async, [&] { return own.transport->await_peers(1h); });
  own.network.next(1, kOpeningKind);
  own.network.end_connection(2);
  const Result<void> result = opened.get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::unavailable);
  EXPECT_EQ(result.error().detail.rfind("opening the group failed: lost the connection to "
                                        "rank 2",
                                        0),
            0u)
      << result.error().detail;
}

/// Sends a reason through the exit messages of one rank to those of another.
std::vector<ExitMessages::Ended> passed_on(const Failure& reason) {
  FakeNetwork from;
  FakeContext sender(from, 0, 2);
  ExitMessages(sender).send(reason);
  FakeNetwork to;
  FakeContext receiver(to, 1, 3);
  ExitMessages received(receiver);
  received.listen();
  EXPECT_TRUE(received.ended().empty());
  to.deliver(0, kExitSlotOfWire, from.next(1, 0x7e).bytes);
  EXPECT_TRUE(received.ended().empty()) << "the connection goes on";
  to.end_connection(0);
  EXPECT_EQ(received.ended().size(), 1u);
  EXPECT_EQ(to.buffers, 2) << "those of rank 2";
  to.end_connection(2);
  const auto both = received.ended();
  EXPECT_EQ(to.buffers, 0);
  return both;
}

TEST(ExitMessages, CarryTheCodeTheTextAndTheFirstLostRanks) {
  for (const std::size_t lost : {0u, 1u, 16u, 17u, 300u}) {
    Failure reason = failure(Code::aborted, "rank 7 aborted: " + std::string(600, 'x'));
    for (std::size_t i = 0; i < lost; ++i) {
      reason.missing.emplace_back().rank = static_cast<Rank>(i);
    }
    const auto ended = passed_on(reason);
    ASSERT_EQ(ended.size(), 2u);
    EXPECT_EQ(ended[1].rank, 2u);
    EXPECT_FALSE(ended[1].message) << "rank 2 has died";
    ASSERT_TRUE(ended[0].message);
    EXPECT_EQ(ended[0].message->code, Code::aborted);
    const std::size_t named = std::min<std::size_t>(lost, 16);
    ASSERT_EQ(ended[0].message->missing.size(), named);
    for (std::size_t i = 0; i < named; ++i) EXPECT_EQ(ended[0].message->missing[i].rank, i);
    EXPECT_EQ(ended[0].message->detail, reason.detail.substr(0, 512 - 2 - 1 - 4 * named));
  }
}

TEST(ExitMessages, OfAPeerThatLiesAboutItsLengthStayInTheMessage) {
  FakeNetwork network;
  FakeContext context(network, 0, 2);
  ExitMessages messages(context);
  messages.listen();
  network.deliver(1, kExitSlotOfWire, FakeBytes(512, std::byte{0xff}));
  network.end_connection(1);
  const auto ended = messages.ended();
  ASSERT_EQ(ended.size(), 1u);
  ASSERT_TRUE(ended[0].message);
  EXPECT_EQ(ended[0].message->missing.size(), 16u);
  EXPECT_EQ(ended[0].message->detail.size(), 512u - 2 - 1 - 64);
}

TEST(ExitMessages, APeerThatHasLeftBeforeTheyBeginHasDied) {
  FakeNetwork network;
  FakeContext context(network, 0, 3);
  network.end_connection(1);
  ExitMessages messages(context);
  messages.listen();
  for (int i = 0; i < 2; ++i) {  // the second look says the same
    const auto ended = messages.ended();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].rank, 1u);
    EXPECT_FALSE(ended[0].message);
  }
  EXPECT_EQ(network.buffers, 2);
}

}  // namespace
}  // namespace c10dd::collectives
