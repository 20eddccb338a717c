// SPDX-License-Identifier: Apache-2.0
// The wire protocols by name: what --protocols takes, and what metrics are labelled with. How one
// is recognised and served is in daemon/net/protocols.h. To add one: its number and its line here,
// its session, a line in Server::spoken_protocols().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string_view>

namespace c10dd::daemon {

/// Numbers count from 0 in the order of kProtocols; unknown is the last, and no protocol.
enum class Protocol : std::uint8_t { native, http, unknown };

struct ProtocolName {
  Protocol protocol;
  std::string_view name;
  bool carries_ops;  ///< its requests are those of protocol/ops.h, and counted as such
};

inline constexpr ProtocolName kProtocols[] = {
    {Protocol::native, "native", true},
    {Protocol::http, "http", false},
};
inline constexpr std::size_t kProtocolCount = std::size(kProtocols);

constexpr std::size_t index_of(Protocol protocol) { return static_cast<std::size_t>(protocol); }

static_assert(index_of(Protocol::unknown) == kProtocolCount, "each protocol has a line");
static_assert(
    [] {
      for (std::size_t i = 0; i < kProtocolCount; ++i) {
        if (index_of(kProtocols[i].protocol) != i) return false;
      }
      return true;
    }(),
    "the lines stand in the order of the numbers");

/// Returns the label; "unknown" of what is none of the list.
constexpr std::string_view name_of(Protocol protocol) {
  return protocol == Protocol::unknown ? "unknown" : kProtocols[index_of(protocol)].name;
}

/// Some of the protocols.
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

  constexpr void add(Protocol protocol) { has_[index_of(protocol)] = true; }
  constexpr bool has(Protocol protocol) const {
    return protocol != Protocol::unknown && has_[index_of(protocol)];
  }
  constexpr bool operator==(const ProtocolSet&) const = default;

 private:
  std::array<bool, kProtocolCount> has_{};
};

}  // namespace c10dd::daemon
