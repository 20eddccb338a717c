// SPDX-License-Identifier: Apache-2.0
// The list of wire protocols. The entry of a protocol has functions that recognise the protocol by
// the first bytes of a connection, serve a connection, and encode a refusal. For each protocol, one
// function makes the entry. Only Server includes the headers of all these functions, because Server
// makes the list. The names of the protocols are in
// daemon/config/protocol_names.h.
// All functions are called on the loop that accepts connections.
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

  /// Returns true if a recognised connection needs more bytes in its head before it is served. This
  /// function is null if connections of this protocol never need more bytes.
  std::function<bool(std::string_view head)> wants_more = {};

  /// Fails if the peer must not use this protocol. This function is null if every peer may.
  std::function<Result<void>(const Stream&)> admits = {};

  /// Called if a connection has sent nothing within the deadline. Returns true if the protocol
  /// keeps the connection. This function is null if the protocol keeps no such connection.
  std::function<bool(const std::shared_ptr<Stream>&)> keep_silent = {};

  /// Starts to serve the connection, and returns at once. The coroutine that
  /// recognised the protocol then ends, so that its memory is freed. Stream::head() holds the bytes
  /// that were already read. Called on the connection's loop.
  std::function<void(std::shared_ptr<Stream>)> serve = {};

  /// Encodes a refusal for a client of this protocol. Returns an empty text if the protocol has no
  /// message for a refusal.
  std::string (*refusal)(const Failure& reason) = nullptr;

  /// True if `refusal` also encodes the refusals for clients of unknown protocols. Has no effect
  /// unless this is the only enabled protocol.
  bool refuses_unknown = false;
};

class Protocols {
 public:
  using List = std::array<WireProtocol, kProtocolCount>;

  /// `list` must have one entry for each element of kProtocols, in the same order.
  explicit Protocols(List list);

  struct Found {
    Match match = Match::no;
    const WireProtocol* protocol = nullptr;  ///< set if `match` is yes
  };

  /// Finds the protocol of a connection that begins with `head`. Searches disabled protocols, too.
  Found recognise(std::string_view head) const;

  /// Lets the protocols of `enabled` keep a connection that has sent nothing. Returns true if one
  /// of them keeps it.
  bool keep_silent(const std::shared_ptr<Stream>& stream, const ProtocolSet& enabled) const;

  /// Returns the protocol whose encoding is used to refuse clients of unknown protocols; null if
  /// such clients get no refusal. `enabled` holds the enabled protocols.
  const WireProtocol* for_strangers(const ProtocolSet& enabled) const;

 private:
  List list_;
};

}  // namespace c10dd::daemon
