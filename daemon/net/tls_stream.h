// SPDX-License-Identifier: Apache-2.0
// A stream that encrypts what another stream carries. Its handshake is done.
#pragma once

#include <string_view>

#include "daemon/net/callback_stream.h"
#include "protocol/tls/channel.h"

namespace c10dd::daemon {

/// Holds at most one record that the kernel has not taken yet, and no buffer while it is idle.
class TlsStream final : public CallbackStream, public std::enable_shared_from_this<TlsStream> {
 public:
  /// Takes over the ticket, the client and the head of `plain`, whose head is encrypted.
  static std::shared_ptr<TlsStream> over(std::shared_ptr<Stream> plain, tls::Channel channel);

  void read_into(asio::mutable_buffer into, std::shared_ptr<StreamReader> reader) override;
  std::size_t read_now(asio::mutable_buffer into, ErrorCode& failed) override;
  std::size_t write_now(std::span<const asio::const_buffer> from, ErrorCode& failed) override;
  void when_writable(std::function<void()> on_ready) override;
  void cancel() override;
  void end_writing() override;
  void close() override;
  bool move_to(asio::io_context& loop, std::function<void(std::shared_ptr<Stream>)> then) override;
  asio::any_io_executor executor() override { return plain_->executor(); }
  std::string peer() const override;
  asio::ip::address address() const override;
  int socket() const override { return plain_->socket(); }
  void outlive_outages() override { plain_->outlive_outages(); }
  PeerSigns peer_signs() const override { return client() ? PeerSigns() : plain_->peer_signs(); }

  std::string failure_text() const override { return failure_; }

  const tls::Channel& channel() const { return channel_; }

 private:
  class Ciphertext;

  TlsStream(std::shared_ptr<Stream> plain, tls::Channel channel, Ticket ticket);

  std::size_t decrypt(asio::mutable_buffer into, ErrorCode& failed);
  void take(std::string_view ciphertext, const ErrorCode& ended);
  void wait_for_bytes();
  void on_bytes(std::string_view ciphertext, const ErrorCode& ended);
  bool flush(ErrorCode& failed);
  void flush_later();

  std::shared_ptr<Stream> plain_;
  tls::Channel channel_;
  asio::mutable_buffer into_;
  std::shared_ptr<StreamReader> reader_;  // null: no read waits
  bool waits_for_bytes_ = false;          // plain_ reads
  ErrorCode ended_;                       // set: plain_ reads no more
  std::string failure_;                   // why the channel has failed
  std::function<void()> writer_;          // null: nobody waits for room
  bool flushes_ = false;                  // waits for room in the kernel
  bool ends_ = false;                     // end_writing() was called
};

}  // namespace c10dd::daemon
