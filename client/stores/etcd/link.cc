// SPDX-License-Identifier: Apache-2.0
// Beast parses the responses; Stream sends and receives, because its calls have deadlines.
#include "client/stores/etcd/link.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/json/parse.hpp>
#include <utility>

#include "client/stores/server_links.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd::client::etcd {
namespace {

namespace http = boost::beast::http;
namespace json = boost::json;

constexpr std::size_t kQuotedBytes = 200;
constexpr int kGrpcUnavailable = 14;
constexpr int kGrpcUnauthenticated = 16;
constexpr int kGrpcPermissionDenied = 7;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view text_at(const json::value& value, std::string_view name) {
  const json::object* object = value.if_object();
  const json::value* found = object != nullptr ? object->if_contains(name) : nullptr;
  const json::string* text = found != nullptr ? found->if_string() : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

}  // namespace

struct Link::Response {
  Response() {
    parser.body_limit(boost::none);
    parser.eager(true);
  }
  http::response_parser<http::string_body> parser;
};

Link::Link(Stream stream, std::string address)
    : stream_(std::move(stream)), address_(std::move(address)) {}

Link::~Link() = default;

Result<std::unique_ptr<Link>> Link::open(const std::string& address, Clock::time_point end) {
  Result<Stream> stream = Stream::connect(address, end);
  if (!stream) return stream.error();
  return std::unique_ptr<Link>(new Link(std::move(*stream), address));
}

Failure Link::lose(std::string why) {
  lost_ = true;
  return failure(Code::unavailable, std::move(why));
}

Failure Link::no_etcd(std::string_view why) {
  lost_ = true;
  return failure(Code::malformed, "this is no etcd server with a JSON gateway (etcd 3.4): {}",
                 printable(why, kQuotedBytes));
}

Result<void> Link::send(std::string_view path, std::string_view body, Clock::time_point end) {
  Bytes out = format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n",
      path, address_, body.size());
  out += body;
  const Result<void> sent = stream_.send(out, reply_end(end));
  if (!sent) return lose(sent.error().detail);
  return {};
}

/// Parses what has come, after receiving more if that is needed. Returns false if nothing has come
/// until `end`.
Result<bool> Link::read_some(Response& response, Clock::time_point end) {
  if (in_.empty() || incomplete_) {
    const Result<bool> more = stream_.receive(in_, end);
    if (!more) return lose(more.error().detail);
    if (!*more) return false;
  }
  boost::system::error_code error;
  const std::size_t used = response.parser.put(boost::asio::buffer(in_), error);
  in_.erase(0, used);
  incomplete_ = error == http::error::need_more;
  if (error && !incomplete_) return no_etcd(error.message());
  return true;
}

/// Returns the failure that etcd has reported. If etcd may have made the change, sets lost_.
Failure Link::refused(const json::value& error) {
  std::string_view text = text_at(error, "error");
  if (text.empty()) text = text_at(error, "message");
  if (text.empty()) return no_etcd("a reply without error or result");
  const json::value* number = error.as_object().if_contains("code");
  const std::int64_t code = number != nullptr && number->is_int64() ? number->as_int64() : 0;
  const auto with = [text](Code kind, std::string_view remedy) {
    return failure(kind, "etcd refuses: {}{}", text, remedy);
  };
  if (has(text, "too many operations")) {
    return with(Code::too_large, "; its limit is the option --max-txn-ops of etcd, 128 by default");
  }
  if (has(text, "too large") || has(text, "larger than max")) {
    return with(Code::too_large,
                "; its limit is the option --max-request-bytes of etcd, 1.5 MiB by default");
  }
  if (has(text, "space exceeded")) {
    return with(Code::quota_exceeded, "; raise --quota-backend-bytes of etcd, or compact it");
  }
  if (code == kGrpcUnauthenticated || code == kGrpcPermissionDenied || has(text, "user name")) {
    return with(Code::permission_denied, "; a store needs an etcd without authentication");
  }
  if (code != kGrpcUnavailable) return with(Code::internal, "");
  if (!has(text, "no leader")) lost_ = true;  // such as "request timed out"
  return with(Code::unavailable, "");
}

Result<json::value> Link::post(std::string_view path, std::string_view body,
                               Clock::time_point end) {
  if (Result<void> sent = send(path, body, end); !sent) return sent.error();
  Response response;
  while (!response.parser.is_done()) {
    const Result<bool> more = read_some(response, reply_end(end));
    if (!more) return more.error();
    if (!*more) return lose("the server does not reply");
  }
  const auto& message = response.parser.get();
  boost::system::error_code error;
  json::value reply = json::parse(message.body(), error);
  if (error) return no_etcd(message.body());
  if (!message.keep_alive()) lost_ = true;
  if (message.result() != http::status::ok) return refused(reply);
  return reply;
}

Result<void> Link::watch(std::string_view body, Clock::time_point end) {
  watch_ = std::make_unique<Response>();
  return send("/v3/watch", body, end);
}

Result<json::value> Link::next(Clock::time_point end) {
  http::response_parser<http::string_body>& parser = watch_->parser;
  while (true) {
    std::string& body = parser.get().body();
    if (const std::size_t line = body.find('\n'); line != std::string::npos) {
      boost::system::error_code error;
      json::value message = json::parse(std::string_view(body).substr(0, line), error);
      body.erase(0, line + 1);
      if (error || !message.is_object()) return no_etcd(error.message());
      if (message.as_object().contains("result")) return message.as_object()["result"];
      return lose("etcd has ended the watch");
    }
    if (parser.is_done()) return lose("etcd has ended the watch");
    const Result<bool> more = read_some(*watch_, end);
    if (!more) return more.error();
    if (!*more) return json::value();
  }
}

}  // namespace c10dd::client::etcd
