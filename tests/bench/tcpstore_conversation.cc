// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/tcpstore_conversation.h"

#include <deque>
#include <stdexcept>

namespace c10dd::bench {
namespace {

using tcpstore::Message;
using tcpstore::Query;

constexpr unsigned kManyKeys = 100;

class TcpstoreConversation final : public Conversation {
 public:
  TcpstoreConversation(const TcpstoreWorkload& workload, unsigned connection)
      : operation_(workload.operation),
        dialect_(workload.dialect),
        value_(workload.value_bytes, 'v') {
    const std::string own(Workload{.key_bytes = workload.key_bytes}.key(connection));
    const unsigned keys = operation_ == TcpstoreOperation::multi_get ? kManyKeys : 1;
    for (unsigned i = 0; i < keys; ++i) {
      keys_.push_back("/" + own + (keys > 1 ? std::to_string(i) : ""));
    }
  }

  bool opening(unsigned step, Bytes& out) override {
    switch (dialect_ == tcpstore::Dialect::v ? step : step + 1) {
      case 0:
        send(out, {.query = Query::validate, .number = tcpstore::kMagic});
        send(out, {.query = Query::ping, .number = 1});
        return true;
      case 1:
        send(out, {.query = Query::add, .key = "init/", .number = 1});
        return true;
      case 2:
        if (operation_ == TcpstoreOperation::add) return false;
        for (const Bytes& key : keys_) {
          send(out, {.query = Query::set, .key = key, .value = value_});
        }
        send(out, {.query = Query::check});
        return true;
      default:
        return false;
    }
  }

  bool closing(unsigned step, Bytes& out) override {
    // In the dialect L0, the daemon waits a moment before it knows that a message is a `remove`;
    // see MessageCutter.
    if (step == keys_.size() || dialect_ != tcpstore::Dialect::v) return false;
    send(out, {.query = Query::remove, .key = keys_[step]});
    return true;
  }

  bool may_request() const override { return requested_ < answered_ + kTickets; }

  std::uint64_t request(Bytes& out) override {
    switch (operation_) {
      case TcpstoreOperation::get:
        requested_ % 2 == 0 ? send(out, {.query = Query::wait, .keys = {keys_[0]}})
                            : send(out, {.query = Query::get, .key = keys_[0]});
        break;
      case TcpstoreOperation::multi_get:
        send(out, {.query = requested_ % 2 == 0 ? Query::wait : Query::multi_get,
                   .keys = {keys_.begin(), keys_.end()}});
        break;
      case TcpstoreOperation::add:
        send(out, {.query = Query::add, .key = keys_[0], .number = 1});
        break;
      case TcpstoreOperation::set:
        send(out, {.query = Query::set, .key = keys_[0], .value = value_});
        send(out, {.query = Query::check});
        break;
    }
    return requested_++;
  }

  Taken take(std::string_view in) override {
    const auto reply = tcpstore::cut_reply(in, awaited_.front(), keys_.size());
    if (!reply) throw std::runtime_error("tcpstore: " + reply.error().detail);
    if (!reply->has_value()) return {};
    awaited_.pop_front();
    const bool counts = requested_ > answered_;  // the opening and the closing do not
    return {(*reply)->size, counts ? answered_++ : 0};
  }

 private:
  void send(Bytes& out, const Message& message) {
    tcpstore::encode_message(out, dialect_, message);
    if (tcpstore::has_reply(message.query)) awaited_.push_back(message.query);
  }

  const TcpstoreOperation operation_;
  const tcpstore::Dialect dialect_;
  const Bytes value_;
  std::vector<Bytes> keys_;
  std::deque<Query> awaited_;  // the requests without a reply
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
};

class BytesConversation final : public Conversation {
 public:
  explicit BytesConversation(PlainBytes bytes) : bytes_(std::move(bytes)) {}

  bool opening(unsigned, Bytes&) override { return false; }
  bool closing(unsigned, Bytes&) override { return false; }
  bool may_request() const override { return requested_ < answered_ + kTickets; }

  std::uint64_t request(Bytes& out) override {
    out += bytes_.request;
    return requested_++;
  }

  Taken take(std::string_view in) override {
    if (in.size() < bytes_.reply.size()) return {};
    return {bytes_.reply.size(), answered_++};
  }

 private:
  const PlainBytes bytes_;
  std::uint64_t requested_ = 0;
  std::uint64_t answered_ = 0;
};

}  // namespace

std::unique_ptr<Conversation> tcpstore_conversation(const TcpstoreWorkload& workload,
                                                    unsigned connection) {
  return std::make_unique<TcpstoreConversation>(workload, connection);
}

PlainBytes tcpstore_bytes(const TcpstoreWorkload& workload) {
  TcpstoreConversation conversation(workload, 0);
  Bytes request;
  conversation.request(request);
  if (workload.operation == TcpstoreOperation::get ||
      workload.operation == TcpstoreOperation::multi_get) {
    request.clear();
    conversation.request(request);
  }
  Bytes reply;
  const Bytes value(workload.value_bytes, 'v');
  switch (workload.operation) {
    case TcpstoreOperation::get:
      tcpstore::put_text(reply, value);
      break;
    case TcpstoreOperation::multi_get:
      for (unsigned i = 0; i < kManyKeys; ++i) tcpstore::put_text(reply, value);
      break;
    case TcpstoreOperation::add:
      tcpstore::put_number(reply, 1);
      break;
    case TcpstoreOperation::set:
      tcpstore::put_byte(reply, tcpstore::kReady);
      break;
  }
  return {request, reply};
}

std::unique_ptr<Conversation> bytes_conversation(const PlainBytes& bytes) {
  return std::make_unique<BytesConversation>(bytes);
}

}  // namespace c10dd::bench
