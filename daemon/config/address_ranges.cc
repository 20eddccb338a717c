// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/address_ranges.h"

#include <algorithm>
#include <string>

#include "protocol/format.h"
#include "protocol/parse.h"

namespace c10dd::daemon {
namespace {

namespace ip = boost::asio::ip;

Failure invalid(std::string_view range, std::string_view why) {
  return failure(Code::invalid_argument,
                 "invalid address range \"{}\": {}; use ADDRESS/BITS, for example 10.0.0.0/8 or "
                 "fd00::/8",
                 range, why);
}

/// Returns true if no bit of the address is set behind the prefix.
template <class Network>
bool is_canonical(const Network& network) {
  return network == network.canonical();
}

}  // namespace

ip::address unmapped(const ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return ip::make_address_v4(ip::v4_mapped, address.to_v6());
}

Result<AddressRanges> AddressRanges::parse(std::string_view text) {
  AddressRanges ranges;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (Result<void> added = ranges.add(text.substr(0, comma)); !added) return added.error();
    if (comma + 1 == text.size()) return invalid("", "it is empty");
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranges;
}

Result<void> AddressRanges::add(std::string_view range) {
  if (range.empty()) return invalid(range, "it is empty");
  const std::size_t slash = std::min(range.find('/'), range.size());
  boost::system::error_code failed;
  const ip::address address = ip::make_address(std::string(range.substr(0, slash)), failed);
  if (failed) return invalid(range, "the part before the / is not an IP address");
  const unsigned most = address.is_v4() ? 32 : 128;
  unsigned short bits = static_cast<unsigned short>(most);
  if (slash < range.size()) {
    const auto given = parse_number<unsigned short>(range.substr(slash + 1));
    if (!given || *given > most) {
      return invalid(range, format("the prefix must be 0 to {} bits", most));
    }
    bits = *given;
  }
  bool canonical = false;
  if (address.is_v4()) {
    canonical = is_canonical(v4_.emplace_back(address.to_v4(), bits));
  } else {
    canonical = is_canonical(v6_.emplace_back(address.to_v6(), bits));
  }
  if (!canonical) return invalid(range, "the address has bits set after the prefix");
  return {};
}

bool AddressRanges::has(const ip::address& address) const {
  const ip::address plain = unmapped(address);
  const auto holds = [&](const auto& network, const auto& one) {
    using Network = std::decay_t<decltype(network)>;
    return Network(one, network.prefix_length()).network() == network.network();
  };
  if (plain.is_v4()) {
    return std::any_of(v4_.begin(), v4_.end(),
                       [&](const auto& network) { return holds(network, plain.to_v4()); });
  }
  return std::any_of(v6_.begin(), v6_.end(),
                     [&](const auto& network) { return holds(network, plain.to_v6()); });
}

}  // namespace c10dd::daemon
