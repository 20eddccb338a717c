// SPDX-License-Identifier: Apache-2.0
#include "client/stores/etcd/link.h"

#include <utility>

#include "client/stores/server_links.h"
#include "protocol/format.h"

namespace c10dd::client::etcd {

namespace json = boost::json;

Link::Link(Stream stream, std::string address)
    : stream_(std::move(stream)), address_(std::move(address)) {}

Result<std::unique_ptr<Link>> Link::open(const std::string& address, Clock::time_point end) {
  Result<Stream> stream = Stream::connect(address, end);
  if (!stream) return stream.error();
  return std::unique_ptr<Link>(new Link(std::move(*stream), address));
}

Failure Link::lose(Failure why) {
  lost_ = true;
  return why;
}

Result<void> Link::send(std::string_view path, std::string_view body, Clock::time_point end) {
  Bytes out = format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\n\r\n",
      path, address_, body.size());
  out += body;
  const Result<void> sent = stream_.send(out, reply_end(end));
  if (!sent) return lose(sent.error());
  return {};
}

/// Receives more of a response. Returns false if nothing arrives by `end`.
Result<bool> Link::receive(ResponseReader& response, Clock::time_point end) {
  const Result<bool> more = stream_.receive(in_, end);
  if (!more) return lose(more.error());
  if (!*more) return false;
  if (Result<void> read = response.read(in_); !read) return lose(read.error());
  return true;
}

Result<json::object> Link::post(std::string_view path, std::string_view body,
                                Clock::time_point end) {
  if (Result<void> sent = send(path, body, end); !sent) return sent.error();
  ResponseReader response;
  const Clock::time_point last = reply_end(end);
  while (!response.is_done()) {
    const Result<bool> more = receive(response, last);
    if (!more) return more.error();
    if (!*more) return lose(failure(Code::unavailable, "the server does not reply"));
  }
  Result<json::object> reply = response.body();
  if (!reply) return lose(reply.error());
  ends_ = !response.keeps_alive();
  if (response.is_ok()) return reply;
  Refusal refusal = read_refusal(*reply);
  return refusal.maybe_done ? lose(std::move(refusal.why)) : std::move(refusal.why);
}

Result<void> Link::watch(std::string_view body, Clock::time_point end) {
  watch_ = std::make_unique<ResponseReader>();
  return send("/v3/watch", body, end);
}

Result<std::optional<json::object>> Link::next(Clock::time_point end) {
  while (true) {
    Result<std::optional<json::object>> message = watch_->take_message();
    if (!message) return lose(message.error());
    if (*message) return message;
    const Result<bool> more = receive(*watch_, end);
    if (!more) return more.error();
    if (!*more) return message;
  }
}

}  // namespace c10dd::client::etcd
