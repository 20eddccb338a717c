// SPDX-License-Identifier: Apache-2.0
// The list of wire protocols: how one is told from the others by the first bytes of a connection,
// how it is served, and how a refusal is said in its words. The names are in
// daemon/config/protocol_names.h. A session's file makes the entry of its protocol; the list itself
// is made by Server, the only one who sees all of them.
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

/// What the first bytes of a connection say of a protocol.
enum class Match : std::uint8_t { no, maybe, yes };

struct WireProtocol {
  Protocol protocol = Protocol::unknown;

  /// Whether it is this one, for at least one byte; `maybe` asks for more.
  Match (*recognise)(std::string_view head) = nullptr;

  /// Whether more is to be read of a connection that was recognised before it is served; null: no.
  std::function<bool(std::string_view head)> wants_more = {};

  /// Takes the connection over, on its loop, with the bytes that were read as its head. What it
  /// starts is spawned, so that nothing of the recognition stays in memory with it.
  std::function<void(std::shared_ptr<Stream>)> serve = {};

  /// Returns the bytes that tell a client of this protocol why it is refused.
  std::string (*refusal)(const Failure& reason) = nullptr;

  /// Whether that is also told to who speaks something else, where only this protocol is spoken.
  bool tells_strangers = false;
};

class Protocols {
 public:
  using List = std::array<WireProtocol, kProtocolCount>;

  /// An entry for each of kProtocols, in their order.
  explicit Protocols(List list);

  struct Found {
    Match match = Match::no;
    const WireProtocol* protocol = nullptr;  ///< set when it is a match
  };

  /// Returns whose first bytes these are, of all protocols whether they are spoken or not.
  Found recognise(std::string_view head) const;

  /// Returns whose words are for strangers where these are spoken; null when nobody's are.
  const WireProtocol* for_strangers(const ProtocolSet& spoken) const;

 private:
  List list_;
};

}  // namespace c10dd::daemon
