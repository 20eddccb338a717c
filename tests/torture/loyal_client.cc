// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/loyal_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "protocol/limits.h"

namespace c10dd::torture {
namespace {

/// Returns another session for each client.
SessionId new_session() {
  static std::uint64_t last = 0;
  return {0x10'1A'10'1A, ++last};
}

}  // namespace

LoyalClient::LoyalClient(const std::string& address, const std::string& job,
                         std::chrono::milliseconds patience)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const std::size_t colon = address.rfind(':');
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  Hello hello;
  hello.session = new_session();
  hello.job = job;
  hello.host = "loyal";
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
      ::send(socket_, native::kMagic.data(), native::kMagic.size(), MSG_NOSIGNAL) < 0 ||
      !send(hello)) {
    ::close(socket_);
    throw std::runtime_error("no connection to " + address);
  }
  const auto until = std::chrono::steady_clock::now() + patience;
  native::ReplyHeader header;
  for (;;) {
    if (std::optional<Reply> reply = next(header)) {
      welcome_ = std::move(*reply);
      return;
    }
    if (!receive(until)) {
      ::close(socket_);
      throw std::runtime_error(address + " does not reply to a hello");
    }
  }
}

LoyalClient::~LoyalClient() { ::close(socket_); }

bool LoyalClient::set(const std::string& key, const std::string& value,
                      std::chrono::milliseconds patience) {
  return send(Set{key, value, {}, false}) && listen(patience).done == 1;
}

unsigned LoyalClient::ask(const std::string& key, unsigned gets) {
  unsigned sent = 0;
  for (unsigned n = 0; n < gets; ++n) sent += send(Get{key, {}}) ? 1 : 0;
  return sent + (send(Ping{}) ? 1 : 0);
}

LoyalClient::Heard LoyalClient::listen(std::chrono::milliseconds patience) {
  Heard heard;
  const auto until = std::chrono::steady_clock::now() + patience;
  while (open_ > 0) {
    native::ReplyHeader header;
    const std::optional<Reply> reply = next(header);
    if (!reply) {
      heard.ended = !receive(until) && std::chrono::steady_clock::now() < until;
      if (heard.ended || std::chrono::steady_clock::now() >= until) break;
      continue;
    }
    if (!*reply) {
      ++heard.refused;
      const std::string reason = std::string(name_of(reply->error().code));
      if (std::ranges::count(heard.reasons, reason) == 0) heard.reasons.push_back(reason);
    } else if (header.op == Ping::op.code) {
      ++heard.heartbeats;
    } else if (const auto* value = std::get_if<Value>(&**reply)) {
      heard.values.push_back(std::string(value->value));
    } else {
      ++heard.done;
    }
  }
  return heard;
}

bool LoyalClient::send(const Request& request) {
  native::RequestHeader header;
  header.channel = 1;
  header.sequence = sequence_++;  // 0: the hello
  Bytes frame;
  native::encode_request(frame, header, request);
  const auto size = static_cast<ssize_t>(frame.size());
  if (::send(socket_, frame.data(), frame.size(), MSG_NOSIGNAL) != size) return false;
  ++open_;
  return true;
}

/// Returns false at the end of the connection, or if nothing comes in time.
bool LoyalClient::receive(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      until - std::min(until, std::chrono::steady_clock::now()));
  pollfd polled{socket_, POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(left.count())) <= 0) return false;
  char buffer[16'384];
  const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
  if (n > 0) in_.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

std::optional<Reply> LoyalClient::next(native::ReplyHeader& header) {
  const auto cut = native::cut_reply(in_, limits::kFrameBytes);
  if (!cut) throw std::runtime_error("a loyal client got: " + cut.error().detail);
  if (!*cut) return std::nullopt;
  header = (*cut)->header;
  Reply reply = ReplyBody(Done{});
  const auto decoded = native::decode_reply(header.op, header.kind, (*cut)->body, reply);
  if (!decoded) throw std::runtime_error("a loyal client got: " + decoded.error().detail);
  in_.erase(0, (*cut)->size);
  --open_;
  return reply;
}

}  // namespace c10dd::torture
