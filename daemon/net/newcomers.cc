// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/newcomers.h"

#include <algorithm>
#include <utility>

namespace c10dd::daemon {

Newcomers::Number Newcomers::add(const Address& from, Time now, End end) {
  Peer& peer = peers_[from];
  peer.emplace_hint(peer.end(), ++last_, Noted{now, std::move(end)});
  if (peer.size() == kShare + 1) ++crowded_;
  return last_;
}

/// Removes one, and returns what ends it.
Newcomers::End Newcomers::take(Peer& peer, Peer::iterator one) {
  if (peer.size() == kShare + 1) --crowded_;
  End end = std::move(one->second.end);
  peer.erase(one);
  return end;
}

void Newcomers::remove(const Address& from, Number number) {
  const auto peer = peers_.find(from);
  if (peer == peers_.end()) return;
  const auto one = peer->second.find(number);
  if (one == peer->second.end()) return;
  take(peer->second, one);
  if (peer->second.empty()) peers_.erase(peer);
}

void Newcomers::look(Time now) {
  if (!crowded()) return;
  for (auto& [from, peer] : peers_) {
    while (peer.size() > kShare && peer.begin()->second.since + kPatience <= now) {
      take(peer, peer.begin())(false);
    }
  }
}

bool Newcomers::make_room(const Address& from) {
  const auto peer = peers_.find(from);
  if (peer == peers_.end()) return false;
  const End end = take(peer->second, peer->second.begin());
  if (peer->second.empty()) peers_.erase(peer);
  end(true);
  return true;
}

bool Newcomers::make_room() {
  const auto most =
      std::ranges::max_element(peers_, {}, [](const auto& entry) { return entry.second.size(); });
  return most != peers_.end() && make_room(Address(most->first));
}

std::size_t Newcomers::count(const Address& from) const {
  const auto peer = peers_.find(from);
  return peer == peers_.end() ? 0 : peer->second.size();
}

}  // namespace c10dd::daemon
