// SPDX-License-Identifier: Apache-2.0
// etcd's own protocol: gRPC, that is HTTP/2 with one stream for each call. nghttp2 does the framing
// and the header compression; the two messages of etcdserverpb.KV that are needed are written here
// by hand.
#if C10DD_WITH_ETCD
#include <nghttp2/nghttp2.h>
#endif

#include <array>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "tests/bench/conversation.h"

namespace c10dd::bench {

#if C10DD_WITH_ETCD

namespace {

constexpr std::size_t kFrameHeaderBytes = 9;
constexpr std::size_t kFrameBytes = 16 * 1024;  // of HTTP/2, unless more is asked for
constexpr std::size_t kCallHeaderBytes = 5;     // not compressed, length
constexpr std::uint32_t kWindowBytes = 1024 * 1024;

/// A field of a protobuf message that holds bytes.
Bytes field(unsigned number, std::string_view value) {
  Bytes out(1, static_cast<char>(number << 3 | 2));
  std::size_t left = value.size();
  for (; left >= 0x80; left >>= 7) out += static_cast<char>((left & 0x7f) | 0x80);
  out += static_cast<char>(left);
  return out.append(value);
}

/// A method and its message as gRPC frames it.
struct Call {
  Call(std::string to, const Bytes& message) : path(std::move(to)), body(1, '\0') {
    for (int shift = 24; shift >= 0; shift -= 8) {
      body += static_cast<char>(message.size() >> shift & 0xff);
    }
    body += message;
  }

  std::string path;
  Bytes body;
};

/// A call without its answer.
struct Stream {
  const Call* call;
  std::uint64_t ticket;
  std::size_t sent = 0;
  std::size_t received = 0;
  std::string status;
  std::string message;
};

std::string_view text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

class EtcdConversation final : public Conversation {
 public:
  EtcdConversation(const Workload& workload, unsigned connection)
      : put_("/etcdserverpb.KV/Put",
             field(1, workload.key(connection)) + field(2, workload.value())),
        remove_("/etcdserverpb.KV/DeleteRange", field(1, workload.key(connection))) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindowBytes}};
    check(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)));
    check(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindowBytes));
  }
  ~EtcdConversation() override { nghttp2_session_del(session_); }

  bool opening(unsigned step, Bytes& out) override {
    if (step == 0) make(put_, out);
    return step == 0;
  }
  bool closing(unsigned step, Bytes& out) override {
    if (step == 0) make(remove_, out);
    return step == 0;
  }
  bool may_request() const override { return streams_.size() < kTickets; }

  std::uint64_t request(Bytes& out) override { return make(put_, out); }

  /// Frames of HTTP/2 until one of them completes an answer. What comes before that stays at the
  /// head of the input, and is not read again.
  Taken take(std::string_view in) override {
    while (in.size() >= read_ + kFrameHeaderBytes) {
      const std::size_t size = frame_size(in.substr(read_));
      if (in.size() - read_ < size) break;
      const auto* frame = reinterpret_cast<const std::uint8_t*>(in.data()) + read_;
      check(nghttp2_session_mem_recv(session_, frame, size));
      if (!failed_.empty()) throw std::runtime_error("etcd: " + failed_);
      read_ += size;
      if (answered_) return {std::exchange(read_, 0), *std::exchange(answered_, std::nullopt)};
    }
    if (!nghttp2_session_want_read(session_)) {
      throw std::runtime_error("etcd: the server ended the HTTP/2 session");
    }
    return {};
  }

  void respond(Bytes& out) override {
    const std::uint8_t* bytes = nullptr;
    for (;;) {
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      check(size);
      if (size == 0) return;
      out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
  }

 private:
  static std::size_t frame_size(std::string_view in) {
    const auto byte = [&](std::size_t i) { return std::size_t{static_cast<unsigned char>(in[i])}; };
    const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
    if (size > kFrameBytes) {
      throw std::runtime_error("etcd: the reply is not HTTP/2: a frame of " + std::to_string(size) +
                               " bytes, limit " + std::to_string(kFrameBytes));
    }
    return kFrameHeaderBytes + size;
  }

  static void check(ssize_t code) {
    if (code >= 0) return;
    throw std::runtime_error("etcd: HTTP/2: " +
                             std::string(nghttp2_strerror(static_cast<int>(code))));
  }

  std::uint64_t make(const Call& call, Bytes& out) {
    const auto header = [](std::string_view name, std::string_view value) {
      const auto bytes = [](std::string_view text) {
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
      };
      return nghttp2_nv{bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
    };
    const std::array headers = {
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", call.path),
        header(":authority", "127.0.0.1"),
        header("te", "trailers"),
        header("content-type", "application/grpc"),
        header("user-agent", "c10dd-bench"),
    };
    nghttp2_data_provider body{};
    body.read_callback = read_body;
    const std::int32_t id =
        nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &body, nullptr);
    check(id);
    streams_[id] = {&call, made_, 0, 0, {}, {}};
    respond(out);
    return made_++;
  }

  static Stream* find(void* self, std::int32_t id) {
    auto& streams = static_cast<EtcdConversation*>(self)->streams_;
    const auto it = streams.find(id);
    return it == streams.end() ? nullptr : &it->second;
  }

  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* into, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source*, void* self) {
    Stream& stream = *find(self, id);
    const Bytes& body = stream.call->body;
    const std::size_t size = body.copy(reinterpret_cast<char*>(into), room, stream.sent);
    stream.sent += size;
    if (stream.sent == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* self) {
    Stream* stream = find(self, frame->hd.stream_id);
    if (stream == nullptr) return 0;
    if (text(name, name_size) == "grpc-status") stream->status = text(value, value_size);
    if (text(name, name_size) == "grpc-message") stream->message = text(value, value_size);
    return 0;
  }

  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t*,
                     std::size_t size, void* self) {
    if (Stream* stream = find(self, id)) stream->received += size;
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* self) {
    auto& conversation = *static_cast<EtcdConversation*>(self);
    const auto it = conversation.streams_.find(id);
    if (it == conversation.streams_.end()) return 0;
    const Stream& stream = it->second;
    if (error != NGHTTP2_NO_ERROR || stream.status != "0" || stream.received < kCallHeaderBytes) {
      conversation.failed_ = stream.call->path + ": gRPC status \"" + stream.status +
                             "\", message \"" + stream.message + "\", HTTP/2 " +
                             nghttp2_http2_strerror(error);
    }
    conversation.answered_ = stream.ticket;
    conversation.streams_.erase(it);
    return 0;
  }

  Call put_;
  Call remove_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<std::int32_t, Stream> streams_;
  std::uint64_t made_ = 0;                 // calls
  std::size_t read_ = 0;                   // of the input that take() was last shown
  std::optional<std::uint64_t> answered_;  // the ticket, by the frame that was last read
  std::string failed_;
};

}  // namespace

std::unique_ptr<Conversation> etcd_conversation(const Workload& workload, unsigned connection) {
  return std::make_unique<EtcdConversation>(workload, connection);
}

#else

std::unique_ptr<Conversation> etcd_conversation(const Workload&, unsigned) {
  throw std::runtime_error("etcd: this program was built without libnghttp2");
}

#endif

}  // namespace c10dd::bench
