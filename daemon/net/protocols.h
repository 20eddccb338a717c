// SPDX-License-Identifier: Apache-2.0
// The list of wire protocols: how each is recognised by the first bytes of a connection, how it is
// served, and how its clients get a refusal. The names are in daemon/config/protocol_names.h. Each
// entry is made in the file of the protocol's session, the list by Server, which alone includes all
// of them.
// Called on the loop that accepts connections.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/config/protocol_names.h"
#include "daemon/net/stream.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Whether the first bytes of a connection belong to a protocol; `maybe`: more bytes are needed.
enum class Match : std::uint8_t { no, maybe, yes };

/// An entry of the list.
struct WireProtocol {
  Protocol protocol = Protocol::unknown;

  /// Returns whether the connection speaks this protocol. `head` has at least one byte.
  Match (*recognise)(std::string_view head) = nullptr;

  /// Returns true if a recognised connection needs more bytes in its head before it is served. Null
  /// if it never does.
  std::function<bool(std::string_view head)> wants_more = {};

  /// Takes the connection over, with the bytes that were read as its head. Spawns a coroutine of
  /// its own and returns, so that the memory of the recognition is freed. Called on the
  /// connection's loop.
  std::function<void(std::shared_ptr<Stream>)> serve = {};

  /// Encodes a refusal for a client of this protocol.
  std::string (*refusal)(const Failure& reason) = nullptr;

  /// True if a client of an unknown protocol gets the refusal in this protocol's encoding. Used
  /// only where this is the one enabled protocol.
  bool refuses_unknown = false;
};

class Protocols {
 public:
  using List = std::array<WireProtocol, kProtocolCount>;

  /// `list` must have an entry for each of kProtocols, in the same order.
  explicit Protocols(List list);

  struct Found {
    Match match = Match::no;
    const WireProtocol* protocol = nullptr;  ///< set when it is a match
  };

  /// Finds the protocol of these first bytes among all, enabled or not.
  Found recognise(std::string_view head) const;

  /// Returns the protocol in which clients of unknown protocols get their refusal, given the
  /// enabled protocols; null if they get none.
  const WireProtocol* for_strangers(const ProtocolSet& enabled) const;

 private:
  List list_;
};

}  // namespace c10dd::daemon
