// SPDX-License-Identifier: Apache-2.0
// One HTTP connection to the JSON gateway of an etcd server.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "client/internal/stream.h"
#include "client/stores/etcd/response.h"
#include "client/stores/store_server.h"
#include "protocol/error.h"

namespace c10dd::client::etcd {

/// Used by one thread at a time.
class Link {
 public:
  static Result<std::unique_ptr<Link>> open(const std::string& address, Clock::time_point end);

  /// Posts a request, and returns the reply. Fails with unavailable if the connection is lost, or
  /// if no reply arrives by reply_end(end); as ResponseReader says if the server is not etcd;
  /// and as read_refusal() says if etcd reports an error. Then nothing was changed, unless
  /// is_lost().
  Result<boost::json::object> post(std::string_view path, std::string_view body,
                                   Clock::time_point end);

  /// Posts a request, and returns read(reply), one of the functions of requests.h. If the reply is
  /// not what an etcd returns, the connection is lost.
  template <class Read>
  std::invoke_result_t<Read, const boost::json::object&> ask(std::string_view path,
                                                             std::string_view body,
                                                             Clock::time_point end,
                                                             const Read& read) {
    const Result<boost::json::object> reply = post(path, body, end);
    if (!reply) return reply.error();
    auto result = read(*reply);
    if (!result && result.error().code == Code::malformed) lost_ = true;
    return result;
  }

  /// Begins to watch. Afterwards only next() may be called, until the link is destroyed.
  Result<void> watch(std::string_view body, Clock::time_point end);
  /// Returns the next message of the watch; nothing if none arrives by `end`.
  Result<std::optional<boost::json::object>> next(Clock::time_point end);

  bool is_usable() const {
    return !lost_ && !ends_ && watch_ == nullptr && in_.empty() && stream_.is_quiet();
  }
  bool is_lost() const { return lost_; }

 private:
  Link(Stream stream, std::string address);
  Result<void> send(std::string_view path, std::string_view body, Clock::time_point end);
  Result<bool> receive(ResponseReader& response, Clock::time_point end);
  Failure lose(Failure why);

  Stream stream_;
  const std::string address_;
  Bytes in_;  // received, not yet read
  std::unique_ptr<ResponseReader> watch_;
  bool lost_ = false;
  bool ends_ = false;  // the server takes no further request
};

}  // namespace c10dd::client::etcd
