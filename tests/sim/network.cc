// SPDX-License-Identifier: Apache-2.0
// Every delivery is an event. Bytes of one direction never overtake each other.
#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace c10dd::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kShredded = 48;  // first bytes of a piece, which may arrive one by one

}  // namespace

void Link::send(Side from, std::string_view bytes) {
  End& end = ends_[from];
  if (!end.open || bytes.empty()) return;
  if (swarm_.fragments && world_.random.chance(30)) {
    std::size_t at = 0;
    while (at < bytes.size()) {
      const bool tiny = at < kShredded && world_.random.chance(50);
      const std::size_t size = tiny ? 1 : 1 + world_.random.below(bytes.size());
      carry(from, std::string(bytes.substr(at, size)));
      at += size;
    }
  } else {
    carry(from, std::string(bytes));
  }
}

void Link::carry(Side from, std::string bytes) {
  End& end = ends_[from];
  end.last_arrival = std::max(end.last_arrival, world_.now() + delay());
  world_.at(end.last_arrival,
            [self = shared_from_this(), from, bytes = std::move(bytes)]() mutable {
              if (self->ends_[from].cut) {
                self->ends_[from].stopped += bytes;
              } else {
                self->arrive(from, std::move(bytes));
              }
            });
}

void Link::arrive(Side from, std::string bytes) {
  const End& to = ends_[other(from)];
  if (!to.open || bytes.empty()) return;
  if (const auto owner = to.owner.lock()) owner->on_bytes(shared_from_this(), std::move(bytes));
}

void Link::tell_closed(Side side, Duration delay) {
  world_.after(delay, [self = shared_from_this(), side] {
    if (!std::exchange(self->ends_[side].open, false)) return;
    if (const auto owner = self->ends_[side].owner.lock()) owner->on_closed(self);
  });
}

void Link::close(Side from) {
  if (!std::exchange(ends_[from].open, false)) return;
  if (ends_[from].cut)
    return tell_closed(other(from), world_.random.between(seconds(5), seconds(20)));
  const TimePoint last = std::max(ends_[from].last_arrival, world_.now());
  tell_closed(other(from), last - world_.now() + delay());
}

void Link::reset() {
  tell_closed(client, delay());
  tell_closed(daemon, delay());
}

void Link::vanish(Side side) {
  ends_[side].open = false;
  // Neither FIN nor RST is sent; keep-alive or the user time-out ends the other side.
  tell_closed(other(side), world_.random.between(seconds(5), seconds(20)));
}

void Link::cut(Side from) {
  if (std::exchange(ends_[from].cut, true)) return;
  for (const Side side : {client, daemon}) {
    world_.after(world_.random.between(seconds(5), seconds(20)), [self = shared_from_this(), side] {
      if (self->ends_[client].cut || self->ends_[daemon].cut) self->tell_closed(side, Duration(0));
    });
  }
}

void Link::heal() {
  bool healed = false;
  for (const Side side : {client, daemon}) {
    if (!std::exchange(ends_[side].cut, false)) continue;
    healed = true;
    arrive(side, std::exchange(ends_[side].stopped, {}));
  }
  if (!healed) return;
  // A side that is gone, or has timed out meanwhile, replies to the next packet with a reset.
  for (const Side side : {client, daemon}) {
    if (!ends_[side].open) tell_closed(other(side), milliseconds(1));
  }
}

void Network::dial(const std::string& address, std::weak_ptr<Endpoint> client,
                   OnDialled on_dialled) {
  const Duration there = world_.random.skewed(std::chrono::microseconds(50), swarm_.net_most);
  world_.after(there, [this, address, client, on_dialled = std::move(on_dialled)]() mutable {
    LinkRef link;
    const Accept& accept = accept_[address];
    const bool refused = !accept;
    if (accept && world_.now() >= refused_until_) {
      link = std::make_shared<Link>(world_, swarm_, ++number_);
      link->attach(Link::client, client);
      links_.push_back(link);
      accept(link);
    }
    const Duration back = world_.random.skewed(std::chrono::microseconds(50), swarm_.net_most);
    world_.after(back, [link, refused, on_dialled = std::move(on_dialled)] {
      const bool reset = link && !link->usable();  // before the client knew of it
      on_dialled(reset ? LinkRef() : link, refused || reset);
    });
  });
}

std::vector<LinkRef> Network::links() {
  std::erase_if(links_, [](const auto& weak) {
    const LinkRef link = weak.lock();
    return !link || !link->usable();
  });
  std::vector<LinkRef> all;
  for (const auto& weak : links_) all.push_back(weak.lock());
  return all;
}

void Network::heal_all() {
  refused_until_ = world_.now();
  for (const auto& weak : links_) {
    if (const LinkRef link = weak.lock()) link->heal();
  }
}

}  // namespace c10dd::sim
