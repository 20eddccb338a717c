// SPDX-License-Identifier: Apache-2.0
// The messages of one rank over a FakeNetwork. The test plays the peers, control message by control
// message.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/gloo/messages.h"
#include "collectives/gloo/transport.h"
#include "tests/unit/collectives/gloo/fake_network.h"
#include "tests/unit/collectives/seen_completion.h"

namespace c10dd::test {

inline constexpr std::uint8_t kPayloadKind = 0x7c;
inline constexpr std::uint8_t kControlKind = 0x7d;
inline constexpr std::uint8_t kExitKind = 0x7e;

constexpr std::uint64_t slot_of_kind(std::uint8_t kind, std::uint64_t rest = 0) {
  return std::uint64_t{kind} << 56 | rest;
}

enum Said : std::uint8_t { kOffer, kGrant, kSent, kDone, kRefused };

/// A control message as it is on the wire.
struct WireControl {
  std::uint8_t type = kOffer;
  DType dtype = DType::float32;
  std::uint16_t zero = 0;
  std::uint32_t tag = 0;
  std::uint64_t id = 0;
  std::uint64_t count = 0;
  std::uint64_t seen = 0;
  std::uint64_t eager = 0;
};

/// One send or recv, and its end.
struct Message {
  Message(Collective collective, Rank peer, std::vector<float> of, std::uint32_t tag = 0)
      : values(std::move(of)) {
    operation.collective = collective;
    operation.peer = peer;
    operation.tag = tag;
    (collective == Collective::send ? operation.input : operation.output) = tensor_of(values);
    within(std::chrono::hours(1));
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  void within(Duration timeout) {
    operation.timeout = timeout;
    operation.deadline = std::chrono::steady_clock::now() + timeout;
  }

  std::vector<float> values;
  Operation operation;
  SeenCompletion end;
};

/// Rank 0 of three. Checks at the end that nothing is held.
class MessagesWorld {
 public:
  static constexpr int kRanks = 3;

  MessagesWorld() {
    transport =
        std::make_shared<collectives::Transport>(std::make_shared<FakeContext>(network, 0, kRanks));
    transport->watch({});
    messages = std::make_shared<collectives::Messages>(transport);
    messages->open();
  }
  ~MessagesWorld() {
    if (messages) close();
    transport.reset();
    EXPECT_EQ(network.buffers, 0);
    EXPECT_EQ(network.pairs, 0);
    EXPECT_TRUE(network.receiving.empty());
    EXPECT_EQ(network.waits, 0);
  }
  void close() {
    messages->close();
    messages.reset();
  }

  void start(Message& message) { messages->start(message.operation, message.end); }
  void start(std::initializer_list<Message*> all) {
    for (Message* const one : all) start(*one);
  }

  /// Returns the next control message that rank 0 has sent to the peer. `elements` gets what
  /// follows it.
  WireControl heard(int peer, FakeBytes* elements = nullptr) {
    const FakeFrame frame = network.next(peer, kControlKind);
    WireControl control;
    EXPECT_GE(frame.bytes.size(), sizeof(control));
    std::memcpy(&control, frame.bytes.data(), sizeof(control));
    const auto rest = frame.bytes.begin() + sizeof(control);
    if (elements != nullptr) elements->assign(rest, frame.bytes.end());
    return control;
  }

  /// The peer sends a control message to rank 0.
  void say(int peer, const WireControl& control, const FakeBytes& elements = {}) {
    FakeBytes bytes(sizeof(control));
    std::memcpy(bytes.data(), &control, sizeof(control));
    bytes.insert(bytes.end(), elements.begin(), elements.end());
    network.deliver(peer, slot_of_kind(kControlKind), std::move(bytes));
  }

  /// The peer offers elements that travel with the offer.
  void offer(int peer, std::uint64_t id, const std::vector<float>& values, std::uint32_t tag = 0) {
    const FakeBytes elements = bytes_of_values(values);
    say(peer, {.tag = tag, .id = id, .count = values.size(), .eager = elements.size() + 1},
        elements);
  }
  /// The peer offers elements that it sends after a grant.
  void announce(int peer, std::uint64_t id, std::size_t count) {
    say(peer, {.id = id, .count = count});
  }
  void pay(int peer, std::uint64_t id, const std::vector<float>& values) {
    network.deliver(peer, slot_of_kind(kPayloadKind, id), bytes_of_values(values));
  }

  // GCC 12 warns wrongly of a delete where it inlines this.
  [[gnu::noinline]] static FakeBytes bytes_of_values(const std::vector<float>& values) {
    FakeBytes bytes(values.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  FakeNetwork network;
  std::shared_ptr<collectives::Transport> transport;
  std::shared_ptr<collectives::Messages> messages;
};

}  // namespace c10dd::test
