// SPDX-License-Identifier: Apache-2.0
// Reads the HTTP responses of etcd's JSON gateway from bytes. Does no I/O. Each limit that a
// response exceeds fails with too_large, and the text has the value and the limit; bytes that are
// no response of such a gateway fail with malformed.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::client::etcd {

/// Reads one response. A response to a watch never ends: take_message() removes its messages.
class ResponseReader {
 public:
  ResponseReader();
  ~ResponseReader();

  /// Reads what it can of `in`, and removes that. What remains needs more bytes.
  Result<void> read(Bytes& in);

  bool is_done() const;      ///< the response is whole
  bool is_ok() const;        ///< its status is 200
  bool keeps_alive() const;  ///< the server will take another request on this connection

  /// Returns the body of a whole response, which must be an object.
  Result<boost::json::object> body() const;
  /// Removes the next message of a watch, and returns its result. Returns nothing if it is not
  /// whole. Fails with unavailable if the server has ended the watch.
  Result<std::optional<boost::json::object>> take_message();

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

/// Returns the failure for bytes that an etcd with a JSON gateway does not send.
Failure no_etcd(std::string_view why);

/// An error that etcd has reported.
struct Refusal {
  Failure why;
  bool maybe_done = false;  ///< etcd may have made the change nevertheless
};

/// Reads the body of a response whose status is not 200. The failure is malformed if it has no
/// error, or
///   too_large          the request exceeds a limit of etcd
///   quota_exceeded     the database of etcd is full
///   permission_denied  etcd wants a login
///   unavailable        etcd has no leader
///   internal           any other error
Refusal read_refusal(const boost::json::object& body);

}  // namespace c10dd::client::etcd
