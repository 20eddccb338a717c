// SPDX-License-Identifier: Apache-2.0
// Newcomers: connections that have not said yet who they are. Each has a deadline. The oldest of an
// address end sooner, after kPatience, while the address has more than kShare of them, and at once
// if their place is wanted. So those who say nothing keep nobody out who does. Pure, but for the
// functions that end connections.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

namespace c10dd::daemon {

class Newcomers {
 public:
  using Address = boost::asio::ip::address;
  using Number = std::uint64_t;
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kShare = 256;
  static constexpr std::chrono::milliseconds kPatience{500};

  /// Ends a connection. `wants_place`: another one is admitted in its place, so that it must not be
  /// counted any more. Must not call the Newcomers.
  using End = std::function<void(bool wants_place)>;

  Number add(const Address& from, Time now, End end);
  /// A connection has said who it is, or has ended.
  void remove(const Address& from, Number number);

  /// Ends those whose time is over.
  void look(Time now);
  /// Ends the oldest of this address; without one, the oldest of the address that has most. Returns
  /// false if there is none.
  bool make_room(const Address& from);
  bool make_room();

  /// Returns whether some address has more than kShare, so that look() must be called.
  bool crowded() const { return crowded_ > 0; }
  std::size_t count(const Address& from) const;

 private:
  struct Noted {
    Time since;
    End end;
  };
  using Peer = std::map<Number, Noted>;  // the oldest first

  End take(Peer& peer, Peer::iterator one);

  std::map<Address, Peer> peers_;
  Number last_ = 0;
  std::size_t crowded_ = 0;  // addresses
};

/// Removes a connection at the end of its life.
class Newcomer {
 public:
  Newcomer(std::shared_ptr<Newcomers> all, Newcomers::Address from, Newcomers::Number number)
      : all_(std::move(all)), from_(std::move(from)), number_(number) {}
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;
  ~Newcomer() { all_->remove(from_, number_); }

 private:
  const std::shared_ptr<Newcomers> all_;
  const Newcomers::Address from_;
  const Newcomers::Number number_;
};

}  // namespace c10dd::daemon
