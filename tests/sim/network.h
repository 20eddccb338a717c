// SPDX-License-Identifier: Apache-2.0
// Byte streams between client processes and the daemon that listens: delay, fragments of one byte,
// FIN, RST, and links that go silent in one direction or both without a FIN or an RST.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/sim/swarm.h"
#include "tests/sim/world.h"

namespace c10dd::sim {

class Link;
using LinkRef = std::shared_ptr<Link>;

/// The owner of one end of links. Called by the network at any time; a process posts the call to
/// itself.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual void on_bytes(const LinkRef& link, std::string bytes) = 0;
  virtual void on_closed(const LinkRef& link) = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  enum Side : std::size_t { client = 0, daemon = 1 };

  Link(World& world, const Swarm& swarm, std::uint64_t number_of_link)
      : number(number_of_link), world_(world), swarm_(swarm) {}

  void attach(Side side, std::weak_ptr<Endpoint> endpoint) {
    ends_[side].owner = std::move(endpoint);
  }

  void send(Side from, std::string_view bytes);
  /// Closes this side (FIN): the other side is notified after the last byte.
  void close(Side from);
  /// Resets the link (RST): both sides are notified; bytes in flight are lost.
  void reset();
  /// Ends this side with its machine: the other side is not notified until its time-out.
  void vanish(Side side);

  /// Stops bytes from this side in flight. If they are never released, the link times out.
  void cut(Side from);
  void heal();

  bool usable() const { return ends_[client].open && ends_[daemon].open; }
  /// Returns whether what this side sends arrives.
  bool is_read(Side from) const { return usable() && !ends_[from].cut; }

  const std::uint64_t number;

 private:
  struct End {
    std::weak_ptr<Endpoint> owner;
    bool open = true;
    bool cut = false;        ///< the bytes that it sends are stopped
    std::string stopped;     ///< the bytes that were stopped
    TimePoint last_arrival;  ///< of its bytes, to keep them in order
  };

  static Side other(Side side) { return side == client ? daemon : client; }
  void carry(Side from, std::string bytes);
  void arrive(Side from, std::string bytes);
  void tell_closed(Side side, Duration delay);
  Duration delay() { return world_.random.skewed(std::chrono::microseconds(20), swarm_.net_most); }

  World& world_;
  const Swarm& swarm_;
  End ends_[2];
};

/// The addresses that clients know, and all links.
class Network {
 public:
  using Accept = std::function<void(const LinkRef&)>;
  /// No link: there was no connection. `refused`: because no process listens.
  using OnDialled = std::function<void(LinkRef, bool refused)>;

  Network(World& world, const Swarm& swarm) : world_(world), swarm_(swarm) {}

  /// Sets the receiver of connections to an address from now on; an empty function refuses them.
  void listen(const std::string& address, Accept accept) { accept_[address] = std::move(accept); }
  void refuse_for(Duration how_long) { refused_until_ = world_.now() + how_long; }

  void dial(const std::string& address, std::weak_ptr<Endpoint> client, OnDialled on_dialled);

  /// Returns the links in use, oldest first.
  std::vector<LinkRef> links();
  void heal_all();

 private:
  World& world_;
  const Swarm& swarm_;
  std::map<std::string, Accept> accept_;
  TimePoint refused_until_;
  std::uint64_t number_ = 0;
  std::vector<std::weak_ptr<Link>> links_;
};

}  // namespace c10dd::sim
