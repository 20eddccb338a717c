// SPDX-License-Identifier: Apache-2.0
#include "client/internal/encryption.h"

#include "client/internal/boot_time.h"
#include "protocol/format.h"

namespace c10dd::client {
namespace {

/// Ends the connection, because its bytes cannot be decrypted. In TLS 1.3 a daemon refuses the
/// certificate of a client when the client believes the handshake done.
void broken(Core& core, const Failure& why) {
  if (why.code == Code::permission_denied && !core.open()) {
    return core.dial_failed(
        failure(why.code, "no TLS connection to the daemon at {}: {}", core.address(), why.detail),
        boot_time());
  }
  core.closed("connection lost: " + why.detail, boot_time());
}

}  // namespace

bool has_output(const Core& core, const TlsChannel* channel) {
  return !core.output().empty() || (channel != nullptr && !channel->outgoing().empty());
}

Result<std::string_view> to_send(Core& core, TlsChannel* channel) {
  if (channel == nullptr) return core.output();
  if (channel->outgoing().empty() && !core.output().empty()) {
    const Result<std::size_t> taken = channel->write(core.output());
    if (!taken) return taken.error();
    core.written(*taken, boot_time());
  }
  return channel->outgoing();
}

void sent(Core& core, TlsChannel* channel, std::size_t bytes) {
  if (channel == nullptr) return core.written(bytes, boot_time());
  channel->sent(bytes);
  if (bytes == 0) core.written(0, boot_time());
}

void received(Core& core, TlsChannel* channel, std::span<char> buffer, std::size_t bytes) {
  if (channel == nullptr) return core.received({buffer.data(), bytes}, boot_time());
  channel->receive({buffer.data(), bytes});
  while (core.wants_socket()) {
    const Result<std::size_t> plain = channel->read(buffer);
    if (!plain) return broken(core, plain.error());
    if (*plain == 0) break;
    core.received({buffer.data(), *plain}, boot_time());
  }
  if (channel->has_ended()) core.closed("it closed the connection", boot_time());
}

}  // namespace c10dd::client
