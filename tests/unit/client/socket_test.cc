// SPDX-License-Identifier: Apache-2.0
// The client's TCP connections, to a listener of the test.
#include "client/internal/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "client/client.h"
#include "client/errors.h"
#include "tests/unit/dead_peer.h"

namespace c10dd::client {
namespace {

using std::chrono::seconds;

class DialTest : public testing::Test {
 protected:
  DialTest() : interrupt_(eventfd(0, EFD_CLOEXEC)) {
    server_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    auto* address = reinterpret_cast<sockaddr*>(&any);
    EXPECT_EQ(bind(server_.get(), address, size), 0);
    EXPECT_EQ(getsockname(server_.get(), address, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(any.sin_port));
  }

  Result<Descriptor> dial() { return client::dial(address_, interrupt_.get(), seconds(5)); }

  Descriptor interrupt_;
  Descriptor server_;
  std::string address_;
};

TEST_F(DialTest, ConnectionDetectsADeadPeer) {
  ASSERT_EQ(listen(server_.get(), 1), 0);
  const Result<Descriptor> socket = dial();
  ASSERT_TRUE(socket) << socket.error().detail;
  expect_detects_dead_peer(socket->get());
}

TEST_F(DialTest, TellsAClosedPortFromOtherFailures) {
  EXPECT_EQ(dial().error().code, Code::not_found);  // bound, but not listening
  EXPECT_EQ(client::dial("127.0.0.1", interrupt_.get(), seconds(5)).error().code,
            Code::invalid_argument);
}

TEST_F(DialTest, StopsWhenItIsInterrupted) {
  // A listener with a full backlog does not accept: connecting blocks.
  ASSERT_EQ(listen(server_.get(), 0), 0);
  const Result<Descriptor> first = dial();
  ASSERT_TRUE(first);
  ASSERT_EQ(eventfd_write(interrupt_.get(), 1), 0);
  const auto start = std::chrono::steady_clock::now();
  const Result<Descriptor> second = dial();
  EXPECT_FALSE(second);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4));
}

TEST_F(DialTest, ConnectSaysThatTheServerClosesEachConnection) {
  ASSERT_EQ(listen(server_.get(), 16), 0);
  std::thread server([this] {
    int fd = -1;
    while ((fd = accept4(server_.get(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0) {
      // Unread bytes would turn the close into a reset.
      char hello[4096];
      static_cast<void>(recv(fd, hello, sizeof hello, 0));
      close(fd);
    }
  });
  ClientOptions options;
  options.timeout = seconds(1);
  try {
    Client::connect("c10dd://" + address_ + "/job", options);
    ADD_FAILURE() << "connected to a server that is no daemon";
  } catch (const TimedOut& error) {
    EXPECT_NE(std::string(error.what()).find("closed the connection"), std::string::npos)
        << error.what();
  }
  shutdown(server_.get(), SHUT_RDWR);
  server.join();
}

TEST(DescriptorTest, TheFirstNumberIsOneToo) {
  const int kept = ::dup(STDIN_FILENO);
  ASSERT_GE(kept, 0);
  ::close(STDIN_FILENO);  // as a daemon's children have it
  {
    const Descriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(first.get(), 0);
    EXPECT_TRUE(first);
  }
  EXPECT_FALSE(Descriptor());
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

}  // namespace
}  // namespace c10dd::client
