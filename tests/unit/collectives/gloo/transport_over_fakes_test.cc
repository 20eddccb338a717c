// SPDX-License-Identifier: Apache-2.0
// The transport of the backend gloo over peers that the test plays: deadlines, stops, peers that
// leave or die while a collective runs, and the opening of the group.
#include "collectives/gloo/transport.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/collectives/gloo/fake_network.h"

namespace c10dd::collectives {
namespace {

using namespace std::chrono_literals;
using test::FakeBytes;
using test::FakeNetwork;

constexpr std::uint8_t kWork = 1;  // as the collectives of Gloo
constexpr std::uint8_t kExit = 0x7e;

constexpr std::uint64_t slot_of(std::uint8_t kind) { return std::uint64_t{kind} << 56; }

using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;

/// Rank 0 of three. Checks at the end that nothing is held.
struct World0 {
  World0() { transport->watch({{"host-a", 10}, {"host-b", 11}, {"host-c", 12}}); }
  ~World0() {
    transport.reset();
    EXPECT_EQ(network.buffers, 0);
    EXPECT_EQ(network.pairs, 0);
    EXPECT_EQ(network.waits, 0);
  }

  /// Runs a collective that receives from these ranks, one after the other. Returns whether it got
  /// all, and no wait threw.
  std::future<bool> collective(std::vector<int> from, Duration timeout = 1h,
                               std::uint64_t sequence = 5) {
    Operation operation{.collective = Collective::all_reduce, .sequence = sequence};
    operation.timeout = timeout;
    operation.deadline = std::chrono::steady_clock::now() + timeout;
    EXPECT_TRUE(transport->begin(operation));
    return std::async(std::launch::async, [this, from] {
      bool all = true;
      {
        std::vector<char> memory(64);
        std::vector<Buffer> buffers;
        try {
          for (const int peer : from) {
            buffers.push_back(transport->createUnboundBuffer(memory.data(), memory.size()));
            buffers.back()->recv(peer, slot_of(kWork), 0, memory.size());
          }
          for (const Buffer& one : buffers) one->waitRecv(nullptr, 1ms);
        } catch (const Stopped&) {
          all = false;
        } catch (const ::gloo::IoException& error) {
          transport->stop_for_lost_peer("", error.what());
          all = false;
        }
      }
      transport->end();
      return all;
    });
  }
  void await_waiting() {
    ASSERT_TRUE(network.await([&] { return network.waits > 0; }));
  }
  void send_exit(int peer, Code code, const std::string& text, std::vector<Rank> lost = {}) {
    FakeBytes bytes(512);
    bytes[0] = std::byte{static_cast<std::uint8_t>(code)};
    bytes[1] = std::byte{static_cast<std::uint8_t>(lost.size())};
    std::size_t at = 2;
    for (const Rank rank : lost) {
      std::memcpy(bytes.data() + at, &rank, sizeof(rank));
      at += sizeof(rank);
    }
    std::memcpy(bytes.data() + at, text.data(), text.size());
    network.deliver(peer, slot_of(kExit), std::move(bytes));
  }
  /// The code and text of the exit message that the peer gets.
  std::pair<Code, std::string> told(int peer) {
    const FakeBytes bytes = network.next(peer, kExit).bytes;
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    const std::size_t lost = static_cast<std::size_t>(text[1]) * sizeof(Rank);
    return {static_cast<Code>(text[0]), text + 2 + lost};
  }

  FakeNetwork network;
  std::shared_ptr<Transport> transport =
      std::make_shared<Transport>(std::make_shared<test::FakeContext>(network, 0, 3));
};

std::string text_of(const std::optional<Failure>& reason) {
  return reason ? reason->detail : "not stopped";
}

std::vector<Rank> ranks_of(const std::optional<Failure>& reason) {
  std::vector<Rank> ranks;
  for (const MissingRank& one : reason->missing) ranks.push_back(one.rank);
  return ranks;
}

TEST(TransportOverFakes, ADeadlineNamesOnlyTheRankForWhichAWaitRuns) {
  World0 world;
  auto got = world.collective({1, 2}, 250ms);
  EXPECT_FALSE(got.get());
  EXPECT_EQ(world.transport->stopped()->code, Code::timed_out);
  EXPECT_EQ(text_of(world.transport->stopped()),
            "all_reduce 5 timed out after 0.25 s waiting for rank 1 on host-b (pid 11)");
  EXPECT_EQ(ranks_of(world.transport->stopped()), std::vector<Rank>{1});
  EXPECT_EQ(world.network.frames(1, kExit), 0u) << "each peer must reach its own deadline";
  EXPECT_TRUE(world.network.closed.empty());
  world.transport.reset();
  for (const int peer : {1, 2}) EXPECT_EQ(world.told(peer).first, Code::timed_out);
}

TEST(TransportOverFakes, ACollectiveWaitsForTheNextRankAfterTheFirstHasSent) {
  World0 world;
  world.network.deliver(1, slot_of(kWork), FakeBytes(8));
  auto got = world.collective({1, 2}, 250ms);
  EXPECT_FALSE(got.get());
  EXPECT_EQ(ranks_of(world.transport->stopped()), std::vector<Rank>{2});
}

TEST(TransportOverFakes, ABufferWithTwoReceivesKnowsWhichOneIsLeft) {
  World0 world;
  Operation operation{.collective = Collective::all_reduce, .sequence = 5};
  operation.timeout = 250ms;
  operation.deadline = std::chrono::steady_clock::now() + 250ms;
  ASSERT_TRUE(world.transport->begin(operation));
  std::vector<char> memory(64);
  {
    const Buffer buffer = world.transport->createUnboundBuffer(memory.data(), memory.size());
    for (const int peer : {1, 2}) buffer->recv(peer, slot_of(kWork), 0, memory.size());
    buffer->send(1, slot_of(kWork), 0, 8);
    world.network.deliver(2, slot_of(kWork), FakeBytes(8));
    int source = -1;
    EXPECT_TRUE(buffer->waitRecv(&source, 1ms));
    EXPECT_EQ(source, 2);
    EXPECT_TRUE(buffer->waitSend(&source, 1ms));
    EXPECT_EQ(source, 1);
    EXPECT_THROW(buffer->waitRecv(&source, 1ms), Stopped);
  }
  world.transport->end();
  EXPECT_EQ(ranks_of(world.transport->stopped()), std::vector<Rank>{1});
}

TEST(TransportOverFakes, ADeadlineIsThatOfTheRunningCollective) {
  std::unique_ptr<World0> in_time;
  for (int tries = 0; tries < 20 && !in_time; ++tries) {  // again if this machine stands still
    in_time = std::make_unique<World0>();
    in_time->network.deliver(1, slot_of(kWork), FakeBytes(8));
    if (!in_time->collective({1}, 200ms, 6).get()) in_time.reset();
  }
  ASSERT_TRUE(in_time);
  World0& world = *in_time;
  auto next = world.collective({1}, 1h, 7);
  EXPECT_NE(next.wait_for(300ms), std::future_status::ready) << "of the one before";
  EXPECT_EQ(text_of(world.transport->stopped()), "not stopped");
  world.network.deliver(1, slot_of(kWork), FakeBytes(8));
  EXPECT_TRUE(next.get());
  EXPECT_FALSE(world.collective({2}, 250ms, 8).get());
  EXPECT_EQ(text_of(world.transport->stopped()),
            "all_reduce 8 timed out after 0.25 s waiting for rank 2 on host-c (pid 12)");
}

TEST(TransportOverFakes, AStopWakesTheWaitAndRefusesWhatComesLater) {
  World0 world;
  auto got = world.collective({2});
  world.await_waiting();
  const Buffer idle = world.transport->createUnboundBuffer(nullptr, 0);
  idle->recv(1, slot_of(kWork), 0, 0);
  int calls = 0;
  world.transport->on_stop([&] { ++calls; });
  world.transport->stop(failure(Code::aborted, "first"), failure(Code::aborted, "rank 0: first"),
                        Transport::Closing::now);
  world.transport->stop(failure(Code::internal, "second"), failure(Code::internal, "second"),
                        Transport::Closing::now);
  EXPECT_FALSE(got.get());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(text_of(world.transport->stopped()), "first");
  EXPECT_THROW(idle->waitRecv(nullptr, 1ms), Stopped);
  EXPECT_THROW(idle->send(1, slot_of(kWork), 0, 0), Stopped);
  EXPECT_THROW(idle->recv(1, slot_of(kWork), 0, 0), Stopped);
  const Result<void> begun = world.transport->begin({});
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().detail, "first");
  for (const int peer : {1, 2}) {
    EXPECT_EQ(world.told(peer), (std::pair<Code, std::string>(Code::aborted, "rank 0: first")));
  }
  EXPECT_TRUE(world.network.await([&] { return world.network.closed == std::set<int>{1, 2}; }));
  world.transport->on_stop([&] { ++calls; });
  EXPECT_EQ(calls, 2) << "it was stopped before";
  world.transport->on_stop(nullptr);
}

TEST(TransportOverFakes, APeerThatCannotBeToldDelaysTheOthersOnlyForAMoment) {
  World0 world;
  world.network.end_connection(1);
  world.transport->stop(failure(Code::aborted, "x"), failure(Code::aborted, "rank 0 gave up"),
                        Transport::Closing::now);
  EXPECT_EQ(world.told(2).second, "rank 0 gave up");
  EXPECT_EQ(world.network.frames(1, kExit), 0u);
}

TEST(TransportOverFakes, APeersReasonEndsACollectiveThatWaitsForAnother) {
  World0 world;
  auto got = world.collective({2});
  world.await_waiting();
  world.send_exit(1, Code::aborted, "rank 1 aborted: the user", {2});
  world.network.end_connection(1);
  EXPECT_FALSE(got.get());
  const auto reason = world.transport->stopped();
  EXPECT_EQ(reason->code, Code::aborted);
  EXPECT_EQ(reason->detail, "all_reduce 5 failed: rank 1 aborted: the user");
  EXPECT_EQ(ranks_of(reason), std::vector<Rank>{2});
  EXPECT_EQ(world.told(2),
            (std::pair<Code, std::string>(Code::aborted, "rank 1 aborted: the user")))
      << "it is passed on as it was";
}

TEST(TransportOverFakes, ADeathInTheMiddleOfAMessageIsNoticedThoughNobodyWakesTheWait) {
  World0 world;
  auto got = world.collective({1});
  world.await_waiting();
  world.network.end_connection(1, {kWork});
  EXPECT_FALSE(got.get());
  const auto reason = world.transport->stopped();
  EXPECT_EQ(reason->code, Code::unavailable);
  EXPECT_EQ(reason->detail,
            "all_reduce 5 failed: lost the connection to rank 1 on host-b (pid 11); check the end "
            "of the lost rank's log");
  EXPECT_EQ(ranks_of(reason), std::vector<Rank>{1});
  EXPECT_EQ(world.told(2).first, Code::unavailable);
}

TEST(TransportOverFakes, ADeathOfARankThatHasDoneItsPartEndsNothing) {
  World0 world;
  auto got = world.collective({2});
  world.await_waiting();
  world.network.end_connection(1);
  // The guard looks every 50 ms: it has seen the death several times.
  EXPECT_NE(got.wait_for(300ms), std::future_status::ready);
  EXPECT_EQ(text_of(world.transport->stopped()), "not stopped");
  world.network.deliver(2, slot_of(kWork), FakeBytes(8));
  EXPECT_TRUE(got.get());
}

TEST(TransportOverFakes, AnOperationThatAnEndedConnectionFailsIsExplainedByTheWorstPeer) {
  struct Case {
    std::vector<Code> exits;  // of ranks 1 and 2; ok: it died
    Code code;
    std::string text;
    std::vector<Rank> lost;
  };
  const std::vector<Case> cases = {
      {{Code::closed, Code::closed}, Code::unavailable, "send 3 failed: rank 2 left", {2}},
      {{Code::closed, Code::ok},
       Code::unavailable,
       "send 3 failed: lost the connection to rank 2 on host-c (pid 12); check the end of the lost "
       "rank's log",
       {2}},
      {{Code::closed, Code::internal}, Code::internal, "send 3 failed: rank 2 left", {}},
      {{Code::timed_out, Code::ok}, Code::timed_out, "send 3 failed: rank 1 left", {}}};
  for (const Case& one : cases) {
    World0 world;
    for (const int peer : {1, 2}) {
      const Code code = one.exits[static_cast<std::size_t>(peer) - 1];
      const std::string text = "rank " + std::to_string(peer) + " left";
      if (code != Code::ok) world.send_exit(peer, code, text);
      world.network.end_connection(peer);
    }
    world.transport->stop_for_lost_peer("send 3", "connection reset");
    EXPECT_EQ(world.transport->stopped()->code, one.code) << one.text;
    EXPECT_EQ(text_of(world.transport->stopped()), one.text);
    EXPECT_EQ(ranks_of(world.transport->stopped()), one.lost) << one.text;
  }
}

}  // namespace
}  // namespace c10dd::collectives
