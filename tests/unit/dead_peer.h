// SPDX-License-Identifier: Apache-2.0
// Checks that the kernel ends a TCP connection soon after its peer has vanished from the network.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace c10dd {

/// Fails the test unless the socket ends 25 s after the last packet of an idle peer, and 15 s after
/// it has sent bytes that the peer does not acknowledge.
inline void expect_detects_dead_peer(int socket) {
  const auto option = [socket](int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket, level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 10);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 5);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 3);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 15'000);
  EXPECT_NE(option(IPPROTO_TCP, TCP_NODELAY), 0);
}

}  // namespace c10dd
