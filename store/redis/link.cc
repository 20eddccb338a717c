// SPDX-License-Identifier: Apache-2.0
// hiredis connects and parses replies. This file itself sends the commands, with MSG_NOSIGNAL, so
// that sending to a closed connection returns an error and raises no signal.
#include "store/redis/link.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "protocol/format.h"
#include "protocol/parse.h"
#include "protocol/wording.h"

namespace c10dd::store {
namespace {

constexpr int kReplyElements = 1024 * 1024;

struct Free {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
  void operator()(redisContext* context) const { redisFree(context); }
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

timeval timeval_of(Duration time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return {us / 1'000'000, us % 1'000'000};
}

class HiredisLink final : public RedisLink {
 public:
  HiredisLink(std::unique_ptr<redisContext, Free> context, Duration patience)
      : context_(std::move(context)), patience_(patience) {
    context_->reader->fn = bounded(*context_->reader->fn);
  }

  Result<void> send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return broken(errno);
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return {};
  }

  Result<RedisReply> receive(std::size_t bytes_max) override {
    redisReader& reader = *context_->reader;
    void* reply = nullptr;
    while (redisReaderGetReply(&reader, &reply) == REDIS_OK && !reply) {
      if (reader.len > bytes_max) {
        return failure(Code::unavailable, "reply longer than the limit of {} bytes", bytes_max);
      }
      errno = 0;  // stays 0 if the server closed the connection
      if (redisBufferRead(context_.get()) != REDIS_OK) {
        return errno != 0 ? broken(errno) : failure(Code::unavailable, context_->errstr);
      }
    }
    if (!reply) return failure(Code::unavailable, reader.errstr);
    return copy_of(*std::unique_ptr<redisReply, Free>(static_cast<redisReply*>(reply)));
  }

 private:
  Failure broken(int error) const {
    if (error == EAGAIN) return failure(Code::unavailable, "no reply within {}", human(patience_));
    return failure(Code::unavailable, "{}", std::strerror(error));
  }

  std::unique_ptr<redisContext, Free> context_;
  const Duration patience_;
};

}  // namespace

bool RedisReply::number(std::uint64_t& value) const {
  const auto number = is_bytes() ? parse_number<std::uint64_t>(text) : std::nullopt;
  if (number) value = *number;
  return number.has_value();
}

Result<std::unique_ptr<RedisLink>> RedisLink::open(const std::string& host, std::uint16_t port,
                                                   Duration patience) {
  const timeval timeout = timeval_of(patience);
  std::unique_ptr<redisContext, Free> context(redisConnectWithTimeout(host.c_str(), port, timeout));
  if (!context) return failure(Code::unavailable, "out of memory");
  if (context->err != 0 || redisSetTimeout(context.get(), timeout) != REDIS_OK ||
      redisEnableKeepAlive(context.get()) != REDIS_OK) {
    return failure(Code::unavailable, context->errstr);
  }
  // Bytes that nobody acknowledges end a connection that waits for no reply.
  const auto unacknowledged = static_cast<unsigned>(patience / std::chrono::milliseconds(1));
  ::setsockopt(context->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof unacknowledged);
  return std::unique_ptr<RedisLink>(std::make_unique<HiredisLink>(std::move(context), patience));
}

}  // namespace c10dd::store
