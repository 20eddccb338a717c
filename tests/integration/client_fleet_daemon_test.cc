// SPDX-License-Identifier: Apache-2.0
// A client with several addresses, of which some are dead in one way or the other, finds the daemon
// soon.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/errors.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;

/// A listener that never accepts. The kernel completes connections for it while its backlog has
/// room, so they stay silent; then it drops what comes, as a machine does that is gone.
class DeadListener {
 public:
  enum class Kind { silent, black_hole };

  explicit DeadListener(Kind kind) {
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* address = reinterpret_cast<sockaddr*>(&at);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(sockets_[0], address, size), 0);
    EXPECT_EQ(::listen(sockets_[0], kind == Kind::silent ? 64 : 0), 0);
    EXPECT_EQ(::getsockname(sockets_[0], address, &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    // Connections that do not block: those that find room fill the backlog.
    for (int i = 0; kind == Kind::black_hole && i < 4; ++i) {
      sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      static_cast<void>(::connect(sockets_.back(), address, size));
    }
  }
  ~DeadListener() {
    for (const int socket : sockets_) ::close(socket);
  }
  DeadListener(const DeadListener&) = delete;

  const std::string& address() const { return address_; }

 private:
  std::vector<int> sockets_;
  std::string address_;
};

class ClientFleetDaemon : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }

  /// Connects several clients, which begin at random addresses, until one has needed `least`.
  /// Returns the longest time.
  std::chrono::nanoseconds slowest_connect(const std::string& dead, std::chrono::seconds least) {
    std::chrono::nanoseconds slowest{0};
    for (int i = 0; i < 8 || (slowest < least && i < 40); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const auto client = Client::connect("c10dd://" + dead + "," + daemon_.address() + "/job");
      slowest =
          std::max<std::chrono::nanoseconds>(slowest, std::chrono::steady_clock::now() - begin);
      EXPECT_EQ(client->address(), daemon_.address());
      client->store()->set("k", "v");
    }
    return slowest;
  }

  test::DaemonProcess daemon_{"memory:"};
};

TEST_F(ClientFleetDaemon, ARefusedConnectionCostsNothing) {
  const test::ReservedPort nobody;
  EXPECT_LT(slowest_connect(nobody.address(), 0s), 500ms);
}

TEST_F(ClientFleetDaemon, AServerThatAcceptsAndStaysSilentIsLeftAfterOneSecond) {
  const DeadListener silent(DeadListener::Kind::silent);
  const auto slowest = slowest_connect(silent.address(), 1s);
  EXPECT_GE(slowest, 1s) << "no client began there";
  EXPECT_LE(slowest, 1500ms);
}

TEST_F(ClientFleetDaemon, AMachineThatIsGoneIsLeftAfterOneSecond) {
  const DeadListener gone(DeadListener::Kind::black_hole);
  const auto slowest = slowest_connect(gone.address(), 1s);
  EXPECT_GE(slowest, 1s) << "no client began there";
  EXPECT_LE(slowest, 1500ms);
}

TEST_F(ClientFleetDaemon, ASessionWhoseDaemonFallsSilentGoesOnElsewhere) {
  test::FaultyLink one(daemon_.address());
  test::FaultyLink two(daemon_.address());
  const auto client = Client::connect("c10dd://" + one.address() + "," + two.address() + "/job");
  client->store()->set("k", "v");
  const std::string before = client->address();
  test::FaultyLink& used = before == one.address() ? one : two;
  used.set(test::FaultyLink::Mode::lose_replies);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(client->store()->get("k", 10s), "v");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s) << "less than the ttl";
  EXPECT_NE(client->address(), before);
  EXPECT_EQ(client->stats().sessions_lost, 0u);
}

TEST_F(ClientFleetDaemon, TheErrorSaysWhichDaemonsWereTried) {
  const test::ReservedPort nobody;
  const test::ReservedPort nobody_else;
  ClientOptions options;
  options.timeout = 1s;
  std::string text;
  try {
    Client::connect("c10dd://" + nobody.address() + "," + nobody_else.address() + "/job", options);
  } catch (const TimedOut& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("the daemons at " + nobody.address() + ", " + nobody_else.address() +
                      " have not been reachable for"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(nobody_else.address() + ": connect: connection refused"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace c10dd
