// SPDX-License-Identifier: Apache-2.0
// Access: what --tls and --grants do. Decrypts connections, says who their clients are and what
// they may do, and reads the files again when they change.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/metrics/metrics.h"
#include "daemon/net/session_context.h"
#include "daemon/net/stream.h"
#include "daemon/shard/loop.h"

namespace c10dd::daemon {

/// All functions are called on the loop that accepts connections.
class Access {
 public:
  virtual ~Access() = default;

  /// Lets the connections of `context` use this object, which must outlive them. From now on looks
  /// at the files every few seconds. `addresses`: at which other daemons of a fleet reach this one.
  virtual void serve(SessionContext& context, Metrics& metrics,
                     const std::vector<std::string>& addresses) = 0;

  /// Reads the files again. If they are not good, the old ones stay in force.
  virtual void reload() = 0;

  /// Returns what operators have to know, for /readyz; empty if there is nothing.
  virtual std::string note() const = 0;

  /// Ends the handshakes under way. Afterwards no other thread uses the loop on behalf of this
  /// object, and no connection may be passed to it.
  virtual void stop() = 0;
};

/// Reads the files of --tls and --grants. Returns null if there is no --tls. Fails with
/// invalid_argument, with a text that names the file and says what to do; and with unsupported if
/// this daemon was built without OpenSSL.
Result<std::unique_ptr<Access>> open_access(Loop& loop, const Options& options);

/// Sends `request` over a connection to the daemon that has these options, and returns all that it
/// sends until it closes the connection. Blocks. Trusts the CA of --tls. Fails as open_access()
/// does, and with unavailable if the connection is lost.
Result<Bytes> ask_over_tls(const Options& options, asio::ip::tcp::socket& connected,
                           std::string_view request);

}  // namespace c10dd::daemon
