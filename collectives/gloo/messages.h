// SPDX-License-Identifier: Apache-2.0
// Messages: sends and receives over the connections of a Transport. Gloo alone would end the
// process if a message were longer than the receiver's buffer, and has no tags for any source.
//
// Each rank sends control messages to its peers. An offer announces a message, with its tag, type
// and size, and contains the elements if they are few. When a recv accepts the offer, the receiver
// replies with `done`. If the elements are many, it first posts a receive and replies with `grant`;
// then the sender sends the elements and after them `sent`. If the message does not fit, the
// receiver replies with `refused`.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/backend.h"
#include "collectives/gloo/transport.h"
#include "collectives/message_matcher.h"
#include "collectives/timer_thread.h"

namespace c10dd::collectives {

/// The messages of one rank. A thread per peer starts with the first message from or to that peer.
/// Thread-safe.
class Messages final : public std::enable_shared_from_this<Messages>, private TimerThread::Task {
 public:
  explicit Messages(std::shared_ptr<Transport> transport);
  ~Messages();

  /// Prepares for messages. Called once.
  void open();

  /// Starts a send or recv. Does not block.
  void start(const Operation& operation, Completion& completion);

  /// Ends the threads. No message may be waiting. Called once, possibly by a completion.
  void close();

 private:
  using Clock = TimerThread::Clock;
  using Buffer = ::gloo::transport::UnboundBuffer;

  static constexpr std::size_t kEagerMax = 4096;        // elements of an offer, in bytes
  static constexpr std::size_t kEagerPending = 65'536;  // the same, of all pending offers to a peer

  struct Control {
    enum class Type : std::uint8_t { offer, grant, sent, done, refused };
    Type type{};
    DType dtype{};            // of offer and refused
    std::uint16_t zero = 0;   // so that no byte is sent that was not set
    std::uint32_t tag = 0;    // of offer
    std::uint64_t id = 0;     // number of the message among those from its sender to its receiver
    std::uint64_t count = 0;  // of offer: elements; of refused: elements of the receiver's tensor
    std::uint64_t seen = 0;   // control messages that the sender of this one has got from its peer
    std::uint64_t eager = 0;  // bytes that follow
  };
  using Bytes = std::vector<std::byte>;
  struct Offer {
    Rank source;
    std::uint32_t tag;
    DType dtype;
    std::uint64_t id;
    std::size_t count;
    std::optional<Bytes> elements;  // if they came with the offer
  };
  struct Receive {
    const Operation* operation;
    Completion* completion;
  };
  /// A message that this rank sends or receives, after its offer. `payload`: if its elements
  /// travel.
  struct Transfer {
    const Operation* operation;
    Completion* completion;
    std::uint32_t tag;
    std::size_t count;
    std::size_t eager = 0;
    std::unique_ptr<Buffer> payload = nullptr;
  };
  struct End {
    Completion* completion;
    Result<Received> result;
  };
  struct Outgoing {
    Bytes bytes;
    std::unique_ptr<Buffer> buffer;
  };
  /// The control messages from and to one peer.
  struct Channel {
    Rank peer = 0;
    std::array<std::byte, sizeof(Control) + kEagerMax> memory{};
    std::unique_ptr<Buffer> arrival;  // receives into `memory`
    std::uint64_t received = 0;
    std::deque<Outgoing> outgoing;  // sent, but not yet acknowledged by the peer
    std::uint64_t first_outgoing = 0;
    std::uint64_t next_id = 0;
    std::size_t eager = 0;  // bytes in offers that are pending
    bool ended = false;     // the connection has ended
    std::thread thread;
  };
  using Key = std::pair<Rank, std::uint64_t>;  // peer, id

  Clock::time_point on_time(Clock::time_point now) noexcept override;
  Channel& channel_locked(Rank peer);
  void send_locked(Channel& channel, Control control, const void* elements = nullptr);
  void offer_locked(const Operation& operation, Completion& completion);
  void post_locked(const Operation& operation, Completion& completion, std::vector<End>& ends);
  bool may_end_locked(Rank peer) const;
  void accept_locked(Offer offer, const Receive& receive, std::vector<End>& ends);
  void run(Channel& channel);
  bool take(Channel& channel, std::vector<End>& ends);
  void require_sound_locked(const Channel& channel, const Control& control) const;
  void handle_locked(Channel& channel, const Control& control, Bytes elements,
                     std::vector<End>& ends);
  void handle_lost(Channel& channel, const std::string& why);
  const Operation* waiting_locked(Rank peer) const;
  void fail_all();
  Rank rank() const { return static_cast<Rank>(transport_->rank); }

  const std::shared_ptr<Transport> transport_;
  std::mutex mutex_;                                // guards all members below
  std::vector<std::unique_ptr<Channel>> channels_;  // by rank; null until it is needed
  MessageMatcher<Offer, Receive> inbox_;
  std::map<Key, Transfer> sending_;
  std::map<Key, Transfer> receiving_;
  bool stopped_ = false;  // no message can be started
  std::thread ender_;     // runs fail_all()
};

}  // namespace c10dd::collectives
