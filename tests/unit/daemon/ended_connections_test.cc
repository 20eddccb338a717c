// SPDX-License-Identifier: Apache-2.0
// Connections that the other side has ended are found without reading from them.
#include "daemon/net/ended_connections.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace c10dd::daemon {
namespace {

class EndedConnectionsTest : public testing::Test {
 protected:
  /// Returns the two ends of a connection.
  static std::array<int, 2> connect() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    return ends;
  }

  EndedConnections ended_;
};

TEST_F(EndedConnectionsTest, AreFoundOnceAlthoughNobodyReads) {
  const auto first = connect();
  const auto second = connect();
  ended_.watch(first[0], 1);
  ended_.watch(second[0], 2);
  EXPECT_TRUE(ended_.take().empty());
  EXPECT_EQ(::send(first[1], "bytes", 5, 0), 5);
  EXPECT_TRUE(ended_.take().empty());
  ::close(first[1]);
  EXPECT_EQ(ended_.take(), std::vector<std::uint64_t>{1});
  EXPECT_TRUE(ended_.take().empty());
  ::close(second[1]);
  EXPECT_EQ(ended_.take(), std::vector<std::uint64_t>{2});
  ::close(first[0]);
  ::close(second[0]);
}

TEST_F(EndedConnectionsTest, AreAllFoundAtOnce) {
  std::vector<std::uint64_t> all;
  std::vector<int> mine;
  for (std::uint64_t n = 0; n < 400; ++n) {
    const auto ends = connect();
    ended_.watch(ends[0], n);
    ::close(ends[1]);
    mine.push_back(ends[0]);
    all.push_back(n);
  }
  std::vector<std::uint64_t> found = ended_.take();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, all);
  for (const int one : mine) ::close(one);
}

TEST_F(EndedConnectionsTest, AreNotSocketsThatThisSideHasClosed) {
  const auto ends = connect();
  ended_.watch(ends[0], 1);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_TRUE(ended_.take().empty());
}

}  // namespace
}  // namespace c10dd::daemon
