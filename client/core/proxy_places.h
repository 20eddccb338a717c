// SPDX-License-Identifier: Apache-2.0
// Decides which clients a node proxy serves when more connect than it has places. A client that has
// sent nothing yet keeps its place while there are others: some versions of PyTorch connect long
// before their first request. When no place is free, such a client gives way to a new one, once it
// has been silent for kSilence. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "protocol/types.h"

namespace c10dd::client {

class ProxyPlaces {
 public:
  static constexpr Duration kSilence = std::chrono::seconds(5);

  using Number = std::uint64_t;  ///< of a client; each is greater than those of earlier clients
  enum class Entry { served, waits, refused };
  struct Move {
    enum class Kind { close, serve, refuse };
    Kind kind;
    Number client;
    bool operator==(const Move&) const = default;
  };

  explicit ProxyPlaces(std::size_t places) : places_(places) {}

  /// A client has connected. It waits only if a silent client will give way to it.
  Entry arrive(Number client, TimePoint now);
  /// A client that is served has sent a message.
  void heard(Number client) { silent_.erase(client); }
  /// A client that was served has gone, or was closed.
  void leave(Number client);

  /// Returns what the caller has to do next, if anything: close a silent client and call leave(),
  /// or serve or refuse one that waits. Must be called until it returns nothing, after each event
  /// and at the time given by next_deadline().
  std::optional<Move> next(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  /// Returns the client that has been silent for longest, if it must give way now.
  std::optional<Number> gives_way(TimePoint now) const;

  std::size_t served() const { return served_; }

 private:
  void serve(Number client, TimePoint now);

  std::size_t places_;
  std::size_t served_ = 0;
  std::map<Number, TimePoint> silent_;  ///< those served that have sent nothing, and since when
  std::deque<Number> waiting_;
};

}  // namespace c10dd::client
