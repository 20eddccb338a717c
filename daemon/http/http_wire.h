// SPDX-License-Identifier: Apache-2.0
// Converts between bytes and HTTP/1.1 or 1.0 messages. Does no input or output. Refuses a request
// if two readers could disagree about where the request ends (request smuggling). After a refusal
// the connection must not be used any more.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd::daemon {

struct HttpRequest {
  std::string method;
  std::string target;
  bool keep_alive = false;
  std::string content_type = {};
  std::string body = {};
  std::string accept = {};
  std::string host = {};  ///< the host of an absolute target, or the Host field
  bool has_host = false;  ///< false: an HTTP/1.0 request that names no host
  std::string forwarded_by =
      {};                   ///< the daemon that passed the request on; empty: a client sent it
  std::string secret = {};  ///< see kHttpSecret
  std::string token = {};   ///< of the field Authorization, with the scheme Bearer
};

/// Field of a request that a daemon has passed on: the address of that daemon. Such a request is
/// not passed on again.
inline constexpr std::string_view kHttpForwardedBy = "C10DD-Forwarded-By";
/// Field of such a request if its client was on the machine of that daemon: the relay key of the
/// daemon that gets the request (store::DaemonFacts), which only daemons of its fleet can read.
inline constexpr std::string_view kHttpSecret = "C10DD-Fleet-Secret";

struct HttpReply {
  int status = 200;
  std::string content_type;
  std::string body;
  std::string allow = {};  ///< the Allow field of a 405: the methods of the route
  Code code = Code::ok;    ///< the code of an error reply
  int retry_after = 0;     ///< of a temporary failure: seconds; otherwise 0
  bool bad_token = false;  ///< of a 401: the token of the request is not good
};

/// Reads one request.
class HttpReader {
 public:
  HttpReader();
  ~HttpReader();
  HttpReader(HttpReader&&) noexcept;

  /// Consumes bytes from the front, and returns how many bytes were consumed. Stops after a
  /// complete request. The caller keeps the bytes that were not consumed, and passes them again,
  /// followed by new bytes.
  std::size_t put(std::string_view bytes);

  /// Returns whether the first byte of a request was consumed.
  bool begun() const;
  /// Returns the request if it is complete; otherwise returns nothing.
  const std::optional<HttpRequest>& request() const;
  /// If the bytes cannot be a valid request, returns the error reply (400, 413, 431 or 505). The
  /// refusal is final.
  const std::optional<HttpReply>& refusal() const;
  /// Returns true if the client has sent "Expect: 100-continue" and waits to send the body. Later
  /// calls return false.
  bool take_expects_continue();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::string_view kHttpContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns a reply with the body {"error": {"code": ..., "detail": ...}}.
HttpReply http_error(int status, Code code, std::string_view detail);

/// As above, with the status that the code usually has, and Failure::retry_after in full seconds.
HttpReply http_error(const Failure& why);

/// Returns the bytes of a reply. head: true for the reply to a HEAD request. This reply states the
/// length of the body but omits the body.
std::string encode(const HttpReply& reply, bool keep_alive, bool head);

}  // namespace c10dd::daemon
