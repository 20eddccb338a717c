// SPDX-License-Identifier: Apache-2.0
// turn() is called after every event. It gives both halves of the client what has come, then starts
// the reads, writes, attempts and timers that are wanted and not yet running.
#include "client/proxy/proxied_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "client/internal/boot_time.h"
#include "client/internal/encryption.h"
#include "client/internal/socket.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::proxy {
namespace {

using client::boot_time;

/// How long a client that may have sent a half message gets to send the rest.
constexpr std::chrono::milliseconds kAmbiguous{100};
constexpr Duration kLongestSleep = std::chrono::seconds(1);  // timers do not count a suspended time

bool would_block(const boost::system::error_code& failed) {
  return failed == boost::asio::error::would_block || failed == boost::asio::error::try_again;
}

}  // namespace

ProxiedConnection::ProxiedConnection(ProxyLoop& shared, std::uint64_t number, Socket local,
                                     client::CoreOptions options, tcpstore::LegacyClients legacy)
    : shared_(shared),
      number_(number),
      client_(std::move(options), legacy),
      local_(std::move(local)),
      remote_(shared.loop),
      local_in_child_(local_.native_handle()),
      timer_(shared.loop),
      patience_(shared.loop) {}

void ProxiedConnection::start() {
  ErrorCode ignored;
  local_.non_blocking(true, ignored);
  local_.set_option(Tcp::no_delay(true), ignored);
  turn();
}

std::string ProxiedConnection::absence() const {
  return client_.core() ? client_.core()->absence(boot_time()) : "";
}

void ProxiedConnection::turn() {
  if (over_) return;
  again_ = true;
  if (std::exchange(in_turn_, true)) return;
  while (std::exchange(again_, false) && !over_) {
    const TimePoint now = boot_time();
    if (client::Core* core = client_.core()) core->tick(now);
    client_.settle(now);
    if (local_open_ && !in_.empty()) take_messages(now);
    if (local_open_) write_local();
    if (local_open_ && client_.over() != nullptr && out_.empty() && !client_.has_output()) {
      close_local(client_.over());
    }
    client::Core* core = client_.core();
    if (core != nullptr && !core->wants_socket()) close_remote();
    if (core != nullptr && remote_.is_open() && !dialling_) write_remote();
    if (client_.done()) return finish();
  }
  in_turn_ = false;
  if (over_) return;
  if (local_open_) read_local();
  if (local_open_ && client_.is_ambiguous()) settle_later();
  if (client_.core() != nullptr) {
    if (remote_.is_open() && !dialling_) read_remote();
    if (client_.core()->wants_credential(boot_time())) show_credential();
    const auto dial_at = client_.core()->dial_at();
    if (dial_at && *dial_at <= boot_time()) dial();
  }
  if (std::exchange(was_served_, is_served()) != is_served()) shared_.changed();
  set_timer();
}

void ProxiedConnection::set_timer() {
  const client::Core* const core = client_.core();
  const auto next = core != nullptr ? core->next_deadline() : std::nullopt;
  if (!next) return;
  const Duration wait = std::clamp<Duration>(*next - boot_time(), Duration{0}, kLongestSleep);
  timer_.expires_after(wait);
  timer_.async_wait([self = shared_from_this()](const ErrorCode& cancelled) {
    if (!cancelled) self->turn();
  });
}

// ---- the local client --------------------------------------------------------------------------

void ProxiedConnection::read_local() {
  // A client that is not read may still end. It is noticed when its next reply is written.
  if (local_reads_ || !client_.wants_input(in_.size())) return;
  local_reads_ = true;
  local_.async_wait(Socket::wait_read, [self = shared_from_this()](ErrorCode failed) {
    self->local_reads_ = false;
    if (self->over_ || !self->local_open_) return;
    std::size_t bytes = 0;
    if (!failed) bytes = self->local_.read_some(boost::asio::buffer(self->shared_.buffer), failed);
    if (failed && !would_block(failed)) {
      self->leave();
      return;
    }
    self->in_.append(self->shared_.buffer.data(), bytes);
    self->turn();
  });
}

void ProxiedConnection::take_messages(TimePoint now) {
  const std::size_t taken = client_.take(in_, now);
  in_.erase(0, taken);
  if (taken > 0 && !std::exchange(heard_, true)) shared_.heard(*this);
}

void ProxiedConnection::write_local() {
  // What the client does not read stays in client_, which then takes no more messages.
  if (out_.empty()) out_ = client_.take_output();
  while (!local_writes_ && out_at_ < out_.size()) {
    ErrorCode failed;
    const std::string_view rest = std::string_view(out_).substr(out_at_);
    out_at_ += local_.write_some(boost::asio::buffer(rest), failed);
    if (failed && !would_block(failed)) return leave();
    if (!failed) continue;
    local_writes_ = true;
    local_.async_wait(Socket::wait_write, [self = shared_from_this()](const ErrorCode&) {
      self->local_writes_ = false;
      self->turn();
    });
  }
  if (out_at_ < out_.size()) return;
  out_.clear();
  out_at_ = 0;
  if (out_.capacity() > limits::kSmallFrameBytes) out_.shrink_to_fit();
}

void ProxiedConnection::leave() { close_local(nullptr); }

void ProxiedConnection::close_local(const Failure* why) {
  if (!std::exchange(local_open_, false)) return;
  shared_.ended(*this, why);
  local_in_child_ = {};
  ErrorCode ignored;
  local_.close(ignored);
  client_.leave(boot_time());
  turn();
}

/// Decides after a while what ambiguous bytes mean, unless more bytes come.
void ProxiedConnection::settle_later() {
  const auto timer = std::make_shared<boost::asio::steady_timer>(shared_.loop, kAmbiguous);
  timer->async_wait([self = shared_from_this(), timer, size = in_.size()](const ErrorCode&) {
    if (self->over_ || !self->client_.is_ambiguous() || self->in_.size() != size) return;
    self->client_.settle_ambiguous();
    self->turn();
  });
}

// ---- the daemon --------------------------------------------------------------------------------

void ProxiedConnection::dial() {
  client::Core& core = *client_.core();
  core.dialling();
  dialling_ = true;
  const std::uint64_t attempt = ++attempt_;
  const std::string address = core.address();
  const Duration patience = core.connect_patience();
  boost::asio::post(shared_.look_ups, [self = shared_from_this(), address, patience, attempt] {
    Result<client::Tls::Begun> begun =
        self->shared_.tls ? self->shared_.tls->begin(address) : client::Tls::Begun{};
    const Result<AddressParts> parts = split_address(address);
    Result<std::vector<client::SocketAddress>> found =
        parts && parts->port
            ? client::resolve({std::string(parts->host), std::string(*parts->port)}, -1, patience)
            : failure(Code::invalid_argument, "address {}: the port is missing", address);
    if (!begun) found = begun.error();
    const auto kept = std::make_shared<Result<client::Tls::Begun>>(std::move(begun));
    boost::asio::post(self->shared_.loop,
                      [self, attempt, kept, found = std::move(found)]() mutable {
                        if (self->over_ || attempt != self->attempt_) return;
                        if (!found) return self->failed_to_dial(found.error());
                        self->begun_ = std::move(**kept);
                        self->targets_ = std::move(*found);
                        self->next_target_ = 0;
                        self->failures_ = {};
                        self->try_next_address();
                      });
  });
}

/// Ends the attempt to connect after this time.
void ProxiedConnection::limit_dial(Duration patience) {
  patience_.expires_after(patience);
  patience_.async_wait([self = shared_from_this(), attempt = attempt_](const ErrorCode& cancelled) {
    ErrorCode ignored;
    if (!cancelled && self->dialling_ && attempt == self->attempt_) self->remote_.cancel(ignored);
  });
}

void ProxiedConnection::try_next_address() {
  const client::SocketAddress& target = targets_[next_target_++];
  ErrorCode failed;
  remote_in_child_ = {};
  remote_.close(failed);
  remote_.open(target.family() == AF_INET6 ? Tcp::v6() : Tcp::v4(), failed);
  if (is_shortage(failed)) shared_.no_descriptors(failed);
  if (failed) return dialled(failed);
  remote_in_child_ = client::ForkClosed(remote_.native_handle());
  client::set_client_options(remote_.native_handle());
  remote_.non_blocking(true, failed);
  Tcp::endpoint endpoint;
  endpoint.resize(target.size());
  std::memcpy(endpoint.data(), target.get(), target.size());
  const std::uint64_t attempt = attempt_;
  limit_dial(client_.core()->connect_patience());
  remote_.async_connect(endpoint, [self = shared_from_this(), attempt](ErrorCode result) {
    if (self->over_ || attempt != self->attempt_) return;
    if (result == boost::asio::error::operation_aborted) result = boost::asio::error::timed_out;
    self->dialled(result);
  });
}

void ProxiedConnection::dialled(const ErrorCode& failed) {
  if (!failed && !begun_.channel) return opened();
  if (!failed) {
    limit_dial(client_.core()->handshake_patience());
    return shake_hands();
  }
  patience_.cancel();
  failures_.add(failed.value());
  if (next_target_ < targets_.size()) return try_next_address();
  failed_to_dial(failures_.failure());
}

/// Goes on with the handshake, until it is done, fails, or has to wait for the socket.
void ProxiedConnection::shake_hands() {
  const Result<bool> done = client::shake_hands_now(*begun_.channel, remote_.native_handle());
  if (!done) {
    patience_.cancel();
    return failed_to_dial(failure(done.error().code, "no TLS connection to the daemon at {}: {}",
                                  client_.core()->address(), done.error().detail));
  }
  if (*done) return opened();
  const auto event = begun_.channel->outgoing().empty() ? Socket::wait_read : Socket::wait_write;
  remote_.async_wait(event, [self = shared_from_this(), attempt = attempt_](ErrorCode failed) {
    if (self->over_ || attempt != self->attempt_) return;
    if (!failed) return self->shake_hands();
    self->failed_to_dial(
        failure(Code::unavailable, "the TLS handshake with the daemon took too long"));
  });
}

/// The connection is there, and the handshake is done.
void ProxiedConnection::opened() {
  patience_.cancel();
  dialling_ = false;
  if (shared_.tls) client_.core()->show(std::move(begun_.token), boot_time());
  channel_ = std::move(begun_.channel);
  client_.core()->connected(boot_time(), client::peer_is_elsewhere(remote_.native_handle()));
  turn();
}

void ProxiedConnection::failed_to_dial(const Failure& why) {
  dialling_ = false;
  close_remote();
  client_.core()->dial_failed(why, boot_time());
  turn();
}

/// Reads the credential again, and shows it to the daemon.
void ProxiedConnection::show_credential() {
  client::Core& core = *client_.core();
  const Result<std::string> token = shared_.tls ? shared_.tls->token() : core.credential();
  core.show(token ? *token : core.credential(), boot_time());
  write_remote();
}

void ProxiedConnection::read_remote() {
  if (std::exchange(remote_reads_, true)) return;
  const std::uint64_t attempt = attempt_;
  remote_.async_wait(Socket::wait_read, [self = shared_from_this(), attempt](ErrorCode failed) {
    if (attempt != self->attempt_) return;  // close_remote() has reset remote_reads_
    self->remote_reads_ = false;
    if (self->over_) return;
    std::size_t bytes = 0;
    if (!failed) bytes = self->remote_.read_some(boost::asio::buffer(self->shared_.buffer), failed);
    if (failed && !would_block(failed)) return self->lost(failed);
    if (bytes > 0) {
      client::received(*self->client_.core(), self->channel_.get(), self->shared_.buffer, bytes);
    }
    self->turn();
  });
}

void ProxiedConnection::write_remote() {
  client::Core& core = *client_.core();
  while (!remote_writes_ && client::has_output(core, channel_.get())) {
    const Result<std::string_view> out = client::to_send(core, channel_.get());
    if (!out) return lost(boost::asio::error::connection_aborted);
    ErrorCode failed;
    const std::size_t bytes = remote_.write_some(boost::asio::buffer(*out), failed);
    if (failed && !would_block(failed)) return lost(failed);
    client::sent(core, channel_.get(), bytes);
    if (!failed) continue;
    remote_writes_ = true;
    const std::uint64_t attempt = attempt_;
    remote_.async_wait(Socket::wait_write, [self = shared_from_this(), attempt](const ErrorCode&) {
      if (attempt != self->attempt_) return;
      self->remote_writes_ = false;
      self->turn();
    });
  }
}

void ProxiedConnection::lost(const ErrorCode& failed) {
  const bool closed = failed == boost::asio::error::eof;
  close_remote();
  client_.core()->closed(closed ? "it closed the connection"
                                : "connection lost: " + client::error_text(failed.value()),
                         boot_time());
  turn();
}

void ProxiedConnection::close_remote() {
  if (dialling_ || !remote_.is_open()) return;
  ++attempt_;  // handlers of this connection have no effect
  remote_reads_ = remote_writes_ = false;
  channel_.reset();
  remote_in_child_ = {};
  ErrorCode ignored;
  remote_.close(ignored);
}

// ---- the end -----------------------------------------------------------------------------------

void ProxiedConnection::drop() {
  if (client_.core() != nullptr) {
    client_.core()->finish(failure(Code::closed, "the proxy has been closed"), boot_time());
  }
  close_local(nullptr);
  finish();
}

void ProxiedConnection::finish() {
  if (std::exchange(over_, true)) return;
  ++attempt_;
  dialling_ = false;
  ErrorCode ignored;
  timer_.cancel();
  patience_.cancel();
  local_in_child_ = {};
  remote_in_child_ = {};
  local_.close(ignored);
  remote_.close(ignored);
  shared_.ended(*this, nullptr);
}

}  // namespace c10dd::proxy
