// SPDX-License-Identifier: Apache-2.0
// Exchanges addresses and connects to the peers. Each rank connects in an order that keeps the
// ranks from waiting for each other.
#include "collectives/gloo/mesh.h"

#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "client/internal/local_address.h"
#include "collectives/gloo/device.h"
#include "collectives/gloo/parallel.h"
#include "collectives/gloo/sigpipe.h"
#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

using ::gloo::transport::tcp::Address;

// Gloo waits for a connection five times as long as the pair's time-out.
constexpr int kGlooConnectFactor = 5;
constexpr Duration kGiveUpPatience = std::chrono::seconds(10);

/// Returns the bytes of the address and port, in network byte order. For IPv6, the scope id follows
/// in host byte order. The result has 6 bytes for IPv4 and 22 bytes for IPv6.
std::string compact(const sockaddr_storage& address) {
  std::string bytes;
  const auto append = [&bytes](const auto& field) {
    bytes.append(reinterpret_cast<const char*>(&field), sizeof(field));
  };
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    append(v4.sin_addr);
    append(v4.sin_port);
  } else {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    append(v6.sin6_addr);
    append(v6.sin6_port);
    append(v6.sin6_scope_id);
  }
  return bytes;
}

/// Inverse of compact(). Returns false if the bytes are malformed.
bool expand(const std::string& bytes, sockaddr_storage& address) {
  address = {};
  const char* from = bytes.data();
  const auto take = [&from](auto& field) {
    std::memcpy(&field, from, sizeof(field));
    from += sizeof(field);
  };
  if (bytes.size() == sizeof(in_addr) + sizeof(in_port_t)) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    take(v4.sin_addr);
    take(v4.sin_port);
    return true;
  }
  if (bytes.size() == sizeof(in6_addr) + sizeof(in_port_t) + sizeof(std::uint32_t)) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    take(v6.sin6_addr);
    take(v6.sin6_port);
    take(v6.sin6_scope_id);
    return true;
  }
  return false;
}

/// Returns true if this rank connects to the peer, false if it accepts the peer's connection. The
/// rule is Gloo's: the side with the larger address connects. Addresses are compared as bytes. If
/// they are equal, the ports are compared as numbers without conversion from network byte order.
bool is_client(const sockaddr_storage& self, const sockaddr_storage& peer) {
  if (self.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(self);
    const auto& b = reinterpret_cast<const sockaddr_in&>(peer);
    const int order = std::memcmp(&a.sin_addr, &b.sin_addr, sizeof(a.sin_addr));
    return order != 0 ? order > 0 : a.sin_port > b.sin_port;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(self);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(peer);
  const int order = std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr));
  return order != 0 ? order > 0 : a.sin6_port > b.sin6_port;
}

/// Returns the numeric address and port as "host:port", for error texts.
std::string text_of(const sockaddr_storage& address) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof(sockaddr_storage), host,
              sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + ":" + port;
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

/// The addresses of the connections between this rank and its peers, by rank.
struct Addresses {
  std::vector<sockaddr_storage> own;
  std::vector<sockaddr_storage> theirs;

  /// Returns whether some ranks have loopback addresses and others do not, which cannot reach those
  /// on other machines. All ranks return the same.
  bool are_mixed(Rank self) const {
    bool loopback = false;
    bool other = false;
    for (Rank peer = 0; peer < theirs.size(); ++peer) {
      if (peer == self) continue;
      for (const sockaddr_storage* address : {&own[peer], &theirs[peer]}) {
        (is_loopback(*address) ? loopback : other) = true;
      }
    }
    return loopback && other;
  }
};

/// Begins the text that a rank sends in place of an address, which is longer than any address.
constexpr char kNoAddress = '!';

Failure no_address(Rank rank, const std::string& why) {
  return failure(Code::unavailable, "gloo: rank {} {}", rank, why);
}

/// Gives a link-local address of a peer the scope of this rank's own address: the exchanged number
/// counts the interfaces of the peer's machine.
void localize(sockaddr_storage& theirs, const sockaddr_storage& own) {
  if (theirs.ss_family != AF_INET6) return;
  auto& to = reinterpret_cast<sockaddr_in6&>(theirs);
  if (!IN6_IS_ADDR_LINKLOCAL(&to.sin6_addr)) return;
  const bool v6 = own.ss_family == AF_INET6;
  to.sin6_scope_id = v6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_scope_id : 0;
}

/// Creates one pair (Gloo's end of a connection) per peer, and exchanges the pairs' addresses.
Result<Addresses> exchange_addresses(const BackendSetup& setup, Transport& transport) {
  std::vector<std::string> parts(setup.world.size);
  Addresses found;
  found.own.resize(setup.world.size);
  for (Rank peer = 0; peer < setup.world.size; ++peer) {
    if (peer == setup.world.rank) continue;
    const auto& pair = transport.createPair(static_cast<int>(peer));
    found.own[peer] = Address(pair->address().bytes()).getSockaddr();
    parts[peer] = compact(found.own[peer]);
  }
  auto reply = transpose(setup, std::move(parts));
  if (!reply) return reply.error();
  found.theirs.resize(setup.world.size);
  for (Rank peer = 0; peer < setup.world.size; ++peer) {
    if (peer == setup.world.rank) continue;
    const std::string& part = (*reply)[peer];
    if (expand(part, found.theirs[peer])) {  // its first byte may be kNoAddress, as of 33.1.2.3
      localize(found.theirs[peer], found.own[peer]);
      continue;
    }
    if (part.starts_with(kNoAddress)) return no_address(peer, part.substr(1));
    return failure(
        Code::invalid_argument,
        "gloo: rank {} did not send a Gloo address: all ranks must use the same backend; "
        "check GroupOptions::backend and C10DD_BACKEND on that rank",
        peer);
  }
  return found;
}

Result<void> check_families(const Addresses& addresses, Rank self) {
  for (Rank peer = 0; peer < addresses.theirs.size(); ++peer) {
    if (peer == self) continue;
    const sockaddr_storage& own = addresses.own[peer];
    const sockaddr_storage& theirs = addresses.theirs[peer];
    if (own.ss_family == theirs.ss_family) continue;
    return failure(
        Code::unavailable,
        "gloo: rank {} has the address {}, but this rank has {}; all ranks must use the same "
        "address family, IPv4 or IPv6: set the option interface or hostname",
        peer, text_of(theirs), text_of(own));
  }
  return {};
}

/// Tells all ranks that this one has no address for them. Ranks that come later than after
/// kGiveUpPatience only see that the exchange has failed. Returns the failure of this rank.
Failure give_up(const BackendSetup& setup, const std::string& why) {
  BackendSetup bounded = setup;
  bounded.options.open_timeout = std::min<Duration>(setup.options.open_timeout, kGiveUpPatience);
  transpose(bounded, std::vector<std::string>(setup.world.size, kNoAddress + why));
  return no_address(setup.world.rank, why);
}

/// A device of Gloo, and the connections that it makes, which are not connected yet.
struct Draft {
  Mesh mesh;
  Addresses addresses;
};

Result<Draft> draft(const BackendSetup& setup) {
  auto device = open_device(setup);
  if (!device) {
    give_up(setup, "has no address to listen on: " + device.error().detail);
    return device.error();
  }
  const auto patience =
      std::chrono::ceil<std::chrono::milliseconds>(setup.options.open_timeout / kGlooConnectFactor);
  auto inner = (*device)->createContext(static_cast<int>(setup.world.rank),
                                        static_cast<int>(setup.world.size));
  inner->setTimeout(patience);
  Mesh mesh{*device, std::make_shared<Transport>(std::move(inner))};
  Result<Addresses> addresses = exchange_addresses(setup, *mesh.transport);
  if (!addresses) return addresses.error();
  return Draft{std::move(mesh), std::move(*addresses)};
}

/// Exchanges addresses again, after those of `first` were mixed: a rank that had a loopback address
/// takes the one from which it reaches the first rank that had none.
Result<Draft> draft_without_loopback(const BackendSetup& setup, const Addresses& first) {
  BackendSetup again = setup;
  const Rank self = setup.world.rank;
  const Rank any = self == 0 ? 1 : 0;
  if (!is_loopback(first.own[any])) return draft(setup);
  const std::string own = text_of(first.own[any]);
  Rank peer = any;
  while (peer == self || is_loopback(first.theirs[peer])) ++peer;
  const std::string theirs = text_of(first.theirs[peer]);
  if (!setup.options.interface.empty() || !setup.options.hostname.empty()) {
    return give_up(setup, format("has the loopback address {}, which rank {} at {} cannot reach: "
                                 "change its option interface or hostname",
                                 own, peer, theirs));
  }
  const std::size_t colon = theirs.rfind(':');
  again.options.hostname =
      client::local_address_towards(theirs.substr(0, colon), theirs.substr(colon + 1));
  if (again.options.hostname.empty()) {
    return give_up(setup, format("has the loopback address {}, which rank {} at {} cannot reach, "
                                 "and has no route to that rank: set the option interface or "
                                 "hostname, or the variable C10DD_GLOO_INTERFACE",
                                 own, peer, theirs));
  }
  return draft(again);
}

}  // namespace

Result<Mesh> connect_mesh(const BackendSetup& setup) {
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [begin] { return std::chrono::steady_clock::now() - begin; };
  const NoSigpipe no_sigpipe;  // draft() starts a thread that inherits the blocked signal
  const int rank = static_cast<int>(setup.world.rank);
  const int size = static_cast<int>(setup.world.size);
  std::mutex mutex;
  std::vector<Rank> absent;
  std::string why;
  try {
    Result<Draft> drafted = draft(setup);
    if (drafted && drafted->addresses.are_mixed(setup.world.rank)) {
      drafted = draft_without_loopback(setup, Addresses(drafted->addresses));
    }
    if (!drafted) return drafted.error();
    const auto& [own, theirs] = drafted->addresses;
    if (Result<void> same = check_families(drafted->addresses, setup.world.rank); !same) {
      return same.error();
    }
    Mesh& mesh = drafted->mesh;
    const auto connect = [&, &theirs = theirs](int peer) {
      const auto& address = theirs[static_cast<std::size_t>(peer)];
      try {
        mesh.transport->getPair(peer)->connect(Address(address).bytes());
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        absent.push_back(static_cast<Rank>(peer));
        why = format("{}: {}", text_of(address), error.what());
      }
    };
    // First connects to the peers that accept connections from this rank (`clients`), and only then
    // waits for connections from the other peers (`servers`). In another order two ranks could wait
    // for each other.
    std::vector<int> clients;
    std::vector<int> servers;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto at = static_cast<std::size_t>(peer);
      (is_client(own[at], theirs[at]) ? clients : servers).push_back(peer);
    }
    for_each_of(clients, connect);
    for_each_of(servers, connect);
    if (absent.empty()) {
      mesh.transport->watch(setup.bootstrap->processes());
      const Duration left =
          std::max<Duration>(setup.options.open_timeout - waited(), std::chrono::milliseconds(1));
      const Result<void> opened = mesh.transport->await_peers(left);
      if (opened) return mesh;
      Failure closed = opened.error();
      closed.detail = format("gloo: process group \"{}\": {}", setup.world.name, closed.detail);
      return closed;
    }
  } catch (const std::exception& error) {
    return failure(Code::unavailable, "gloo: cannot open process group \"{}\": {}",
                   setup.world.name, error.what());
  }
  std::vector<MissingRank> missing;
  for (const Rank peer : absent) {
    missing.push_back(missing_rank(peer, setup.bootstrap->processes(),
                                   MissingRank::Cause::disconnected, "could not be reached"));
  }
  Failure reason = failure(Code::unavailable,
                           "gloo: no connection to {} (world size {}) after {}; last attempt: {}; "
                           "check for a firewall or "
                           "a rank that died",
                           described(missing), size, human(waited()), why);
  reason.missing = std::move(missing);
  return reason;
}

}  // namespace c10dd::collectives
