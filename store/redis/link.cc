// SPDX-License-Identifier: Apache-2.0
// hiredis parses the replies; RedisSocket sends and receives.
#include "store/redis/link.h"

#include <hiredis/hiredis.h>

#include <array>
#include <utility>

#include "protocol/format.h"
#include "protocol/parse.h"
#include "store/redis/socket.h"

namespace c10dd::store {
namespace {

constexpr int kReplyElements = 1024 * 1024;

struct Free {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

/// Returns a copy of `standard`, the functions with which hiredis makes replies. In the copy,
/// createArray() refuses an array longer than kReplyElements, and allocates no memory for it.
redisReplyObjectFunctions* bounded(const redisReplyObjectFunctions& standard) {
  static const auto create = standard.createArray;
  static redisReplyObjectFunctions functions = [&standard] {
    redisReplyObjectFunctions copy = standard;
    copy.createArray = [](const redisReadTask* task, int elements) -> void* {
      return elements > kReplyElements ? nullptr : create(task, elements);
    };
    return copy;
  }();
  return &functions;
}

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
  explicit HiredisLink(RedisSocket socket)
      : socket_(std::move(socket)), reader_(redisReaderCreate()) {
    if (!reader_) throw std::bad_alloc();
    reader_->fn = bounded(*reader_->fn);
  }

  Result<void> send(std::string_view bytes) override { return socket_.send(bytes); }

  Result<RedisReply> receive(std::size_t bytes_max) override {
    void* reply = nullptr;
    while (redisReaderGetReply(reader_.get(), &reply) == REDIS_OK && !reply) {
      if (reader_->len > bytes_max) {
        return failure(Code::unavailable, "reply longer than the limit of {} bytes", bytes_max);
      }
      const Result<std::size_t> received = socket_.receive(buffer_);
      if (!received) return received.error();
      redisReaderFeed(reader_.get(), buffer_.data(), *received);
    }
    if (!reply) return failure(Code::unavailable, reader_->errstr);
    return copy_of(*std::unique_ptr<redisReply, Free>(static_cast<redisReply*>(reply)));
  }

 private:
  RedisSocket socket_;
  std::unique_ptr<redisReader, Free> reader_;
  std::array<char, 16 * 1024> buffer_;
};

}  // namespace

bool RedisReply::number(std::uint64_t& value) const {
  const auto number = is_bytes() ? parse_number<std::uint64_t>(text) : std::nullopt;
  if (number) value = *number;
  return number.has_value();
}

Result<std::unique_ptr<RedisLink>> RedisLink::open(const std::string& host, std::uint16_t port,
                                                   Duration patience) {
  Result<RedisSocket> socket = RedisSocket::connect(host, port, patience);
  if (!socket) return socket.error();
  return std::unique_ptr<RedisLink>(std::make_unique<HiredisLink>(std::move(*socket)));
}

}  // namespace c10dd::store
