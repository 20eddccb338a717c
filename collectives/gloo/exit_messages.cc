// SPDX-License-Identifier: Apache-2.0
// Sends and receives exit messages. When the group is opened, two receives are posted for each
// peer: one for the exit message, and one that notices the end of the connection. Gloo fails a
// receive that is still pending when its connection ends.
#include "collectives/gloo/exit_messages.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace c10dd::collectives {
namespace {

// These slots (message tags) differ from those of Gloo's collectives, whose top byte is 1 to 8.
constexpr std::uint64_t kMessageSlot = std::uint64_t{0x7e} << 56;
constexpr std::uint64_t kOpenSlot = std::uint64_t{0x7f} << 56;

// Time limit for sending to all peers, and for receiving from a disconnected peer.
constexpr auto kWaitLimit = std::chrono::milliseconds(50);

constexpr std::size_t kLostMax = 16;  // a message names at most this many lost ranks

}  // namespace

ExitMessages::ExitMessages(::gloo::transport::Context& context)
    : context_(context), peers_(static_cast<std::size_t>(context.size)) {}

void ExitMessages::listen() {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < context_.size; ++rank) {
    if (rank == context_.rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    try {
      listen_to(rank, peer);
    } catch (const std::exception&) {  // the connection has ended already
      peer.ended = Ended{static_cast<Rank>(rank), std::nullopt};
      peer.open.reset();
      peer.arrival.reset();
    }
  }
}

void ExitMessages::listen_to(int rank, Peer& peer) {
  peer.arrival = context_.createUnboundBuffer(peer.message.data(), peer.message.size());
  peer.arrival->recv(rank, kMessageSlot, 0, peer.message.size());
  // Notices the end of the connection: no rank sends a message for this receive, so it stays
  // pending until the connection ends, and then fails.
  peer.open = context_.createUnboundBuffer(nullptr, 0);
  peer.open->recv(rank, kOpenSlot, 0, 0);
}

ExitMessages::Message ExitMessages::encode(const Failure& reason) {
  Message message{};
  const std::size_t lost = std::min(reason.missing.size(), kLostMax);
  message[0] = static_cast<char>(reason.code);
  message[1] = static_cast<char>(lost);
  char* to = message.data() + 2;
  for (std::size_t i = 0; i < lost; ++i, to += sizeof(Rank)) {
    std::memcpy(to, &reason.missing[i].rank, sizeof(Rank));
  }
  const std::size_t room = static_cast<std::size_t>(message.data() + message.size() - 1 - to);
  // NOLINTNEXTLINE(bugprone-not-null-terminated-result): the rest of the message is zero
  std::memcpy(to, reason.detail.data(), std::min(reason.detail.size(), room));
  return message;
}

Failure ExitMessages::decode(Message& message) {
  message.back() = '\0';
  const std::size_t lost = std::min<std::size_t>(static_cast<unsigned char>(message[1]), kLostMax);
  const char* from = message.data() + 2;
  Failure reason = failure(static_cast<Code>(message[0]), from + lost * sizeof(Rank));
  for (std::size_t i = 0; i < lost; ++i, from += sizeof(Rank)) {
    MissingRank& one = reason.missing.emplace_back();
    std::memcpy(&one.rank, from, sizeof(Rank));
  }
  return reason;
}

// Returns the peer's exit message, or nullopt if none has arrived. Must be called only after the
// connection has ended, because waitRecv() then returns or throws at once.
std::optional<Failure> ExitMessages::received_message(Peer& peer) {
  try {
    peer.arrival->waitRecv(nullptr, kWaitLimit);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return decode(peer.message);
}

std::vector<ExitMessages::Ended> ExitMessages::ended() {
  const std::lock_guard lock(mutex_);
  std::vector<Ended> all;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.open) {
      try {
        // After abortWaitRecv(), waitRecv() returns at once, or throws if the receive has failed.
        peer.open->abortWaitRecv();
        peer.open->waitRecv(nullptr, kWaitLimit);
      } catch (const std::exception&) {
        peer.ended = Ended{static_cast<Rank>(rank), received_message(peer)};
        peer.open.reset();
        peer.arrival.reset();
      }
    }
    if (peer.ended) all.push_back(*peer.ended);
  }
  return all;
}

void ExitMessages::send(const Failure& reason) {
  Message message = encode(reason);
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> sending;
  for (int rank = 0; rank < context_.size; ++rank) {
    if (rank == context_.rank) continue;
    try {
      auto buffer = context_.createUnboundBuffer(message.data(), message.size());
      buffer->send(rank, kMessageSlot, 0, message.size());
      sending.push_back(std::move(buffer));
    } catch (const std::exception&) {
      // The connection is already closed, so the peer gets no message.
    }
  }
  const auto until = std::chrono::steady_clock::now() + kWaitLimit;
  for (const auto& buffer : sending) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    try {
      buffer->waitSend(nullptr, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      // The peer does not read, or has died. If waitSend() times out, Gloo closes the connection.
    }
  }
}

}  // namespace c10dd::collectives
