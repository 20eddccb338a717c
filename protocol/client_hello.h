// SPDX-License-Identifier: Apache-2.0
// Says whether a ClientHello of TLS (RFC 8446, 4.1.2 and 5.1) has come as a whole: only then has a
// server something to answer. Reads no more of it than lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace c10dd {

/// The first byte of a connection that speaks TLS.
inline constexpr char kTlsRecord = 0x16;
/// The longest ClientHello that is looked at, in bytes and in records.
inline constexpr std::size_t kClientHelloBytes = 4'096;
inline constexpr std::size_t kClientHelloRecords = 8;

enum class ClientHello : std::uint8_t {
  part,
  whole,
  foreign,  ///< something else, or longer: TLS itself must say what is wrong
};

/// Judges the first bytes that a client has sent. More bytes change no other answer than `part`.
ClientHello client_hello(std::string_view bytes);

}  // namespace c10dd
