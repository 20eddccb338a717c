// SPDX-License-Identifier: Apache-2.0
// RESP2, as far as GET, SET and DEL need it.
#include <charconv>
#include <stdexcept>

#include "tests/bench/conversation.h"

namespace c10dd::bench {
namespace {

constexpr std::string_view kEnd = "\r\n";

Bytes command(std::initializer_list<std::string_view> words) {
  Bytes out = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) {
    out.append("$").append(std::to_string(word.size())).append(kEnd).append(word).append(kEnd);
  }
  return out;
}

class RedisConversation final : public Conversation {
 public:
  RedisConversation(const Workload& workload, unsigned connection)
      : key_(workload.key(connection)),
        set_(command({"SET", key_, workload.value()})),
        request_(workload.operation == Operation::get ? command({"GET", key_}) : set_) {}

  bool opening(unsigned step, Bytes& out) override {
    if (step == 0) append(out, set_);
    return step == 0;
  }
  bool closing(unsigned step, Bytes& out) override {
    if (step == 0) append(out, command({"DEL", key_}));
    return step == 0;
  }
  bool may_request() const override { return requested_ < answered_ + kTickets; }

  std::uint64_t request(Bytes& out) override { return append(out, request_); }

  Taken take(std::string_view in) override {
    const std::size_t line = in.find(kEnd);
    if (line == std::string_view::npos) return {};
    std::size_t size = line + kEnd.size();
    if (in[0] == '$') {
      long long length = -1;
      std::from_chars(in.data() + 1, in.data() + line, length);
      if (length < 0) throw std::runtime_error("redis: the key is gone");
      size += static_cast<std::size_t>(length) + kEnd.size();
    } else if (in[0] != '+' && in[0] != ':') {
      throw std::runtime_error("redis: " + std::string(in.substr(0, line)));
    }
    if (in.size() < size) return {};
    return {size, answered_++};
  }

 private:
  std::uint64_t append(Bytes& out, const Bytes& message) {
    out += message;
    return requested_++;
  }

  Bytes key_;
  Bytes set_;
  Bytes request_;
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace

std::unique_ptr<Conversation> redis_conversation(const Workload& workload, unsigned connection) {
  return std::make_unique<RedisConversation>(workload, connection);
}

}  // namespace c10dd::bench
