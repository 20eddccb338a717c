// SPDX-License-Identifier: Apache-2.0
// Cuts the bytes of a Redis server into replies, with hiredis. Bounds what a server can make this
// process allocate: the bytes of a reply, and the elements of all its arrays together. Does no I/O.
// The files that include this link hiredis.
#pragma once

#include <hiredis/hiredis.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string_view>

#include "protocol/error.h"
#include "protocol/format.h"
#include "protocol/utf8.h"

namespace c10dd {

struct FreeHiredis {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};
using HiredisReply = std::unique_ptr<redisReply, FreeHiredis>;

/// Do not use it after a failure, because the next bytes belong to no reply.
class HiredisReader {
 public:
  explicit HiredisReader(std::size_t elements_max)
      : elements_max_(elements_max), reader_(redisReaderCreate()) {
    if (!reader_) throw std::bad_alloc();
    reader_->fn = bounded(*reader_->fn);
    reader_->privdata = &elements_;
  }
  HiredisReader(const HiredisReader&) = delete;

  void feed(std::string_view bytes) {
    held_ += bytes.size();
    redisReaderFeed(reader_.get(), bytes.data(), bytes.size());
  }

  /// Returns the next reply; null if it is not whole. Fails with malformed if the bytes are no
  /// reply, and with too_large if the reply has more than `bytes_max` bytes or too many elements.
  Result<HiredisReply> next(std::size_t bytes_max) {
    if (!reader_->reply) elements_ = {elements_max_, 0};
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
      if (elements_.refused == 0) return failure(Code::malformed, foreign_text(reader_->errstr));
      return failure(Code::too_large,
                     "the reply has an array of {} elements, limit {} for all its arrays together",
                     elements_.refused, elements_max_);
    }
    if (reply != nullptr) {
      held_ = reader_->len - reader_->pos;
      return HiredisReply(static_cast<redisReply*>(reply));
    }
    if (const std::size_t line = first_line(); line > kLineBytes) {
      return failure(Code::too_large, "the reply has a line of {} bytes or more, limit {}", line,
                     kLineBytes);
    }
    if (held_ <= bytes_max) return HiredisReply();
    return failure(Code::too_large, "the reply has more than {} bytes, limit {}", held_, bytes_max);
  }

  /// Returns whether bytes were fed that belong to no reply that next() has returned.
  bool has_rest() const { return held_ > 0; }

 private:
  // hiredis searches from the begin of a line for its end, each time.
  static constexpr std::size_t kLineBytes = 64 * 1024;

  /// Returns the bytes of the line that comes next, as far as it has come.
  std::size_t first_line() const {
    const std::string_view rest(reader_->buf + reader_->pos, reader_->len - reader_->pos);
    return std::min(rest.substr(0, kLineBytes).find('\n'), rest.size());
  }

  struct Elements {
    std::size_t left = 0;     // that the arrays of this reply may still have
    std::size_t refused = 0;  // of the array that has more than that
  };

  /// Returns a copy of `standard`, the functions with which hiredis makes replies. In the copy,
  /// createArray() refuses an array that is too long, and allocates no memory for it.
  static redisReplyObjectFunctions* bounded(const redisReplyObjectFunctions& standard) {
    static redisReplyObjectFunctions functions = [&standard] {
      redisReplyObjectFunctions copy = standard;
      create_array = standard.createArray;
      // The type of the count depends on the version of hiredis.
      copy.createArray = [](const redisReadTask* task, auto count) -> void* {
        Elements& elements = *static_cast<Elements*>(task->privdata);
        const auto size = static_cast<std::size_t>(count);
        if (size > elements.left) {
          elements.refused = size;
          return nullptr;
        }
        elements.left -= size;
        return create_array(task, count);
      };
      return copy;
    }();
    return &functions;
  }

  inline static decltype(redisReplyObjectFunctions::createArray) create_array = nullptr;
  const std::size_t elements_max_;
  Elements elements_;
  std::unique_ptr<redisReader, FreeHiredis> reader_;
  std::size_t held_ = 0;  // bytes that were fed and belong to no reply yet
};

}  // namespace c10dd
