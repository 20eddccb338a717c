// SPDX-License-Identifier: Apache-2.0
// Converts between bytes and HTTP/1.1 or 1.0 messages. Pure. A request whose end two readers could
// place differently (request smuggling) is refused, and its connection must not be used any more.
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
  std::string host = {};  ///< the host of an absolute target, else the Host field
  bool has_host = false;  ///< false is possible in HTTP/1.0 only
};

struct HttpReply {
  int status = 200;
  std::string content_type;
  std::string body;
  std::string allow = {};  ///< the Allow field of a 405: the methods of the route
  Code code = Code::ok;    ///< the code of an error reply
};

/// Reads one request.
class HttpReader {
 public:
  HttpReader();
  ~HttpReader();
  HttpReader(HttpReader&&) noexcept;

  /// Consumes bytes from the front and returns how many. Stops after a complete request. The caller
  /// keeps the rest and passes it again with what is received next.
  std::size_t put(std::string_view bytes);

  /// Returns whether the first byte of a request was consumed.
  bool begun() const;
  /// Returns the request once it is complete.
  const std::optional<HttpRequest>& request() const;
  /// Returns the error reply (400, 413, 431 or 505) once the bytes are known not to be a valid
  /// request. It does not change afterwards.
  const std::optional<HttpReply>& refusal() const;
  /// Returns true once if the client has sent "Expect: 100-continue" and waits to send the body.
  bool take_expects_continue();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::string_view kHttpContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// Returns a reply with the body {"error": {"code": ..., "detail": ...}}.
HttpReply http_error(int status, Code code, std::string_view detail);

/// Returns the bytes of a reply. head: for a HEAD request, with the length of the body and without
/// the body.
std::string encode(const HttpReply& reply, bool keep_alive, bool head);

}  // namespace c10dd::daemon
