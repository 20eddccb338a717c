// SPDX-License-Identifier: Apache-2.0
#include "daemon/forwarder.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <sstream>

#include "daemon/http/route_table.h"
#include "daemon/net/plain_stream.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::experimental::awaitable_operators::operator||;
using asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using HttpMessage = http::request<http::string_body>;
using Parser = http::response_parser<http::string_body>;

/// One request to another daemon.
struct Exchange {
  HttpMessage request;
  Parser parser;
  std::string address;     ///< the one that is used; before that, the last that was tried
  ErrorCode failed;        ///< why there is no reply
  std::string why = {};    ///< the same in words; empty: those of `failed`
  bool connected = false;  ///< the request may have been received
};

/// Connects to one address. Returns null if that fails.
asio::awaitable<std::shared_ptr<Stream>> connect(Exchange& exchange, bool tls,
                                                 const SessionContext& context) {
  ErrorCode& failed = exchange.failed;
  failed = {};
  exchange.why.clear();
  const Result<AddressParts> parts = split_address(exchange.address);
  if (!parts || !parts->port) {
    failed = asio::error::invalid_argument;
    co_return nullptr;
  }
  const auto loop = co_await asio::this_coro::executor;
  tcp::resolver resolver(loop);
  const std::string host(parts->host);
  const std::string port(*parts->port);
  const auto found = co_await resolver.async_resolve(
      host, port, asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return nullptr;
  tcp::socket socket(loop);
  co_await asio::async_connect(socket, found, asio::redirect_error(asio::use_awaitable, failed));
  if (failed) co_return nullptr;
  configure(socket);
  std::shared_ptr<Stream> stream = std::make_shared<PlainStream>(std::move(socket), Ticket());
  if (!tls) co_return stream;
  if (!context.encrypt) {
    exchange.why = "it asks for TLS; start this daemon with --tls, too";
    co_return nullptr;
  }
  const Result<std::shared_ptr<Stream>> encrypted = co_await context.encrypt(stream, host);
  if (encrypted) co_return *encrypted;
  exchange.why = encrypted.error().detail;
  co_return nullptr;
}

/// Sends the request to the first address that takes the connection, and receives the reply.
/// Another address is not tried after that: the request may have been carried out.
asio::awaitable<void> converse(Exchange& exchange, const Peer& to, const SessionContext& context) {
  std::shared_ptr<Stream> stream;
  ErrorCode& failed = exchange.failed;
  failed = asio::error::host_not_found;
  for (const std::string& address : to.addresses) {
    exchange.address = address;
    stream = co_await connect(exchange, to.tls, context);
    if (stream) break;
  }
  if (!stream) {
    if (!failed) failed = asio::error::connection_refused;
    co_return;
  }
  exchange.connected = true;
  exchange.request.set(http::field::host, exchange.address);
  std::ostringstream message;
  message << exchange.request;
  const std::string bytes = std::move(message).str();
  co_await stream->write_all(asio::buffer(bytes), failed);
  std::string in;
  std::array<char, 16 * 1024> buffer;
  while (!failed && !exchange.parser.is_done()) {
    const std::size_t n = co_await stream->read_next(asio::buffer(buffer), failed);
    if (failed == asio::error::eof) {
      failed = {};
      exchange.parser.put_eof(failed);
      break;
    }
    if (failed) break;
    in.append(buffer.data(), n);
    in.erase(0, exchange.parser.put(asio::buffer(in), failed));
    if (failed == http::error::need_more) failed = {};
  }
  if (failed) exchange.why = stream->failure_text();
  stream->close();
}

HttpMessage message_of(const HttpRequest& request, const std::string& self,
                       const std::string& secret) {
  HttpMessage out;
  out.version(11);
  out.method_string(request.method == "HEAD" ? "GET" : request.method);
  out.target(origin_of(request));
  if (!request.content_type.empty()) out.set(http::field::content_type, request.content_type);
  if (!request.accept.empty()) out.set(http::field::accept, request.accept);
  out.set(kHttpForwardedBy, self);
  if (!secret.empty()) out.set(kHttpSecret, secret);
  out.keep_alive(false);
  out.body() = request.body;
  out.prepare_payload();
  return out;
}

HttpReply reply_in(Parser& parser) {
  auto message = parser.release();
  HttpReply reply{static_cast<int>(message.result_int()),
                  std::string(message[http::field::content_type]), std::move(message.body()),
                  std::string(message[http::field::allow])};
  reply.retry_after = std::atoi(std::string(message[http::field::retry_after]).c_str());
  return reply;
}

/// Counts a request that is being passed on.
struct Slot {
  explicit Slot(std::size_t& of) : count(of) { ++count; }
  ~Slot() { --count; }
  Slot(const Slot&) = delete;
  std::size_t& count;
};

HttpReply no_reply(int status, Code code, const std::string& text) {
  HttpReply reply = http_error(status, code, text);
  reply.retry_after = 1;
  return reply;
}

}  // namespace

asio::awaitable<HttpReply> Forwarder::forward(const HttpRequest& request, const Peer& to,
                                              bool trusted) {
  const std::string name = printable(to.addresses.empty() ? "" : to.addresses.front(), 256);
  if (in_flight_ >= kAtOnce) {
    metrics_.forwarded("busy");
    co_return no_reply(503, Code::unavailable,
                       format("the daemon at {} serves the job, but {} requests are already being "
                              "forwarded, limit {}; try again, or ask that daemon",
                              name, in_flight_, kAtOnce));
  }
  const Slot slot(in_flight_);
  Exchange exchange{message_of(request, self_, trusted ? to.secret : ""), {}, name, {}, {}, false};
  exchange.parser.eager(true);
  exchange.parser.body_limit(kReplyBytes);
  asio::steady_timer timer(co_await asio::this_coro::executor, kTimeout);
  const auto first =
      co_await (converse(exchange, to, context_) || timer.async_wait(asio::use_awaitable));
  const std::string at = printable(exchange.address, 256);
  const std::string doubt =
      exchange.connected && request.method != "GET" && request.method != "HEAD"
          ? "; the request may or may not have been carried out"
          : "";
  if (first.index() == 1) {
    metrics_.forwarded("timed_out");
    co_return no_reply(504, Code::timed_out,
                       format("the daemon at {} serves the job, but did not reply to the daemon at "
                              "{} within {} s{}",
                              at, self_, kTimeout.count(), doubt));
  }
  if (exchange.failed == http::error::body_limit) {
    metrics_.forwarded("too_large");
    co_return http_error(502, Code::too_large,
                         format("the reply of the daemon at {}, which serves the job, is longer "
                                "than the limit of {} bytes; ask that daemon{}",
                                at, kReplyBytes, doubt));
  }
  if (exchange.failed) {
    metrics_.forwarded("unreachable");
    co_return no_reply(
        502, Code::unavailable,
        format("the daemon at {} serves the job, but the daemon at {} got no reply "
               "from it: {}{}",
               at, self_, exchange.why.empty() ? exchange.failed.message() : exchange.why, doubt));
  }
  metrics_.forwarded("ok");
  co_return reply_in(exchange.parser);
}

}  // namespace c10dd::daemon
