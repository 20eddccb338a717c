// SPDX-License-Identifier: Apache-2.0
// One HTTP connection to the JSON gateway of an etcd server.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "client/internal/stream.h"
#include "client/stores/store_server.h"
#include "protocol/error.h"

namespace c10dd::client::etcd {

/// Used by one thread at a time.
class Link {
 public:
  static Result<std::unique_ptr<Link>> open(const std::string& address, Clock::time_point end);
  ~Link();

  /// Posts a request, and returns the reply. Fails with unavailable if the connection is lost, or
  /// if there is no reply until reply_end(end); with malformed if the server is no etcd. If etcd
  /// reports an error, fails with
  ///   too_large          the request exceeds a limit of etcd
  ///   quota_exceeded     the database of etcd is full
  ///   permission_denied  etcd wants a login
  ///   unavailable        etcd has no leader; nothing was changed, unless is_lost()
  ///   internal           any other error
  Result<boost::json::value> post(std::string_view path, std::string_view body,
                                  Clock::time_point end);

  /// Begins to watch. Afterwards only next() may be called, until the link is destroyed.
  Result<void> watch(std::string_view body, Clock::time_point end);
  /// Returns the next message of the watch; null if none has come until `end`.
  Result<boost::json::value> next(Clock::time_point end);

  bool is_usable() const { return !lost_ && watch_ == nullptr && stream_.is_quiet(); }
  bool is_lost() const { return lost_; }

 private:
  struct Response;

  Link(Stream stream, std::string address);
  Result<void> send(std::string_view path, std::string_view body, Clock::time_point end);
  Result<bool> read_some(Response& response, Clock::time_point end);
  Failure lose(std::string why);
  Failure no_etcd(std::string_view why);
  Failure refused(const boost::json::value& error);

  Stream stream_;
  const std::string address_;
  Bytes in_;                 // received, not yet parsed
  bool incomplete_ = false;  // in_ has no whole line of a header or of a chunk
  std::unique_ptr<Response> watch_;
  bool lost_ = false;
};

}  // namespace c10dd::client::etcd
