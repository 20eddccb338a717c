// SPDX-License-Identifier: Apache-2.0
// What lies between a Core and its socket: a TlsChannel that encrypts, or nothing if the pointer is
// null. Called where the core is: under the same mutex, or on the same thread.
#pragma once

#include <span>
#include <string_view>

#include "client/core/core.h"
#include "client/internal/tls_module.h"

namespace c10dd::client {

/// Returns whether bytes wait until the socket has room for them.
bool has_output(const Core& core, const TlsChannel* channel);

/// Returns the next bytes for the socket. Encrypts at most one record ahead of it.
Result<std::string_view> to_send(Core& core, TlsChannel* channel);

/// Notes how many bytes of to_send() the socket has taken; 0: it is full.
void sent(Core& core, TlsChannel* channel, std::size_t bytes);

/// Gives the core the first `bytes` of `buffer`, which came from the socket. Uses the buffer for
/// what it decrypts. Closes the core if the peer has ended, or has sent what cannot be decrypted.
void received(Core& core, TlsChannel* channel, std::span<char> buffer, std::size_t bytes);

}  // namespace c10dd::client
