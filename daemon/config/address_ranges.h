// SPDX-License-Identifier: Apache-2.0
// Ranges of IP addresses, as people write them: 10.0.0.0/8, 192.0.2.7, fd00::/8.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string_view>
#include <vector>

#include "protocol/error.h"

namespace c10dd::daemon {

/// Returns the IPv4 address of an IPv4-mapped IPv6 address, and every other address as it is. On a
/// listener for both IPv6 and IPv4, an IPv4 peer has a mapped address.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

class AddressRanges {
 public:
  /// Reads ranges that are separated by commas; an empty text means no range. Fails with
  /// invalid_argument; the detail names the first range that is not valid.
  static Result<AddressRanges> parse(std::string_view text);

  /// Returns true if a range has the address. A mapped address counts as an IPv4 address.
  bool has(const boost::asio::ip::address& address) const;

 private:
  Result<void> add(std::string_view range);

  std::vector<boost::asio::ip::network_v4> v4_;
  std::vector<boost::asio::ip::network_v6> v6_;
};

}  // namespace c10dd::daemon
