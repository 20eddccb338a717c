// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/loyal_client.h"

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

client::Stream::Time after(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error("a loyal client: " + result.error().detail);
  return std::move(*result);
}

client::Stream connect(const std::string& address, const std::shared_ptr<client::Tls>& tls,
                       client::Stream::Time until) {
  client::Tls::Begun with;
  if (tls) with = must(tls->begin(address));
  return must(client::Stream::connect(address, until, std::move(with)));
}

}  // namespace

LoyalClient::LoyalClient(const std::string& address, const std::string& job,
                         std::chrono::milliseconds patience)
    : LoyalClient(address, job, patience, client::tls_of({})) {}

LoyalClient::LoyalClient(const std::string& address, const std::string& job,
                         std::chrono::milliseconds patience,
                         const std::shared_ptr<client::Tls>& tls)
    : patience_(patience), stream_(connect(address, tls, after(patience))) {
  const Time until = after(patience);
  Hello hello;
  hello.session = new_session();
  hello.job = job;
  hello.host = "loyal";
  if (tls) hello.credential = must(tls->token());
  if (!stream_.send(native::kMagic, until) || !send(hello)) {
    throw std::runtime_error("no connection to " + address);
  }
  native::ReplyHeader header;
  for (;;) {
    if (std::optional<Reply> reply = next(header)) {
      welcome_ = std::move(*reply);
      return;
    }
    if (!receive(until)) throw std::runtime_error(address + " does not reply to a hello");
  }
}

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
  const Time until = after(patience);
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
  if (!stream_.send(frame, after(patience_))) return false;
  ++open_;
  return true;
}

/// Returns false at the end of the connection, or if nothing comes in time.
bool LoyalClient::receive(Time until) {
  const Result<bool> came = stream_.receive(in_, until);
  return came && *came;
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
