// SPDX-License-Identifier: Apache-2.0
// The names of the wire protocols for --protocols and for the labels of metrics.
// daemon/net/protocols.h says how a protocol is recognised and served. To add a protocol: add its
// number and its entry here, write its session, and add the protocol in Server::protocols().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace c10dd::daemon {

/// The number of a protocol is its index in kProtocols. `unknown` comes last and has no entry in
/// kProtocols. It stands for connections whose protocol was not recognised.
enum class Protocol : std::uint8_t { native, http, tcpstore, unknown };

struct ProtocolName {
  Protocol protocol;
  std::string_view name;
  bool carries_ops;  ///< true if requests are ops of protocol/ops.h; metrics then count each op
};

inline constexpr ProtocolName kProtocols[] = {
    {Protocol::native, "native", true},
    {Protocol::http, "http", false},
    {Protocol::tcpstore, "tcpstore", true},
};
inline constexpr std::size_t kProtocolCount = std::size(kProtocols);

constexpr std::size_t index_of(Protocol protocol) { return static_cast<std::size_t>(protocol); }

static_assert(index_of(Protocol::unknown) == kProtocolCount, "each protocol has an entry");
static_assert(
    [] {
      for (std::size_t i = 0; i < kProtocolCount; ++i) {
        if (index_of(kProtocols[i].protocol) != i) return false;
      }
      return true;
    }(),
    "the entries are in the order of the numbers");

/// Returns the name of a protocol for use in labels; "unknown" for Protocol::unknown.
constexpr std::string_view name_of(Protocol protocol) {
  return protocol == Protocol::unknown ? "unknown" : kProtocols[index_of(protocol)].name;
}

/// A set of protocols.
class ProtocolSet {
 public:
  constexpr ProtocolSet() = default;
  constexpr ProtocolSet(std::initializer_list<Protocol> of) {
    for (const Protocol protocol : of) add(protocol);
  }

  static constexpr ProtocolSet all() {
    ProtocolSet set;
    for (const ProtocolName& entry : kProtocols) set.add(entry.protocol);
    return set;
  }

  /// `protocol` must not be Protocol::unknown.
  constexpr void add(Protocol protocol) { has_[index_of(protocol)] = true; }
  constexpr bool has(Protocol protocol) const {
    return protocol != Protocol::unknown && has_[index_of(protocol)];
  }
  constexpr bool operator==(const ProtocolSet&) const = default;

 private:
  std::array<bool, kProtocolCount> has_{};
};

}  // namespace c10dd::daemon
