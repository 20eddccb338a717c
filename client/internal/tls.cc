// SPDX-License-Identifier: Apache-2.0
#include "client/internal/tls.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "client/internal/boot_time.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

Result<const TlsModule*> module() {
  static constexpr ModuleKind kind = {
      .what = "module",
      .file_prefix = "libc10dd_",
      .symbol = "c10dd_tls_module",
      .path_variable = "C10DD_MODULE_PATH",
      .remedy =
          "; it is built where libssl-dev is installed, and encrypts the connection of a "
          "client that has a token",
      .abi = kTlsAbi,
      .setup_bytes = sizeof(CredentialTexts)};
  const Result<const ModuleHead*> head = load_module(kind, "tls");
  if (!head) return head.error();
  return reinterpret_cast<const TlsModule*>(*head);  // whose first member the head is
}

Failure cut(std::string_view why) {
  return failure(Code::unavailable, "the TLS handshake was not finished: {}", why);
}

/// Sends what the channel has to send, as far as the socket takes it.
Result<void> send_some(TlsChannel& channel, int socket) {
  while (!channel.outgoing().empty()) {
    const std::string_view out = channel.outgoing();
    const ssize_t n = ::send(socket, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return {};
    if (n < 0) return cut(error_text(errno));
    channel.sent(static_cast<std::size_t>(n));
  }
  return {};
}

/// Receives what has come. Returns false if that is nothing.
Result<bool> receive_some(TlsChannel& channel, int socket) {
  std::array<char, 16 * 1024> buffer;
  const ssize_t n = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n < 0) return cut(error_text(errno));
  if (n == 0) channel.receive_end();
  channel.receive({buffer.data(), static_cast<std::size_t>(n)});
  return true;
}

}  // namespace

std::shared_ptr<Tls> Tls::of(const Credentials& credentials) {
  if (!is_given(credentials)) return nullptr;
  return std::shared_ptr<Tls>(new Tls(credentials));
}

std::shared_ptr<Tls> tls_of(const Credentials& credentials) {
  return Tls::of(is_given(credentials) ? credentials : credentials_in(process_environment()));
}

Result<Tls::Begun> Tls::begin(const std::string& address) {
  Result<CredentialTexts> texts = read_credentials(credentials_);
  if (!texts) return texts.error();
  const Result<AddressParts> parts = split_address(address);
  if (!parts) return parts.error();
  const Result<std::shared_ptr<TlsContext>> context = context_of(*texts);
  if (!context) return context.error();
  return Begun{std::move(texts->token), (*context)->connect(std::string(parts->host))};
}

Result<std::shared_ptr<TlsContext>> Tls::context_of(const CredentialTexts& texts) {
  const std::lock_guard lock(mutex_);
  if (context_ != nullptr && texts == texts_) return context_;
  const Result<const TlsModule*> opened = module();
  if (!opened) return opened.error();
  Result<std::shared_ptr<TlsContext>> made = (*opened)->open(texts);
  if (!made && made.error().code == Code::unauthenticated) {
    const std::string file = printable(credentials_.token_file, limits::kNameShown);
    return failure(Code::unauthenticated, "{}{}: {}",
                   file.empty() ? "C10DD_TOKEN" : "C10DD_TOKEN_FILE ", file, made.error().detail);
  }
  if (!made) return made.error();
  texts_ = texts;
  return context_ = std::move(*made);
}

Result<std::string> Tls::token() const {
  Result<CredentialTexts> texts = read_credentials(credentials_);
  if (!texts) return texts.error();
  return std::move(texts->token);
}

Result<bool> shake_hands_now(TlsChannel& channel, int socket) {
  while (true) {
    const Result<bool> done = channel.shake_hands();
    // Also the alert that says to the peer why the handshake has failed.
    const Result<void> sent = send_some(channel, socket);
    if (!done) return done.error();
    if (!sent) return sent.error();
    if (!channel.outgoing().empty()) return false;
    if (*done) return true;
    const Result<bool> came = receive_some(channel, socket);
    if (!came || !*came) return came;
  }
}

Result<bool> shake_hands(TlsChannel& channel, int socket, int interrupt, Duration time) {
  const TimePoint end = boot_time() + time;
  while (true) {
    const Result<bool> done = shake_hands_now(channel, socket);
    if (!done || *done) return done;
    const Duration left = end - boot_time();
    if (left <= Duration::zero()) return false;
    const short event = channel.outgoing().empty() ? POLLIN : POLLOUT;
    pollfd polled[] = {{socket, event, 0}, {interrupt, POLLIN, 0}};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = ::poll(polled, 2, static_cast<int>(ms));
    if (ready > 0 && polled[1].revents != 0) return cut("the attempt was interrupted");
  }
}

Failure handshake_too_slow(Duration patience) {
  return cut("the daemon took longer than " + human(patience));
}

}  // namespace c10dd::client
