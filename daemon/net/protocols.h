// SPDX-License-Identifier: Apache-2.0
// The list of wire protocols: how each is recognised by the first bytes of a connection, how it is
// served, and how its clients get a refusal. The names are in daemon/config/protocol_names.h. The
// file of a protocol's session makes the protocol's entry. Server makes the list, and is the only
// class that includes all these files.
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

/// Whether the first bytes of a connection belong to a protocol. `maybe` means that more bytes are
/// needed to decide.
enum class Match : std::uint8_t { no, maybe, yes };

/// An entry of the list.
struct WireProtocol {
  Protocol protocol = Protocol::unknown;

  /// Returns whether the connection speaks this protocol. `head` has at least one byte.
  Match (*recognise)(std::string_view head) = nullptr;

  /// Returns true if a recognised connection needs more bytes in its head before it is served. Null
  /// if connections of this protocol never need more bytes.
  std::function<bool(std::string_view head)> wants_more = {};

  /// Takes the connection over. The stream's head holds the bytes that were already read. Spawns a
  /// new coroutine and returns, so that the memory of the recognising coroutine is freed. Called on
  /// the connection's loop.
  std::function<void(std::shared_ptr<Stream>)> serve = {};

  /// Encodes a refusal for a client of this protocol.
  std::string (*refusal)(const Failure& reason) = nullptr;

  /// True if a client of an unknown protocol gets the refusal in this protocol's encoding. Used
  /// only if no other protocol is enabled.
  bool refuses_unknown = false;
};

class Protocols {
 public:
  using List = std::array<WireProtocol, kProtocolCount>;

  /// `list` must have an entry for each of kProtocols, in the same order.
  explicit Protocols(List list);

  struct Found {
    Match match = Match::no;
    const WireProtocol* protocol = nullptr;  ///< set if `match` is yes
  };

  /// Finds the protocol to which these first bytes belong. Searches all protocols, enabled or not.
  Found recognise(std::string_view head) const;

  /// Returns the protocol whose encoding is used to refuse clients of unknown protocols; null if
  /// such clients get no refusal. `enabled` holds the enabled protocols.
  const WireProtocol* for_strangers(const ProtocolSet& enabled) const;

 private:
  List list_;
};

}  // namespace c10dd::daemon
