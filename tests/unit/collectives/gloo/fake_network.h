// SPDX-License-Identifier: Apache-2.0
// A transport of Gloo in memory: one real rank, whose peers are played by the test. It behaves as
// Gloo's TCP transport does, and the peers misbehave as the test says: they are silent, lie about
// sizes, do not read, or close in the middle of a message.
#pragma once

#include <gloo/common/error.h>
#include <gloo/transport/buffer.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace c10dd::test {

using FakeBytes = std::vector<std::byte>;

/// What the real rank has sent to a peer.
struct FakeFrame {
  std::uint64_t slot = 0;
  FakeBytes bytes = {};
  std::uint8_t kind() const { return static_cast<std::uint8_t>(slot >> 56); }
};

class FakeBuffer;

/// The wires between the real rank and its peers. Thread-safe.
class FakeNetwork {
 public:
  /// Waits for the next frame that the peer gets. With `kind`: for one whose slot has that top
  /// byte; others stay.
  FakeFrame next(int peer, std::uint8_t kind) {
    std::unique_lock lock(mutex);
    auto& frames = sent[peer];
    auto found = frames.end();
    const auto has_come = [&] {
      found = std::ranges::find_if(frames, [&](const auto& one) { return one.kind() == kind; });
      return found != frames.end();
    };
    if (!changed.wait_for(lock, std::chrono::seconds(60), has_come)) {
      throw std::runtime_error("no frame of kind " + std::to_string(kind) + " has come");
    }
    FakeFrame frame = std::move(*found);
    frames.erase(found);
    return frame;
  }
  std::size_t frames(int peer, std::uint8_t kind) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(
        std::ranges::count_if(sent[peer], [&](const auto& one) { return one.kind() == kind; }));
  }
  /// The kinds of all frames that the peer has got and the test has not taken, in their order.
  std::vector<int> kinds(int peer) {
    const std::lock_guard lock(mutex);
    std::vector<int> all;
    for (const FakeFrame& one : sent[peer]) all.push_back(one.kind());
    return all;
  }

  /// The peer sends something. It is taken by the receive of this slot, now or later.
  void deliver(int peer, std::uint64_t slot, FakeBytes bytes);

  /// The connection ends. Receives in the slots of `half` have got a part of their message: Gloo
  /// does not wake them.
  void end_connection(int peer, const std::set<std::uint8_t>& half = {});

  /// Waits until this holds; it is called with the lock held.
  template <class Condition>
  bool await(Condition condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60), condition);
  }

  struct Pending {
    FakeBuffer* buffer;
    int peer;
    std::uint64_t slot;
    std::size_t offset;
    std::size_t bytes;
  };

  std::mutex mutex;  // guards all members, and the buffers
  std::condition_variable changed;
  std::map<int, std::deque<FakeFrame>> sent;
  std::map<std::pair<int, std::uint64_t>, std::deque<FakeBytes>> arrived;
  std::vector<Pending> receiving;
  std::vector<Pending> sending;  // to peers that do not read
  std::set<int> deaf;            // peers that do not read until somebody waits for it
  std::set<int> ended;
  std::set<int> closed;  // pairs on which close() was called
  int waits = 0;         // waits for receives that are running
  int buffers = 0;       // that exist
  int pairs = 0;         // that exist
};

class FakeBuffer final : public ::gloo::transport::UnboundBuffer {
 public:
  using Milliseconds = std::chrono::milliseconds;

  FakeBuffer(FakeNetwork& network, void* data, std::size_t bytes)
      : UnboundBuffer(data, bytes), network_(network) {
    const std::lock_guard lock(network_.mutex);
    ++network_.buffers;
  }
  ~FakeBuffer() override {
    const std::lock_guard lock(network_.mutex);
    const auto own = [this](const FakeNetwork::Pending& one) { return one.buffer == this; };
    std::erase_if(network_.receiving, own);
    std::erase_if(network_.sending, own);  // it is never sent
    --network_.buffers;
    network_.changed.notify_all();
  }

  bool waitRecv(int* peer, Milliseconds timeout) override {
    std::unique_lock lock(network_.mutex);
    ++network_.waits;
    network_.changed.notify_all();
    const bool ended = network_.changed.wait_for(
        lock, limit(timeout), [&] { return abort_receive_ || !received_.empty() || broken_; });
    --network_.waits;
    return result(ended, received_, abort_receive_, peer);
  }
  bool waitSend(int* peer, Milliseconds timeout) override {
    std::unique_lock lock(network_.mutex);
    for (const FakeNetwork::Pending& one : std::exchange(network_.sending, {})) {
      one.buffer == this ? write(one) : network_.sending.push_back(one);
    }
    const bool ended = network_.changed.wait_for(
        lock, limit(timeout), [&] { return abort_send_ || !written_.empty() || broken_; });
    return result(ended, written_, abort_send_, peer);
  }
  void abortWaitRecv() override {
    const std::lock_guard lock(network_.mutex);
    abort_receive_ = true;
    network_.changed.notify_all();
  }
  void abortWaitSend() override {
    const std::lock_guard lock(network_.mutex);
    abort_send_ = true;
    network_.changed.notify_all();
  }

  void send(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const std::lock_guard lock(network_.mutex);
    require_open(peer);
    const FakeNetwork::Pending one{this, peer, slot, offset, bytes};
    network_.deaf.contains(peer) ? network_.sending.push_back(one) : write(one);
  }
  void recv(int peer, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    const std::lock_guard lock(network_.mutex);
    require_open(peer);
    auto& waiting = network_.arrived[{peer, slot}];
    const FakeNetwork::Pending one{this, peer, slot, offset, bytes};
    if (waiting.empty()) return network_.receiving.push_back(one);
    read(one, waiting.front());
    waiting.pop_front();
  }
  void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override {
    throw std::logic_error("no part of c10dd uses it");
  }

  /// With the lock held.
  void read(const FakeNetwork::Pending& one, const FakeBytes& bytes) {
    ASSERT_LE(bytes.size(), one.bytes) << "Gloo would end the process";
    if (!bytes.empty()) {
      std::memcpy(static_cast<std::byte*>(ptr) + one.offset, bytes.data(), bytes.size());
    }
    received_.push_back(one.peer);
    network_.changed.notify_all();
  }
  void fail() {
    broken_ = true;
    network_.changed.notify_all();
  }

 private:
  static Milliseconds limit(Milliseconds timeout) {
    return std::min<Milliseconds>(timeout, std::chrono::hours(1));
  }
  void write(const FakeNetwork::Pending& one) {
    const auto* const from = static_cast<const std::byte*>(ptr) + one.offset;
    network_.sent[one.peer].push_back({one.slot, FakeBytes(from, from + one.bytes)});
    written_.push_back(one.peer);
    network_.changed.notify_all();
  }
  void require_open(int peer) const {
    if (network_.ended.contains(peer)) throw ::gloo::IoException("the connection has ended");
  }
  bool result(bool in_time, std::deque<int>& done, bool& aborted, int* peer) const {
    if (!in_time) throw ::gloo::IoException("timed out");
    if (done.empty() && broken_) throw ::gloo::IoException("connection closed by peer");
    if (std::exchange(aborted, false)) return false;
    if (peer != nullptr) *peer = done.front();
    done.pop_front();
    return true;
  }

  FakeNetwork& network_;
  std::deque<int> received_;
  std::deque<int> written_;
  bool abort_receive_ = false;
  bool abort_send_ = false;
  bool broken_ = false;
};

inline void FakeNetwork::deliver(int peer, std::uint64_t slot, FakeBytes bytes) {
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find_if(
      receiving, [&](const Pending& one) { return one.peer == peer && one.slot == slot; });
  if (found == receiving.end()) return arrived[{peer, slot}].push_back(std::move(bytes));
  const Pending one = *found;
  receiving.erase(found);
  one.buffer->read(one, bytes);
}

inline void FakeNetwork::end_connection(int peer, const std::set<std::uint8_t>& half) {
  const std::lock_guard lock(mutex);
  ended.insert(peer);
  for (const Pending& one : receiving) {
    const bool spared = half.contains(static_cast<std::uint8_t>(one.slot >> 56));
    if (one.peer == peer && !spared) one.buffer->fail();
  }
  for (const Pending& one : sending) {
    if (one.peer == peer) one.buffer->fail();
  }
  std::erase_if(receiving, [&](const Pending& one) { return one.peer == peer; });
  std::erase_if(sending, [&](const Pending& one) { return one.peer == peer; });
  changed.notify_all();
}

class FakePair final : public ::gloo::transport::Pair {
 public:
  FakePair(FakeNetwork& network, int peer) : network_(network), peer_(peer) { count(1); }
  ~FakePair() override { count(-1); }
  void close() override {
    network_.end_connection(peer_);
    const std::lock_guard lock(network_.mutex);
    network_.closed.insert(peer_);
    network_.changed.notify_all();
  }
  const ::gloo::transport::Address& address() const override { throw std::logic_error("address"); }
  void connect(const std::vector<char>&) override {}
  void setSync(bool, bool) override {}
  using Bound = std::unique_ptr<::gloo::transport::Buffer>;
  Bound createSendBuffer(int, void*, std::size_t) override { return nullptr; }
  Bound createRecvBuffer(int, void*, std::size_t) override { return nullptr; }
  using Inner = ::gloo::transport::UnboundBuffer;
  void send(Inner*, std::uint64_t, std::size_t, std::size_t) override {}
  void recv(Inner*, std::uint64_t, std::size_t, std::size_t) override {}

 private:
  void count(int change) {
    const std::lock_guard lock(network_.mutex);
    network_.pairs += change;
  }
  FakeNetwork& network_;
  const int peer_;
};

class FakeContext final : public ::gloo::transport::Context {
 public:
  FakeContext(FakeNetwork& network, int own_rank, int ranks)
      : Context(own_rank, ranks), network_(network) {
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != own_rank) createPair(peer);
    }
  }
  std::unique_ptr<::gloo::transport::Pair>& createPair(int peer) override {
    auto& pair = pairs_[static_cast<std::size_t>(peer)];
    pair = std::make_unique<FakePair>(network_, peer);
    return pair;
  }
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(
      void* data, std::size_t bytes) override {
    return std::make_unique<FakeBuffer>(network_, data, bytes);
  }

 private:
  FakeNetwork& network_;
};

}  // namespace c10dd::test
