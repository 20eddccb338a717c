// SPDX-License-Identifier: Apache-2.0
// HandshakeQueue: whose TLS handshake comes next. Each has sent a whole ClientHello. The daemon
// answers a few at a time, in turns by address, so that a flood of one address does not delay
// another. Then a handshake only waits for its client, and has a place: at most `most` of all, and
// `of_one` of an address. If the places are taken, the one that has waited longest for its client
// gives way, after kPatience. So a client that goes on with its handshake gets in beside any number
// of clients that do not. Pure.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "protocol/limits.h"

namespace c10dd::daemon {

class HandshakeQueue {
 public:
  using Address = boost::asio::ip::address;
  using Number = std::uint64_t;  ///< of a handshake
  using Time = std::chrono::steady_clock::time_point;

  /// How long a handshake may wait for its client, and another one for its turn, while places are
  /// wanted.
  static constexpr std::chrono::milliseconds kPatience{500};

  struct Limits {
    std::size_t answering = 8;
    std::size_t most = 1'024;
    std::size_t of_one = 256;
    std::chrono::milliseconds turn = limits::kHandshakeTurn;  ///< who waits longer is forgotten
  };
  explicit HandshakeQueue(Limits limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  /// A client has sent a whole ClientHello. Numbers are given in ascending order.
  void add(Number number, const Address& from, Time now);
  /// The daemon has answered, and waits for the client.
  void answered(Number number, Time now);
  /// The client has sent more just when its handshake should give way, so the handshake goes on.
  void goes_on(Number number, Time now);
  /// A handshake that had its turn has ended.
  void ended(Number number);

  struct Turn {
    std::vector<Number> give_way;  ///< must end; goes_on() or ended() follows
    std::vector<Number> begin;     ///< answered() or ended() follows
  };
  /// Must be called after each call above, and while some wait.
  Turn turn(Time now);
  /// Forgets those that have waited too long for their turn.
  std::vector<Number> late(Time now);

  /// Handshakes that wait for their turn.
  std::size_t waiting() const { return waiting_; }
  /// Handshakes that had their turn, and have not ended.
  std::size_t under_way() const { return begun_.size(); }

 private:
  enum class Stage : std::uint8_t { answering, answered, leaving };
  struct Begun {
    Address from;
    Stage stage = Stage::answering;
    Time since = {};  // of `answered`
  };
  struct Waiting {
    Number number;
    Time since;
  };
  struct Peer {
    std::deque<Waiting> waiting = {};
    std::set<std::pair<Time, Number>> answered = {};  // the one that has waited longest first
    std::size_t places = 0;                           // also of those that are being answered
  };

  void take_place(Peer& peer, int change);
  void forget_if_idle(const Address& from);
  bool begin_one(const Address& from, Time now, Turn& turn);
  Peer* crowd(Peer& peer);

  Limits limits_;
  std::map<Address, Peer> peers_;
  std::set<Address> wanting_;  // of peers_, those of which some wait
  std::map<Number, Begun> begun_;
  Address last_;  // that had a turn
  std::size_t waiting_ = 0;
  std::size_t answering_ = 0;
  std::size_t places_ = 0;
};

}  // namespace c10dd::daemon
