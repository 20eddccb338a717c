// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/handshake_queue.h"

#include <algorithm>

namespace c10dd::daemon {

void HandshakeQueue::add(Number number, const Address& from, Time now) {
  peers_[from].waiting.push_back({number, now});
  wanting_.insert(from);
  ++waiting_;
}

void HandshakeQueue::answered(Number number, Time now) {
  const auto found = begun_.find(number);
  if (found == begun_.end() || found->second.stage != Stage::answering) return;
  found->second.stage = Stage::answered;
  found->second.since = now;
  peers_[found->second.from].answered.emplace(now, number);
  --answering_;
}

void HandshakeQueue::goes_on(Number number, Time now) {
  const auto found = begun_.find(number);
  if (found == begun_.end() || found->second.stage != Stage::leaving) return;
  found->second.stage = Stage::answered;
  found->second.since = now;
  Peer& peer = peers_[found->second.from];
  peer.answered.emplace(now, number);
  take_place(peer, 1);
}

void HandshakeQueue::ended(Number number) {
  const auto found = begun_.find(number);
  if (found == begun_.end()) return;
  const Begun one = found->second;
  begun_.erase(found);
  Peer& peer = peers_[one.from];
  if (one.stage == Stage::answering) --answering_;
  if (one.stage == Stage::answered) peer.answered.erase({one.since, number});
  if (one.stage != Stage::leaving) take_place(peer, -1);
  forget_if_idle(one.from);
}

void HandshakeQueue::take_place(Peer& peer, int change) {
  peer.places += static_cast<std::size_t>(change);
  places_ += static_cast<std::size_t>(change);
}

void HandshakeQueue::forget_if_idle(const Address& from) {
  const auto found = peers_.find(from);
  if (found == peers_.end()) return;
  const Peer& peer = found->second;
  if (peer.waiting.empty()) wanting_.erase(from);
  if (peer.waiting.empty() && peer.places == 0) peers_.erase(found);
}

std::vector<HandshakeQueue::Number> HandshakeQueue::late(Time now) {
  std::vector<Number> all;
  for (const Address& from : std::vector<Address>(wanting_.begin(), wanting_.end())) {
    Peer& peer = peers_[from];
    while (!peer.waiting.empty() && peer.waiting.front().since + limits_.turn <= now) {
      all.push_back(peer.waiting.front().number);
      peer.waiting.pop_front();
      --waiting_;
    }
    forget_if_idle(from);
  }
  return all;
}

HandshakeQueue::Turn HandshakeQueue::turn(Time now) {
  constexpr std::size_t kSkipped = 64;  // addresses that cannot begin now; the others come later
  Turn turn;
  std::size_t skipped = 0;
  while (answering_ < limits_.answering && skipped < std::min(wanting_.size(), kSkipped)) {
    auto next = wanting_.upper_bound(last_);
    if (next == wanting_.end()) next = wanting_.begin();
    last_ = *next;
    skipped = begin_one(last_, now, turn) ? 0 : skipped + 1;
    forget_if_idle(last_);
  }
  return turn;
}

/// Returns the peer that must give a place free before `peer` gets one more; null: none must.
HandshakeQueue::Peer* HandshakeQueue::crowd(Peer& peer) {
  if (peer.places >= limits_.of_one) return &peer;
  if (places_ < limits_.most) return nullptr;
  const auto most =
      std::ranges::max_element(peers_, {}, [](const auto& entry) { return entry.second.places; });
  return &most->second;
}

bool HandshakeQueue::begin_one(const Address& from, Time now, Turn& turn) {
  Peer& peer = peers_[from];
  const Waiting next = peer.waiting.front();
  if (Peer* const full = crowd(peer)) {
    if (full->answered.empty()) return false;
    const auto [since, number] = *full->answered.begin();
    if (since + kPatience > now && next.since + kPatience > now) return false;
    full->answered.erase(full->answered.begin());
    begun_.at(number).stage = Stage::leaving;
    take_place(*full, -1);  // keeps the peer: its handshake has not ended
    turn.give_way.push_back(number);
  }
  peer.waiting.pop_front();
  --waiting_;
  begun_.emplace(next.number, Begun{from});
  ++answering_;
  take_place(peer, 1);
  turn.begin.push_back(next.number);
  return true;
}

}  // namespace c10dd::daemon
