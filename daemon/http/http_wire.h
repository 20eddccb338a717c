// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 and 1.0 between bytes and messages; pure. Strict where leniency lets two readers
// disagree on where a request ends: then it is refused, and the connection is not to be used on.
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
  std::string host = {};  ///< of an absolute target, else the field
  bool has_host = false;  ///< HTTP/1.0 needs none
};

struct HttpReply {
  int status = 200;
  std::string content_type;
  std::string body;
  std::string allow = {};  ///< of 405: the methods that there are
  Code code = Code::ok;    ///< of an error
};

/// Reads one request.
class HttpReader {
 public:
  HttpReader();
  ~HttpReader();
  HttpReader(HttpReader&&) noexcept;

  /// Takes bytes from the front; how many. Stops behind a whole request.
  std::size_t put(std::string_view bytes);

  bool begun() const;
  /// The whole request, once it is read.
  const std::optional<HttpRequest>& request() const;
  /// Why it is no request, once that is known: 400, 413, 431 or 505, and never a second one.
  const std::optional<HttpReply>& refusal() const;
  /// The client waits for a word before it sends the body; true once.
  bool take_expects_continue();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::string_view kHttpContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// {"error": {"code", "detail"}}
HttpReply http_error(int status, Code code, std::string_view detail);

/// head: the answer to HEAD, which tells the length of the body and leaves it out.
std::string encode(const HttpReply& reply, bool keep_alive, bool head);

}  // namespace c10dd::daemon
