// SPDX-License-Identifier: Apache-2.0
// A connection counts only while its other end is open, because the kernel says of a socket that
// its process has closed that it is of root. And while the accepted end is open, no other process
// can connect from the same port, so what the kernel says concerns this connection.
#include "client/proxy/peer_user.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/nsfs.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "protocol/format.h"

namespace c10dd::proxy {

/// The ports and IPv4 addresses of a socket, in network order.
struct PeerUsers::Socket {
  std::uint32_t address = 0;
  std::uint16_t port = 0;
  std::uint32_t peer_address = 0;
  std::uint16_t peer_port = 0;
};

/// What the kernel says of a socket. Without an inode no process has it open.
struct PeerUsers::Owner {
  uid_t user = 0;
  std::uint64_t inode = 0;
  int state = 0;
};

namespace {

Failure system_failure(std::string_view what, int error) {
  return failure(Code::unavailable, "{}: {}", what, client::error_text(error));
}

int state_of(int connection) {
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool known = getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return known ? int{info.tcpi_state} : int{TCP_CLOSE};
}

bool is_open(int state) {
  return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2;
}

// ---- users -------------------------------------------------------------------------------------

/// Returns whether this user namespace has a number for each user.
bool map_is_whole() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  while (map >> inside >> outside >> count) sum += count;
  return sum >= 0xFFFF'FFFF;
}

/// Returns whether the network belongs to this user namespace, so that no process outside of it has
/// sockets in the network.
bool network_is_own() {
  const client::Descriptor network(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const client::Descriptor owner(network ? ioctl(network.get(), NS_GET_USERNS) : -1);
  struct stat of_network {};
  struct stat own {};
  return owner && fstat(owner.get(), &of_network) == 0 && stat("/proc/self/ns/user", &own) == 0 &&
         of_network.st_ino == own.st_ino && of_network.st_dev == own.st_dev;
}

/// Returns whether a number that equals our own stands for our user only. In a user namespace the
/// kernel gives all users without a number there the same one.
bool is_unique(uid_t user) {
  uid_t shared = 65'534;
  std::ifstream("/proc/sys/kernel/overflowuid") >> shared;
  return user != shared || map_is_whole() || network_is_own();
}

/// Connects a socket to the part of the kernel that knows all sockets. No process can write to it.
Result<client::Descriptor> open_netlink() {
  client::Descriptor socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (!socket || connect(socket.get(), reinterpret_cast<sockaddr*>(&kernel), sizeof kernel) != 0)
    return system_failure("netlink", errno);
  socket.close_in_children();
  return socket;
}

}  // namespace

Result<PeerUsers> PeerUsers::open(int listening, By by) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return system_failure("getsockname", errno);
  const Socket socket{own.sin_addr.s_addr, own.sin_port, 0, 0};
  std::string why = "netlink was not asked";
  if (by == By::any) {
    PeerUsers users;
    auto netlink = open_netlink();
    if (netlink) users.netlink_ = std::move(*netlink);
    const auto found = netlink ? users.owner(socket) : netlink.error();
    if (found && *found) return users;
    why = found ? "netlink does not know the socket of the proxy" : found.error().detail;
  }
  PeerUsers users;
  const auto found = users.owner(socket);
  if (found && *found) return users;
  return failure(
      Code::unavailable, "{}; {}", why,
      found ? "/proc/net/tcp does not have the socket of the proxy" : found.error().detail);
}

PeerUser PeerUsers::look(int connection) {
  sockaddr_in own{};
  sockaddr_in peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return PeerUser::gone;
  }
  const auto found =
      owner({peer.sin_addr.s_addr, peer.sin_port, own.sin_addr.s_addr, own.sin_port});
  if (!found) {
    problem_ = found.error().detail;
    return PeerUser::unclear;
  }
  const int state = state_of(connection);  // after the look-up, see the top of this file
  if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT) return PeerUser::gone;
  if (!*found || (*found)->inode == 0 || !is_open((*found)->state)) return PeerUser::gone;
  user_ = (*found)->user;
  if (user_ != geteuid()) return PeerUser::other;
  if (is_unique(user_)) return PeerUser::own;
  problem_ = format("{} is the number of each user without one in this user namespace", user_);
  return PeerUser::unclear;
}

Result<std::optional<PeerUsers::Owner>> PeerUsers::owner(const Socket& socket) {
  Failure refused = failure(Code::unavailable, "/proc/net/tcp cannot be read");
  if (netlink_) {
    auto found = ask_netlink(socket);
    if (found) return found;
    refused = found.error();
  }
  // A socket of IPv6 that is connected over IPv4 is in the second file, with mapped addresses.
  constexpr std::pair<const char*, const char*> kFiles[] = {
      {"/proc/thread-self/net/tcp", ""},
      {"/proc/thread-self/net/tcp6", "0000000000000000FFFF0000"}};
  bool read = false;
  for (const auto& [path, mapped] : kFiles) {
    char ends[128];
    std::snprintf(ends, sizeof ends, " %s%08X:%04X %s%08X:%04X ", mapped, socket.address,
                  ntohs(socket.port), mapped, socket.peer_address, ntohs(socket.peer_port));
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
      read = true;
      const std::size_t at = line.find(ends);
      if (at == std::string::npos) continue;
      std::istringstream words(line.substr(at + std::strlen(ends)));
      std::string skipped;
      Owner owner;
      words >> std::hex >> owner.state >> std::dec >> skipped >> skipped >> skipped >> owner.user >>
          skipped >> owner.inode;
      if (words) return owner;
    }
  }
  if (!read) return refused;
  return std::nullopt;
}

Result<std::optional<PeerUsers::Owner>> PeerUsers::ask_netlink(const Socket& socket) {
  struct {
    nlmsghdr head{};
    inet_diag_req_v2 ask{};
  } request;
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.head.nlmsg_seq = ++sequence_;
  request.ask.sdiag_family = AF_INET;  // finds sockets of IPv6 with a mapped address, too
  request.ask.sdiag_protocol = IPPROTO_TCP;
  request.ask.idiag_states = ~0U;
  inet_diag_sockid& id = request.ask.id;
  id.idiag_sport = socket.port;
  id.idiag_dport = socket.peer_port;
  id.idiag_src[0] = socket.address;
  id.idiag_dst[0] = socket.peer_address;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink_.get(), &request, sizeof request, 0) < 0)
    return system_failure("netlink", errno);
  for (;;) {  // the kernel has replied before send() returns
    alignas(nlmsghdr) char reply[8192];
    const ssize_t size = recv(netlink_.get(), reply, sizeof reply, MSG_DONTWAIT);
    if (size < 0) return system_failure("netlink", errno);
    nlmsghdr head{};
    if (static_cast<std::size_t>(size) < sizeof head) continue;
    std::memcpy(&head, reply, sizeof head);
    const std::size_t body = static_cast<std::size_t>(size) - NLMSG_HDRLEN;
    if (head.nlmsg_seq != sequence_) continue;  // of a question whose reply could not be read
    if (head.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error{};
      std::memcpy(&error, reply + NLMSG_HDRLEN, std::min(body, sizeof error));
      if (error.error == -ENOENT) return std::nullopt;
      return system_failure("netlink", -error.error);
    }
    inet_diag_msg found{};
    std::memcpy(&found, reply + NLMSG_HDRLEN, std::min(body, sizeof found));
    // A listener on the port of a connection that has ended is another socket.
    if (found.id.idiag_sport != socket.port || found.id.idiag_dport != socket.peer_port)
      return std::nullopt;
    return Owner{found.idiag_uid, found.idiag_inode, found.idiag_state};
  }
}

}  // namespace c10dd::proxy
