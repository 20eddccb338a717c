// SPDX-License-Identifier: Apache-2.0
// Parses HTTP with Beast, and checks two things that Beast does not check: that the request gives
// the length of its body in only one way, and that it has only one Host.
#include "daemon/http/http_wire.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <sstream>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kDetailBytes = 512;
constexpr std::string_view kLastChunk = "0\r\n\r\n";

HttpReply malformed(std::string_view why) {
  return http_error(400, Code::malformed, "invalid request: " + std::string(why));
}

HttpReply header_too_large(bool of_chunk) {
  return http_error(
      431, Code::too_large,
      format("the {} is longer than the limit of {} bytes",
             of_chunk ? "header of a chunk, or the trailer," : "header of the request",
             limits::kHttpHeaderBytes));
}

/// Returns the token of an Authorization field; empty if it has another scheme (RFC 6750).
std::string bearer_in(std::string_view field) {
  constexpr std::string_view kScheme = "bearer ";
  if (field.size() < kScheme.size()) return {};
  if (!boost::beast::iequals(field.substr(0, kScheme.size()), kScheme)) return {};
  const std::size_t begin = field.find_first_not_of(' ', kScheme.size());
  return begin == field.npos ? "" : std::string(field.substr(begin));
}

HttpReply refusal_of(const boost::system::error_code& error) {
  if (error == http::error::body_limit) {
    return http_error(413, Code::too_large,
                      format("the body of the request is longer than the limit of {} bytes",
                             limits::kHttpBodyBytes));
  }
  if (error == http::error::bad_version) {
    return http_error(505, Code::version_unsupported,
                      "unsupported HTTP version; use HTTP/1.1 or HTTP/1.0");
  }
  return malformed(error.message());
}

/// If two readers might disagree about the end or the host of this request, returns the reason;
/// otherwise returns an empty text.
std::string_view ambiguity(const http::request<http::string_body>& request) {
  const auto lengths = request.count(http::field::content_length);
  const auto codings = request.count(http::field::transfer_encoding);
  if (lengths > 1) return "more than one content-length";
  if (lengths > 0 && codings > 0) return "both content-length and transfer-encoding";
  if (lengths > 0 && request[http::field::content_length].find(',') != std::string_view::npos) {
    return "more than one content-length";
  }
  if (codings > 1) return "more than one transfer-encoding";
  if (codings > 0) {
    if (request.version() < 11) return "transfer-encoding in HTTP/1.0";
    if (!boost::beast::iequals(request[http::field::transfer_encoding], "chunked")) {
      return "a transfer-encoding other than chunked";
    }
  }
  if (request.count(http::field::authorization) > 1) return "more than one authorization field";
  if (request.count(kHttpSecret) > 1) return "more than one secret of a fleet";
  const auto hosts = request.count(http::field::host);
  if (hosts > 1) return "more than one host field";
  if (hosts == 0 && request.version() >= 11) return "no host field";
  return {};
}

/// If the target has the absolute form, returns its host, which overrides the Host field.
std::optional<std::string> host_of(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!target.starts_with(kScheme)) return std::nullopt;
  target.remove_prefix(kScheme.size());
  return std::string(target.substr(0, target.find_first_of("/?#")));
}

}  // namespace

struct HttpReader::Impl {
  Impl() {
    parser.header_limit(2 * limits::kHttpHeaderBytes);  // put() already enforces a lower limit
    parser.body_limit(limits::kHttpBodyBytes);
    parser.eager(false);  // stop after the header
  }

  /// Checks and copies the header. Called before the body is read, because Beast later adds the
  /// trailer fields to the header fields, and trailer fields must not count as header fields.
  void take_header() {
    checked = true;
    parser.eager(true);
    const auto& message = parser.get();
    const std::string_view why = ambiguity(message);
    if (!why.empty()) refusal = malformed(why);
    expects_continue = boost::beast::iequals(message[http::field::expect], "100-continue");
    header = HttpRequest{std::string(message.method_string()), std::string(message.target()),
                         message.keep_alive(), std::string(message[http::field::content_type])};
    header.accept = std::string(message[http::field::accept]);
    header.host = host_of(header.target).value_or(std::string(message[http::field::host]));
    header.forwarded_by = std::string(message[kHttpForwardedBy]);
    header.secret = std::string(message[kHttpSecret]);
    header.token = bearer_in(message[http::field::authorization]);
    header.has_host = message.version() >= 11 || message.count(http::field::host) > 0 ||
                      host_of(header.target).has_value();
  }

  void finish() {
    request = std::move(header);
    request->body = std::move(parser.get().body());
  }

  /// Returns how many bytes the parser may get in its next call. Thus the header, each chunk header
  /// and the trailer can have at most kHttpHeaderBytes each.
  std::size_t room() const { return limits::kHttpHeaderBytes - (checked ? 0 : header_bytes); }

  http::request_parser<http::string_body> parser;
  bool begun = false;
  bool checked = false;          ///< the header is complete and was checked
  std::size_t header_bytes = 0;  ///< consumed so far
  bool expects_continue = false;
  HttpRequest header;
  std::optional<HttpRequest> request;
  std::optional<HttpReply> refusal;
};

HttpReader::HttpReader() : impl_(std::make_unique<Impl>()) {}
HttpReader::~HttpReader() = default;
HttpReader::HttpReader(HttpReader&&) noexcept = default;

std::size_t HttpReader::put(std::string_view bytes) {
  Impl& in = *impl_;
  std::size_t taken = 0;
  while (taken < bytes.size() && !in.request && !in.refusal) {
    in.begun = true;
    // room() enforces the limit, because Beast's own limit is not enough: Beast counts the first
    // line and the fields separately, and ignores chunk headers and the trailer.
    std::string_view rest = bytes.substr(taken);
    // Beast 1.81 fails an assertion if the last chunk is also the first chunk and arrives in parts.
    if (in.checked && in.parser.chunked() && rest.size() < kLastChunk.size()) break;
    const bool full = rest.size() >= in.room();
    if (full) rest = rest.substr(0, in.room());
    boost::system::error_code error;
    const std::size_t n = in.parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
    taken += n;
    if (!in.checked && in.parser.is_header_done()) {
      in.take_header();
    } else if (!in.checked) {
      in.header_bytes += n;
    }
    // The parser needs more bytes. If it got fewer than room() bytes, the caller must supply more.
    // If it got room() bytes and consumed none of them, the header is too large. If it consumed at
    // least one of them, the loop goes on.
    if (error == http::error::need_more && !(full && n > 0)) {
      if (full) in.refusal = header_too_large(in.checked);
      break;
    }
    if (error && error != http::error::need_more && !in.refusal) in.refusal = refusal_of(error);
    if (in.parser.is_done() && !in.refusal) in.finish();
  }
  return taken;
}

bool HttpReader::begun() const { return impl_->begun; }

const std::optional<HttpRequest>& HttpReader::request() const { return impl_->request; }

const std::optional<HttpReply>& HttpReader::refusal() const { return impl_->refusal; }

bool HttpReader::take_expects_continue() {
  const bool waits = impl_->expects_continue && !impl_->request && !impl_->refusal;
  impl_->expects_continue = false;
  return waits;
}

HttpReply http_error(int status, Code code, std::string_view detail) {
  const boost::json::value body = {
      {"error", {{"code", name_of(code)}, {"detail", printable(detail, kDetailBytes)}}}};
  return {status, "application/json", boost::json::serialize(body) + "\n", {}, code};
}

HttpReply http_error(const Failure& why) {
  HttpReply reply = http_error(describe(why.code).http_status, why.code, why.detail);
  if (why.retry_after > Duration::zero()) {
    reply.retry_after =
        static_cast<int>(std::chrono::ceil<std::chrono::seconds>(why.retry_after).count());
  }
  return reply;
}

std::string encode(const HttpReply& reply, bool keep_alive, bool head) {
  http::response<http::empty_body> message(static_cast<http::status>(reply.status), 11);
  message.set(http::field::content_type, reply.content_type);
  message.content_length(reply.body.size());
  if (!reply.allow.empty()) message.set(http::field::allow, reply.allow);
  if (reply.retry_after > 0) {
    message.set(http::field::retry_after, std::to_string(reply.retry_after));
  }
  if (message.result() == http::status::unauthorized) {  // RFC 6750, 3
    message.set(http::field::www_authenticate,
                reply.bad_token ? R"(Bearer realm="c10dd", error="invalid_token")"
                                : R"(Bearer realm="c10dd")");
  }
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.set(http::field::connection, keep_alive ? "keep-alive" : "close");
  std::ostringstream out;
  out << message;
  return head ? out.str() : out.str() + reply.body;
}

}  // namespace c10dd::daemon
