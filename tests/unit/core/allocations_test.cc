// SPDX-License-Identifier: Apache-2.0
// How often a request allocates memory, from its frame to the bytes of its reply.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "protocol/native_wire.h"
#include "tests/unit/core/host_world.h"

namespace {
std::size_t allocations = 0;
}

// Replaces the functions of the whole program, in order to count.
void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace c10dd::core {
namespace {

constexpr std::size_t kRequests = 64;

/// Encodes replies into one buffer, as the outbox of a connection does.
struct EncodingSink final : TestSink {
  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp& stamp) override {
    if (reply.op == Hello::op.code) return TestSink::deliver(channel, reply, stamp);
    good += reply.result ? 1U : 0U;
    native::ReplyHeader header;
    header.op = reply.op;
    header.sequence = reply.sequence;
    native::encode_reply(out, header, reply.result);
  }

  Bytes out;
  std::size_t good = 0;
};

class Allocations : public testing::Test {
 protected:
  Allocations() {
    world_.loops[0]->turn([&] { world_.host().hello(world_.hello(sink_, "a", 1)); });
    world_.settle();
    sink_->out.reserve(1 << 20);
  }

  /// Has kRequests equal requests answered, which come in frames, one turn after another. Returns
  /// the allocations of the host while it takes a frame and ends a turn.
  double per_request(const Request& request) {
    Bytes frame;
    native::encode_request(frame, {}, request);
    sink_->out.clear();
    const auto cut = native::cut_request(frame, frame.size());
    std::size_t counted = 0;
    sink_->good = 0;
    for (std::size_t n = 0; n < kRequests; ++n) {
      const std::size_t before = allocations;
      {
        const auto decoded = native::decode_request_in_place((*cut)->header.op, (*cut)->body);
        const CallId call{++sequence_, sequence_, 7, 0};
        world_.host().submit(sink_->job, sink_->attachment, call, *decoded);
      }
      world_.host().end_turn();
      counted += allocations - before;
      world_.settle();
    }
    EXPECT_EQ(sink_->good, kRequests);
    return static_cast<double>(counted) / kRequests;
  }

  HostWorld world_{1, false, true};
  std::shared_ptr<EncodingSink> sink_ = std::make_shared<EncodingSink>();
  std::uint64_t sequence_ = 0;
};

TEST_F(Allocations, AGetOfADurableValueAllocatesNothing) {
  per_request(Set{Bytes(32, 'k'), Bytes(128, 'v')});
  const Get get{Bytes(32, 'k')};
  per_request(get);  // the buffers of the host grow
  EXPECT_EQ(per_request(get), 0);
}

// The value, its place in the index of reply rows, and now and then a chunk of the history.
TEST_F(Allocations, ASetAllocatesAtMostThreeTimes) {
  const Set set{Bytes(32, 'k'), Bytes(128, 'v')};
  per_request(set);
  EXPECT_LE(per_request(set), 3);
}

TEST_F(Allocations, AJobDoesNotKeepTheMemoryOfALargeValue) {
  per_request(Set{"k", Bytes(1 << 20, 'v')});
  EXPECT_LE(sink_->job->rows.capacity(), std::size_t{64 * 1024});
}

TEST_F(Allocations, ABeatAllocatesNothing) {
  per_request(Ping{});
  EXPECT_EQ(per_request(Ping{}), 0);
}

}  // namespace
}  // namespace c10dd::core
