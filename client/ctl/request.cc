// SPDX-License-Identifier: Apache-2.0
// Beast parses the reply; Stream sends and receives, because its calls have deadlines.
#include "client/ctl/request.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>

#include "client/internal/stream.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kReplyBytes = 64 * 1024 * 1024;

std::string message_of(const client::HostPort& daemon, const Request& request,
                       const std::string& token) {
  std::string out = format("{} {} HTTP/1.1\r\nHost: {}\r\nAccept: {}\r\nConnection: close\r\n",
                           request.method, request.path, daemon.text(), request.accept);
  if (!token.empty()) out += "Authorization: Bearer " + token + "\r\n";
  if (!request.body.empty()) out += "Content-Type: application/json\r\n";
  return out + format("Content-Length: {}\r\n\r\n{}", request.body.size(), request.body);
}

}  // namespace

Result<Reply> ask(const client::HostPort& daemon, const Request& request,
                  std::chrono::milliseconds timeout) {
  const auto end = client::Stream::Time::clock::now() + timeout;
  const auto no_reply = [&](std::string_view why) {
    return failure(
        Code::timed_out, "the daemon at {} did not reply: {}{}", daemon.text(), why,
        request.method == "GET" ? "" : "; it is not known whether it executed the request");
  };
  const std::shared_ptr<client::Tls> tls = client::tls_of({});
  Result<client::Tls::Begun> begun = tls ? tls->begin(daemon.text()) : client::Tls::Begun{};
  if (!begun) return begun.error();
  const std::string token = begun->token;
  Result<client::Stream> stream = client::Stream::connect(daemon.text(), end, std::move(*begun));
  if (!stream && stream.error().code == Code::permission_denied) {
    return failure(Code::permission_denied, "no TLS connection to the daemon at {}: {}",
                   daemon.text(), stream.error().detail);
  }
  if (!stream) {
    return failure(Code::unavailable, "no daemon answers at {}: {}", daemon.text(),
                   stream.error().detail);
  }
  if (const auto sent = stream->send(message_of(daemon, request, token), end); !sent) {
    return no_reply(sent.error().detail);
  }
  http::response_parser<http::string_body> parser;
  parser.eager(true);
  parser.body_limit(kReplyBytes);
  Bytes in;
  while (!parser.is_done()) {
    const Result<bool> more = stream->receive(in, end);
    if (!more) return no_reply(more.error().detail);
    if (!*more) return no_reply("nothing arrived within " + human(timeout));
    boost::system::error_code error;
    in.erase(0, parser.put(boost::asio::buffer(in), error));
    if (error && error != http::error::need_more) return no_reply(error.message());
  }
  return Reply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

std::string in_path(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : format("%{:02X}", byte);
  }
  return out;
}

}  // namespace c10dd::ctl
