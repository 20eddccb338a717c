// SPDX-License-Identifier: Apache-2.0
#include "protocol/client_hello.h"

#include <algorithm>

namespace c10dd {
namespace {

constexpr std::size_t kRecordHeader = 5;   // kind, version (2), length (2)
constexpr std::size_t kMessageHeader = 4;  // kind, length (3)
constexpr unsigned kVersion = 3;           // the first byte of all versions since SSL 3
constexpr unsigned kKindOfHello = 1;

unsigned byte(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

/// What the records have of the message.
struct Message {
  std::size_t came = 0;
  std::size_t length = 0;  ///< with its header; known when the header has come

  /// Takes more bytes. Returns false if they are not those of a ClientHello.
  bool take(std::string_view more) {
    for (std::size_t at = 0; at < more.size() && came + at < kMessageHeader; ++at) {
      if (came + at == 0 && byte(more, at) != kKindOfHello) return false;
      if (came + at > 0) length = length * 256 + byte(more, at);
      if (came + at + 1 == kMessageHeader) length += kMessageHeader;
    }
    came += more.size();
    return came < kMessageHeader || length <= kClientHelloBytes;
  }
  bool is_whole() const { return came >= kMessageHeader && came >= length; }
};

}  // namespace

ClientHello client_hello(std::string_view bytes) {
  Message message;
  for (std::size_t record = 0; record < kClientHelloRecords; ++record) {
    if (!bytes.empty() && bytes[0] != kTlsRecord) return ClientHello::foreign;
    if (bytes.size() > 1 && byte(bytes, 1) != kVersion) return ClientHello::foreign;
    if (bytes.size() < kRecordHeader) return ClientHello::part;
    const std::size_t length = byte(bytes, 3) * 256 + byte(bytes, 4);
    if (length == 0 || length > kClientHelloBytes) return ClientHello::foreign;
    bytes.remove_prefix(kRecordHeader);
    const std::string_view own = bytes.substr(0, length);
    if (!message.take(own)) return ClientHello::foreign;
    if (own.size() < length) return ClientHello::part;  // records are read as a whole
    if (message.is_whole()) return ClientHello::whole;
    bytes.remove_prefix(length);
  }
  return ClientHello::foreign;
}

}  // namespace c10dd
