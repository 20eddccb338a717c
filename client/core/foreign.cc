// SPDX-License-Identifier: Apache-2.0
#include "client/core/foreign.h"

#include <algorithm>
#include <iterator>

#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr std::size_t kLineShown = 60;

struct Banner {
  std::string_view start;
  std::string_view protocol;
};

// Redis replies -ERR to an unknown request, -NOAUTH if it requires a password, and -DENIED to
// remote clients in protected mode. TLS begins an alert with 15 03, and a handshake with 16 03.
constexpr Banner kBanners[] = {
    {"HTTP/", "HTTP"}, {"-ERR", "Redis"},       {"-NOAUTH", "Redis"}, {"-DENIED", "Redis"},
    {"SSH-", "SSH"},   {"220 ", "SMTP or FTP"}, {"\x15\x03", "TLS"},  {"\x16\x03", "TLS"},
};

/// A ClientHello of TLS 1.2 without extensions. Servers reply with a ServerHello or an alert.
constexpr unsigned char kClientHello[54] = {
    0x16, 0x03, 0x01, 0x00, 0x31,  // record: handshake, 49 bytes
    0x01, 0x00, 0x00, 0x2d,        // client hello, 45 bytes
    0x03, 0x03,                    // TLS 1.2, then 32 random bytes, which may be anything
    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,
    0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,
    0x00,                                            // no session
    0x00, 0x06, 0xc0, 0x2f, 0xc0, 0x2b, 0x00, 0x2f,  // three cipher suites
    0x01, 0x00,                                      // no compression
};

std::string_view first_line(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of("\r\n"), text.size()));
}

}  // namespace

std::string_view tls_probe() {
  return {reinterpret_cast<const char*>(kClientHello), sizeof kClientHello};
}

std::string foreign_protocol(std::string_view first_bytes) {
  const std::string_view line = first_line(first_bytes);
  const auto* const known = std::ranges::find_if(
      kBanners, [&](const Banner& one) { return first_bytes.starts_with(one.start); });
  if (known == std::end(kBanners)) return "";
  if (first_bytes.find("c10dd") != first_bytes.npos) return "";
  if (known->protocol == "TLS") return "TLS";
  // Some HTTPS servers reply to plain HTTP with an HTTP error that names HTTPS.
  const bool https = first_bytes.find("HTTPS") != first_bytes.npos;
  return format("{} ({})", https ? "TLS" : known->protocol,
                quoted_text(printable(line, kLineShown)));
}

}  // namespace c10dd::client
