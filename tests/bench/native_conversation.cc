// SPDX-License-Identifier: Apache-2.0
// The native protocol with one session on channel 1, and the same frames against the bare echo.
#include <array>
#include <stdexcept>

#include "protocol/limits.h"
#include "protocol/native_wire.h"
#include "tests/bench/conversation.h"
#include "tests/bench/native_frames.h"

namespace c10dd::bench {
namespace {

constexpr std::uint32_t kChannel = 1;

Request request_of(const Workload& workload, unsigned connection) {
  const Bytes key = workload.key(connection);
  if (workload.operation == Operation::get) return Get{key, Duration{0}};
  return Set{key, workload.value()};
}

class NativeConversation final : public Conversation {
 public:
  NativeConversation(const Workload& workload, unsigned connection)
      : key_(workload.key(connection)),
        value_(workload.value()),
        request_(request_of(workload, connection)),
        hello_(new_session()),
        reply_body_(native_bytes(workload).reply.size() - native::ReplyHeader::kSize) {
    hello_.credential = workload.credential;
    header_.channel = kChannel;
    header_.sequence = header_.acked_below = 1;
    if (workload.daemons > 1) hello_.run += '-' + std::to_string(connection % workload.daemons);
  }

  bool opening(unsigned step, Bytes& out) override {
    if (step == 0) {
      out += native::kMagic;
      native::RequestHeader header;
      header.channel = kChannel;
      native::encode_request(out, header, hello_);
      return true;
    }
    if (step == 1) append(out, Set{key_, value_});
    return step == 1;
  }

  bool closing(unsigned step, Bytes& out) override {
    if (step > 1) return false;
    append(out, step == 0 ? Request(Remove{key_}) : Request(Goodbye{}));
    return true;
  }

  bool may_request() const override {
    return header_.sequence < header_.acked_below + limits::kSessionWindow;
  }

  std::uint64_t request(Bytes& out) override { return append(out, request_); }

  Taken take(std::string_view in) override {
    const auto frame = cut_success(in);
    if (!frame) return {};
    const std::uint64_t sequence = frame->header.sequence;
    if (frame->header.op == info_of(request_).code && frame->body.size() != reply_body_) {
      throw std::runtime_error("c10dd: an answer of " + std::to_string(frame->body.size()) +
                               " bytes, expected " + std::to_string(reply_body_));
    }
    if (sequence > 0) answered(sequence);
    return {frame->size, sequence};
  }

 private:
  std::uint64_t append(Bytes& out, const Request& request) {
    native::encode_request(out, header_, request);
    return header_.sequence++;
  }

  /// Replies may overtake each other; the watermark is below the oldest that is missing.
  void answered(std::uint64_t sequence) {
    if (sequence < header_.acked_below || sequence >= header_.sequence) {
      throw std::runtime_error("c10dd: answer to a request that is not open: " +
                               std::to_string(sequence));
    }
    answered_[sequence % kTickets] = true;
    while (answered_[header_.acked_below % kTickets]) {
      answered_[header_.acked_below++ % kTickets] = false;
    }
  }

  Bytes key_;
  Bytes value_;
  Request request_;
  Hello hello_;
  std::size_t reply_body_;
  native::RequestHeader header_;  // of the next request
  std::array<bool, kTickets> answered_{};
};
static_assert(Conversation::kTickets >= limits::kSessionWindow);

/// Costs the load generator what a NativeConversation costs.
class EchoConversation final : public Conversation {
 public:
  EchoConversation(const Workload& workload, unsigned connection)
      : request_(request_of(workload, connection)) {
    header_.channel = kChannel;
  }

  bool opening(unsigned, Bytes&) override { return false; }
  bool closing(unsigned, Bytes&) override { return false; }
  bool may_request() const override { return header_.sequence < answered_ + kTickets; }

  std::uint64_t request(Bytes& out) override {
    native::encode_request(out, header_, request_);
    return header_.sequence++;
  }

  Taken take(std::string_view in) override {
    const auto frame = cut_success(in);
    if (!frame) return {};
    return {frame->size, answered_++};
  }

 private:
  Request request_;
  native::RequestHeader header_;
  std::uint64_t answered_ = 0;
};

}  // namespace

Bytes Workload::key(unsigned connection) const {
  Bytes key = "bench/" + std::to_string(connection) + "/";
  if (key.size() < key_bytes) key.append(key_bytes - key.size(), 'k');
  return key;
}

NativeBytes native_bytes(const Workload& workload) {
  NativeBytes bytes;
  Bytes request;
  native::encode_request(request, {}, request_of(workload, 0));
  bytes.request = request.size();
  native::ReplyHeader header;
  header.channel = kChannel;
  const bool get = workload.operation == Operation::get;
  header.op = get ? Get::op.code : Set::op.code;
  bytes.reply =
      native::encode_reply(header, get ? ReplyBody(Value{workload.value()}) : ReplyBody(Written{1}))
          .head;
  return bytes;
}

std::unique_ptr<Conversation> native_conversation(const Workload& workload, unsigned connection) {
  return std::make_unique<NativeConversation>(workload, connection);
}

std::unique_ptr<Conversation> echo_conversation(const Workload& workload, unsigned connection) {
  return std::make_unique<EchoConversation>(workload, connection);
}

}  // namespace c10dd::bench
