// SPDX-License-Identifier: Apache-2.0
// How last words travel: receives posted long ahead, which Gloo fails when a connection ends.
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

// Gloo's collectives use the prefixes 1 to 8 in the top byte of a slot.
constexpr std::uint64_t kWordsSlot = std::uint64_t{0x7e} << 56;
constexpr std::uint64_t kOpenSlot = std::uint64_t{0x7f} << 56;

constexpr auto kPatience = std::chrono::milliseconds(50);

constexpr std::size_t kLostNamed = 16;

}  // namespace

ExitMessages::ExitMessages(::gloo::transport::Context& context)
    : context_(context), peers_(static_cast<std::size_t>(context.size)) {}

void ExitMessages::listen() {
  const std::lock_guard lock(mutex_);
  for (int rank = 0; rank < context_.size; ++rank) {
    if (rank == context_.rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.words = context_.createUnboundBuffer(peer.message.data(), peer.message.size());
    peer.words->recv(rank, kWordsSlot, 0, peer.message.size());
    // Nobody ever sends to this one: it fails when, and only when, the connection ends.
    peer.open = context_.createUnboundBuffer(nullptr, 0);
    peer.open->recv(rank, kOpenSlot, 0, 0);
  }
}

ExitMessages::Message ExitMessages::encode(const Failure& words) {
  Message message{};
  const std::size_t lost = std::min(words.missing.size(), kLostNamed);
  message[0] = static_cast<char>(words.code);
  message[1] = static_cast<char>(lost);
  char* to = message.data() + 2;
  for (std::size_t i = 0; i < lost; ++i, to += sizeof(Rank)) {
    std::memcpy(to, &words.missing[i].rank, sizeof(Rank));
  }
  const std::size_t room = static_cast<std::size_t>(message.data() + message.size() - 1 - to);
  std::memcpy(to, words.detail.data(), std::min(words.detail.size(), room));
  return message;
}

Failure ExitMessages::decode(Message& message) {
  message.back() = '\0';
  const std::size_t lost =
      std::min<std::size_t>(static_cast<unsigned char>(message[1]), kLostNamed);
  const char* from = message.data() + 2;
  Failure words = failure(static_cast<Code>(message[0]), from + lost * sizeof(Rank));
  for (std::size_t i = 0; i < lost; ++i, from += sizeof(Rank)) {
    MissingRank& one = words.missing.emplace_back();
    std::memcpy(&one.rank, from, sizeof(Rank));
  }
  return words;
}

// The connection has ended: either the words are here, or the wait fails at once.
std::optional<Failure> ExitMessages::last_words(Peer& peer) {
  try {
    peer.words->waitRecv(nullptr, kPatience);
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
        peer.open->abortWaitRecv();  // makes the wait only look
        peer.open->waitRecv(nullptr, kPatience);
      } catch (const std::exception&) {
        peer.ended = Ended{static_cast<Rank>(rank), last_words(peer)};
        peer.open.reset();
        peer.words.reset();
      }
    }
    if (peer.ended) all.push_back(*peer.ended);
  }
  return all;
}

void ExitMessages::tell(const Failure& words) {
  Message message = encode(words);
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> sending;
  for (int rank = 0; rank < context_.size; ++rank) {
    if (rank == context_.rank) continue;
    try {
      auto buffer = context_.createUnboundBuffer(message.data(), message.size());
      buffer->send(rank, kWordsSlot, 0, message.size());
      sending.push_back(std::move(buffer));
    } catch (const std::exception&) {
      // That connection is down: nobody to tell.
    }
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (const auto& buffer : sending) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    try {
      buffer->waitSend(nullptr, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      // A peer that does not read, or that is gone. Gloo has closed what did not answer in time.
    }
  }
}

}  // namespace c10dd::collectives
