// SPDX-License-Identifier: Apache-2.0
#include "client/stores/etcd/response.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/parse.hpp>
#include <utility>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::client::etcd {
namespace {

namespace http = boost::beast::http;
namespace json = boost::json;

constexpr int kGrpcUnavailable = 14;
constexpr int kGrpcUnauthenticated = 16;
constexpr int kGrpcPermissionDenied = 7;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view text_at(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  const json::string* text = found != nullptr ? found->if_string() : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

Failure reply_too_large(std::uint64_t bytes) {
  return failure(Code::too_large, "the reply has {} bytes or more, limit {}; read fewer keys",
                 bytes, limits::kForeignReplyBytes);
}

Result<json::object> object_of(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) return no_etcd(text.empty() ? "the reply has no body" : text);
  if (!value.is_object()) return no_etcd("the reply is not a JSON object");
  return std::move(value.get_object());
}

}  // namespace

struct ResponseReader::Parser {
  http::response_parser<http::string_body> http;
};

ResponseReader::ResponseReader() : parser_(std::make_unique<Parser>()) {
  parser_->http.body_limit(boost::none);  // read() has a limit of what is held of it
  parser_->http.header_limit(limits::kHttpHeaderBytes);
  parser_->http.eager(true);
}
ResponseReader::~ResponseReader() = default;

Result<void> ResponseReader::read(Bytes& in) {
  auto& parser = parser_->http;
  std::size_t used = 1;
  while (!in.empty() && used > 0 && !parser.is_done()) {
    boost::system::error_code error;
    used = parser.put(boost::asio::buffer(in), error);
    in.erase(0, used);
    const std::size_t held = parser.get().body().size();
    const std::uint64_t told = parser.is_header_done() ? parser.content_length().value_or(0) : 0;
    if (const auto most = std::max<std::uint64_t>(held, told); most > limits::kForeignReplyBytes) {
      return reply_too_large(most);
    }
    if (error == http::error::need_more && in.size() > limits::kHttpHeaderBytes) {
      return failure(Code::too_large, "the reply has a line of {} bytes or more, limit {}",
                     in.size(), limits::kHttpHeaderBytes);
    }
    if (error == http::error::header_limit) {
      return failure(Code::too_large, "the reply has a header of {} bytes or more, limit {}",
                     used + in.size(), limits::kHttpHeaderBytes);
    }
    if (error == http::error::need_more) break;
    if (error) return no_etcd(error.message());
  }
  return {};
}

bool ResponseReader::is_done() const { return parser_->http.is_done(); }
bool ResponseReader::is_ok() const { return parser_->http.get().result() == http::status::ok; }
bool ResponseReader::keeps_alive() const { return parser_->http.get().keep_alive(); }

Result<json::object> ResponseReader::body() const { return object_of(parser_->http.get().body()); }

Result<std::optional<json::object>> ResponseReader::take_message() {
  std::string& body = parser_->http.get().body();
  const auto ended = [] { return failure(Code::unavailable, "etcd has ended the watch"); };
  const std::size_t line = body.find('\n');
  if (line == std::string::npos) {
    return is_done() ? Result<std::optional<json::object>>(ended()) : std::optional<json::object>();
  }
  Result<json::object> message = object_of(std::string_view(body).substr(0, line));
  body.erase(0, line + 1);
  if (!message) return message.error();
  json::value* result = message->if_contains("result");
  if (result == nullptr) return ended();
  if (!result->is_object()) return no_etcd("the result in a watch message is not an object");
  return std::optional(std::move(result->get_object()));
}

// ---- failures ----------------------------------------------------------------------------------

Failure no_etcd(std::string_view why) {
  return failure(Code::malformed,
                 "this is not an etcd server with a JSON gateway (etcd 3.4 or later): {}",
                 foreign_text(why));
}

Refusal read_refusal(const json::object& body) {
  std::string_view text = text_at(body, "error");
  if (text.empty()) text = text_at(body, "message");
  if (text.empty()) return {no_etcd("the error reply has no text"), true};
  const json::value* number = body.if_contains("code");
  const std::int64_t code = number != nullptr && number->is_int64() ? number->get_int64() : 0;
  const auto with = [text](Code kind, std::string_view remedy) {
    return Refusal{failure(kind, "etcd refuses the request: {}{}", foreign_text(text), remedy)};
  };
  if (has(text, "too many operations")) {
    return with(Code::too_large, "; raise --max-txn-ops of etcd (128 by default)");
  }
  if (has(text, "too large") || has(text, "larger than max")) {
    return with(Code::too_large, "; raise --max-request-bytes of etcd (1.5 MiB by default)");
  }
  if (has(text, "space exceeded")) {
    return with(Code::quota_exceeded, "; raise --quota-backend-bytes of etcd, or compact it");
  }
  if (code == kGrpcUnauthenticated || code == kGrpcPermissionDenied || has(text, "user name")) {
    return with(Code::permission_denied, "; use an etcd server without authentication");
  }
  if (code != kGrpcUnavailable) return with(Code::internal, "");
  Refusal refusal = with(Code::unavailable, "");
  refusal.maybe_done = !has(text, "no leader");  // such as "request timed out"
  return refusal;
}

}  // namespace c10dd::client::etcd
