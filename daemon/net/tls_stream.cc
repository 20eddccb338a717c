// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/tls_stream.h"

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <sstream>
#include <utility>

#include "daemon/config/address_ranges.h"

namespace c10dd::daemon {
namespace {

/// Where encrypted bytes are read. They are decrypted at once, so that all streams of a loop, which
/// has one thread, share it.
asio::mutable_buffer scratch() {
  constexpr std::size_t kBytes = 64 * 1024;
  thread_local const std::unique_ptr<std::array<char, kBytes>> buffer =
      std::make_unique<std::array<char, kBytes>>();
  return asio::buffer(*buffer);
}

/// What an error of TLS is to a session: the connection has failed.
ErrorCode broken() { return asio::error::connection_aborted; }

}  // namespace

/// Takes the bytes for which a TlsStream waits. Does nothing if the stream is gone.
class TlsStream::Ciphertext final : public StreamReader {
 public:
  Ciphertext(std::weak_ptr<TlsStream> stream, asio::mutable_buffer into)
      : stream_(std::move(stream)), into_(into) {}
  void on_read(std::size_t bytes, const ErrorCode& failed) override {
    if (const auto stream = stream_.lock()) {
      stream->on_bytes({static_cast<const char*>(into_.data()), bytes}, failed);
    }
  }

 private:
  const std::weak_ptr<TlsStream> stream_;
  const asio::mutable_buffer into_;
};

std::shared_ptr<TlsStream> TlsStream::over(std::shared_ptr<Stream> plain, tls::Channel channel) {
  Ticket ticket = plain->release_ticket();
  const auto client = plain->take_client();
  channel.receive(plain->take_head());
  std::shared_ptr<TlsStream> made(
      new TlsStream(std::move(plain), std::move(channel), std::move(ticket)));
  if (client) made->serve_for(*client, made->release_ticket());
  return made;
}

TlsStream::TlsStream(std::shared_ptr<Stream> plain, tls::Channel channel, Ticket ticket)
    : CallbackStream(std::move(ticket)), plain_(std::move(plain)), channel_(std::move(channel)) {}

// ---- reading -----------------------------------------------------------------------------------

/// Decrypts what has come. Returns 0 with would_block if that is less than one record.
std::size_t TlsStream::decrypt(asio::mutable_buffer into, ErrorCode& failed) {
  failed = {};
  const auto count = channel_.read({static_cast<char*>(into.data()), into.size()});
  if (count && *count > 0) return *count;
  if (!count) {
    ErrorCode ignored;
    flush(ignored);  // the alert
    failure_ = count.error().detail;
    failed = broken();
  } else if (channel_.has_ended()) {
    failed = asio::error::eof;
  } else {
    failed = ended_ ? ended_ : ErrorCode(asio::error::would_block);
  }
  return 0;
}

/// Takes what plain_ has read. An end without TLS's own may be the work of an attacker.
void TlsStream::take(std::string_view ciphertext, const ErrorCode& ended) {
  channel_.receive(ciphertext);
  if (!ended) return;
  ended_ = ended == asio::error::eof ? broken() : ended;
  channel_.receive_end();
}

std::size_t TlsStream::read_now(asio::mutable_buffer into, ErrorCode& failed) {
  while (true) {
    const std::size_t count = decrypt(into, failed);
    if (count > 0 || failed != asio::error::would_block) return count;
    // Bytes for which plain_ waits come to on_bytes().
    if (waits_for_bytes_) return 0;
    const asio::mutable_buffer room = scratch();
    const std::size_t read = plain_->read_now(room, failed);
    if (failed == asio::error::would_block) return 0;
    take({static_cast<const char*>(room.data()), read}, failed);
  }
}

void TlsStream::read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) {
  C10DD_ASSERT(!reader_);
  ErrorCode failed;
  const std::size_t count = decrypt(into, failed);
  if (failed == asio::error::would_block) {
    into_ = into;
    reader_ = std::move(reader);
    return wait_for_bytes();
  }
  asio::post(executor(), [self = shared_from_this(), reader = std::move(reader), count, failed] {
    reader->on_read(count, failed);
  });
}

void TlsStream::wait_for_bytes() {
  if (std::exchange(waits_for_bytes_, true)) return;
  const asio::mutable_buffer room = scratch();
  plain_->read_into(room, std::make_shared<Ciphertext>(weak_from_this(), room));
}

void TlsStream::on_bytes(std::string_view ciphertext, const ErrorCode& ended) {
  waits_for_bytes_ = false;
  const bool cancelled = ended == asio::error::operation_aborted;
  if (!cancelled) take(ciphertext, ended);
  if (!reader_) return;
  ErrorCode failed = ended;
  const std::size_t count = cancelled ? 0 : decrypt(into_, failed);
  if (failed == asio::error::would_block) return wait_for_bytes();
  std::exchange(reader_, nullptr)->on_read(count, failed);
}

// ---- writing -----------------------------------------------------------------------------------

/// Sends what is encrypted. Returns false if some of it must wait, or the connection has failed.
bool TlsStream::flush(ErrorCode& failed) {
  failed = {};
  while (!channel_.outgoing().empty()) {
    const std::string_view bytes = channel_.outgoing();
    const asio::const_buffer part(bytes.data(), bytes.size());
    const std::size_t sent = plain_->write_now({&part, 1}, failed);
    channel_.sent(sent);
    if (failed) return false;
  }
  return true;
}

/// Sends the rest as soon as there is room.
void TlsStream::flush_later() {
  if (std::exchange(flushes_, true)) return;
  plain_->when_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->flushes_ = false;
    ErrorCode failed;
    if (!self->flush(failed) && failed == asio::error::would_block) return self->flush_later();
    if (self->ends_) self->plain_->end_writing();
    if (const auto writer = std::exchange(self->writer_, nullptr)) writer();
  });
}

std::size_t TlsStream::write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) {
  std::size_t taken = 0;
  for (const asio::const_buffer& part : from) {
    std::string_view plain(static_cast<const char*>(part.data()), part.size());
    while (!plain.empty()) {
      if (!flush(failed)) break;
      const auto written = channel_.write(plain);
      if (!written) {
        failure_ = written.error().detail;
        failed = broken();
        return taken;
      }
      taken += *written;
      plain.remove_prefix(*written);
    }
    if (failed) break;
  }
  if (!failed) flush(failed);
  if (failed && failed != asio::error::would_block) return 0;
  if (failed) flush_later();
  // What was taken is sent later. The caller asks again for the rest.
  if (taken > 0) failed = {};
  return taken;
}

void TlsStream::when_writable(std::function<void()> on_ready) {
  writer_ = std::move(on_ready);
  flush_later();
}

// ---- the end -----------------------------------------------------------------------------------

void TlsStream::cancel() {
  cancel_writes();
  if (reader_) {
    asio::post(executor(), [reader = std::exchange(reader_, nullptr)] {
      reader->on_read(0, asio::error::operation_aborted);
    });
  }
  if (writer_) asio::post(executor(), std::exchange(writer_, nullptr));
}

void TlsStream::end_writing() {
  channel_.close();
  ends_ = true;
  ErrorCode failed;
  if (flush(failed) || failed != asio::error::would_block) return plain_->end_writing();
  flush_later();
}

void TlsStream::close() {
  if (!ends_ && !ended_) {  // the peer must know that nobody has cut the bytes
    ErrorCode ignored;
    channel_.close();
    flush(ignored);
  }
  ended_ = asio::error::bad_descriptor;
  plain_->close();
  cancel();
}

bool TlsStream::move_to(asio::io_context& loop, std::function<void(std::shared_ptr<Stream>)> then) {
  cancel();
  ends_ = true;  // the channel leaves this stream
  const auto state =
      std::make_shared<std::pair<tls::Channel, Ticket>>(std::move(channel_), release_ticket());
  return plain_->move_to(loop, [state, head = take_head(), client = client(),
                                then = std::move(then)](std::shared_ptr<Stream> plain) mutable {
    std::shared_ptr<TlsStream> moved(
        new TlsStream(std::move(plain), std::move(state->first), std::move(state->second)));
    if (client) moved->serve_for(*client, moved->release_ticket());
    moved->put_head(std::move(head));
    ErrorCode failed;
    if (!moved->flush(failed) && failed == asio::error::would_block) moved->flush_later();
    then(std::move(moved));
  });
}

std::string TlsStream::peer() const {
  if (!client()) return plain_->peer();
  std::ostringstream text;
  text << *client();
  return text.str();
}

asio::ip::address TlsStream::address() const {
  return client() ? unmapped(client()->address()) : plain_->address();
}

}  // namespace c10dd::daemon
