// SPDX-License-Identifier: Apache-2.0
// hiredis parses the replies; RedisSocket sends and receives.
#include "store/redis/link.h"

#include <array>
#include <utility>

#include "protocol/hiredis_reader.h"
#include "protocol/parse.h"
#include "store/redis/socket.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kReplyElements = 1024 * 1024;

RedisReply::Kind kind_of(int type) {
  switch (type) {
    case REDIS_REPLY_STATUS:
      return RedisReply::Kind::status;
    case REDIS_REPLY_ERROR:
      return RedisReply::Kind::error;
    case REDIS_REPLY_INTEGER:
      return RedisReply::Kind::integer;
    case REDIS_REPLY_STRING:
      return RedisReply::Kind::bytes;
    case REDIS_REPLY_ARRAY:
      return RedisReply::Kind::array;
    default:
      return RedisReply::Kind::nil;
  }
}

RedisReply copy_of(const redisReply& reply) {
  RedisReply copy;
  copy.kind = kind_of(reply.type);
  if (reply.str) copy.text.assign(reply.str, reply.len);
  copy.integer = reply.integer;
  if (copy.kind == RedisReply::Kind::array) {
    copy.items.reserve(reply.elements);
    for (std::size_t n = 0; n < reply.elements; ++n)
      copy.items.push_back(copy_of(*reply.element[n]));
  }
  return copy;
}

class HiredisLink final : public RedisLink {
 public:
  explicit HiredisLink(std::unique_ptr<RedisTransport> transport)
      : transport_(std::move(transport)), reader_(kReplyElements) {}

  Result<void> send(std::string_view bytes) override { return transport_->send(bytes); }

  Result<RedisReply> receive(std::size_t bytes_max) override {
    while (true) {
      const Result<HiredisReply> reply = reader_.next(bytes_max);
      if (!reply) return failure(Code::unavailable, reply.error().detail);
      if (*reply) return copy_of(**reply);
      const Result<std::size_t> received = transport_->receive(buffer_);
      if (!received) return received.error();
      reader_.feed({buffer_.data(), *received});
    }
  }

 private:
  std::unique_ptr<RedisTransport> transport_;
  HiredisReader reader_;
  std::array<char, 16 * 1024> buffer_;
};

}  // namespace

bool RedisReply::number(std::uint64_t& value) const {
  const auto number = is_bytes() ? parse_number<std::uint64_t>(text) : std::nullopt;
  if (number) value = *number;
  return number.has_value();
}

Result<std::unique_ptr<RedisLink>> RedisLink::open(const std::string& host, std::uint16_t port,
                                                   Duration patience, [[maybe_unused]] bool tls,
                                                   [[maybe_unused]] const std::string& ca_file) {
#if C10DD_WITH_TLS
  if (tls) {
    auto inside = connect_encrypted(host, port, patience, ca_file);
    if (!inside) return inside.error();
    return std::unique_ptr<RedisLink>(std::make_unique<HiredisLink>(std::move(*inside)));
  }
#endif
  Result<RedisSocket> socket = RedisSocket::connect(host, port, patience);
  if (!socket) return socket.error();
  return std::unique_ptr<RedisLink>(
      std::make_unique<HiredisLink>(std::make_unique<RedisSocket>(std::move(*socket))));
}

}  // namespace c10dd::store
