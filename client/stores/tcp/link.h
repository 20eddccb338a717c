// SPDX-License-Identifier: Apache-2.0
// One connection to a server of PyTorch's TCPStore, and the recognition of its dialect.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/stream.h"
#include "client/stores/store_server.h"
#include "protocol/error.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::client::tcp {

/// What a server understands.
struct Version {
  tcpstore::Dialect dialect = tcpstore::Dialect::unknown;  ///< l0, l1 or v
  bool pings = false;                                      ///< PyTorch 2.5 and later
};

/// Asks the server in all dialects, each on a connection of its own. Fails with malformed if the
/// server understands none of them, and with unavailable or not_found if it cannot be reached.
Result<Version> recognise(const std::string& address, Clock::time_point end);

/// A reply that owns its texts.
struct LinkReply {
  std::int64_t number = 0;
  std::vector<std::string> texts;
};

/// Used by one thread at a time. A server reports an error only by closing the connection: then,
/// and if no reply arrives by reply_end(end), the calls fail with unavailable. If a reply is
/// none to its message, they fail as cut_reply() does. After each failure the link is lost.
class Link {
 public:
  static Result<std::unique_ptr<Link>> open(const std::string& address, Version version,
                                            Clock::time_point end);

  /// Sends messages in one piece, and returns the replies to those that have one.
  Result<std::vector<LinkReply>> call(std::span<const tcpstore::Message> messages,
                                      Clock::time_point end);
  /// Sends one message that has a reply.
  Result<LinkReply> call(const tcpstore::Message& message, Clock::time_point end);

  /// Waits in the server until all keys exist. Returns false if they do not until `end`.
  Result<bool> wait(const std::vector<std::string_view>& keys, Clock::time_point end);

  bool is_usable() const { return !lost_ && in_.empty() && stream_.is_quiet(); }
  bool is_lost() const { return lost_; }

 private:
  Link(Stream stream, tcpstore::Dialect dialect) : stream_(std::move(stream)), dialect_(dialect) {}
  Result<void> send(std::span<const tcpstore::Message> messages, Clock::time_point end);
  Result<bool> receive(const tcpstore::Message& to, Clock::time_point end, LinkReply& reply);
  Failure lose(std::string why);
  Failure unexpected(std::int64_t number, std::string_view expected);

  struct Begun {
    std::unique_ptr<Link> link;
    std::vector<LinkReply> replies;
  };
  static Result<Begun> begin(const std::string& address, tcpstore::Dialect dialect,
                             std::span<const tcpstore::Message> messages, Clock::time_point end);
  Result<std::vector<LinkReply>> exchange(std::span<const tcpstore::Message> messages,
                                          Clock::time_point end);
  friend Result<Version> recognise(const std::string& address, Clock::time_point end);

  Stream stream_;
  tcpstore::Dialect dialect_;
  Bytes in_;  // received, not yet read
  bool lost_ = false;
  bool silent_ = false;  // lost, because the server did not reply in time
};

}  // namespace c10dd::client::tcp
