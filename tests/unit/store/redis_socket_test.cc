// SPDX-License-Identifier: Apache-2.0
// The sockets to a Redis server: a server that is absent, silent, slow, or closes; and that no
// descriptor is left open.
#include "store/redis/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <filesystem>
#include <set>

#include "tests/integration/reserved_port.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/fake_server.h"

namespace c10dd::store {
namespace {

using namespace std::chrono_literals;
using test::FakeReply;
using test::FakeRequest;

std::set<int> open_descriptors() {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    all.insert(std::stoi(entry.path().filename().string()));
  }
  std::erase_if(all, [](int number) { return ::fcntl(number, F_GETFD) < 0; });  // the iterator's
  return all;
}

/// Takes lines. A line is its own name.
std::optional<FakeRequest> take_line(std::string& in) {
  const std::size_t end = in.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const FakeRequest line{in.substr(0, end), ""};
  in.erase(0, end + 1);
  return line;
}

/// A listener that never accepts, whose queue a test can fill.
class DeafListener {
 public:
  DeafListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const any = reinterpret_cast<sockaddr*>(&at);
    EXPECT_EQ(::bind(socket_, any, size), 0);
    EXPECT_EQ(::listen(socket_, 0), 0);
    EXPECT_EQ(::getsockname(socket_, any, &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~DeafListener() { ::close(socket_); }
  DeafListener(const DeafListener&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

class RedisSocketTest : public testing::Test {
 protected:
  static std::uint16_t port_of(const test::FakeServer& server) {
    return static_cast<std::uint16_t>(std::stoul(server.address().substr(10)));
  }
  static std::string detail(const Result<void>& result) {
    return result ? "no error" : result.error().detail;
  }
  static std::string received(RedisSocket& socket, std::size_t bytes = 100) {
    std::string into(bytes, '\0');
    const Result<std::size_t> got = socket.receive(into);
    return got ? into.substr(0, *got) : "failed: " + got.error().detail;
  }
};

TEST_F(RedisSocketTest, AnAbsentServerIsNamedAndLeavesNoDescriptor) {
  const test::ReservedPort port;
  const std::set<int> before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    const Result<RedisSocket> socket = RedisSocket::connect("127.0.0.1", port.number(), 10s);
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code, Code::unavailable);
    EXPECT_EQ(socket.error().detail, "Connection refused");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(RedisSocketTest, AnAddressThatIsNoneIsNamed) {
  const Result<RedisSocket> socket = RedisSocket::connect("127.0.0.1.2.3", 1, 10s);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, Code::unavailable);
  EXPECT_NE(socket.error().detail, "Success");
}

TEST_F(RedisSocketTest, AServerThatTakesNoConnectionEndsWithThePatience) {
  const DeafListener listener;
  const std::set<int> before = open_descriptors();
  std::vector<RedisSocket> queued;  // until the queue of the listener is full
  Failure refused;
  while (refused.detail.empty() && queued.size() < 100) {
    Result<RedisSocket> socket = RedisSocket::connect("127.0.0.1", listener.port(), 30ms);
    if (socket)
      queued.push_back(std::move(*socket));
    else
      refused = socket.error();
  }
  EXPECT_EQ(refused.code, Code::unavailable);
  EXPECT_EQ(refused.detail, "cannot connect within 0.03 s");
  queued.clear();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(RedisSocketTest, SendsAtOnceAndNoticesADeadHost) {
  const DeafListener listener;
  const std::set<int> before = open_descriptors();
  const Result<RedisSocket> socket = RedisSocket::connect("127.0.0.1", listener.port(), 1500ms);
  ASSERT_TRUE(socket) << socket.error().detail;
  std::set<int> made = open_descriptors();
  for (const int old : before) made.erase(old);
  ASSERT_EQ(made.size(), 1U);
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(*made.begin(), level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_LE(option(IPPROTO_TCP, TCP_KEEPIDLE) +
                option(IPPROTO_TCP, TCP_KEEPINTVL) * option(IPPROTO_TCP, TCP_KEEPCNT),
            30)
      << "seconds until a host is known to be dead";
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 1500);
  EXPECT_NE(::fcntl(*made.begin(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(RedisSocketTest, TwoToTwoServersGetTheirOwnBytesAndCloseAlone) {
  test::FakeServer one(take_line,
                       [](const FakeRequest& asked) { return FakeReply{"1" + asked.name}; });
  test::FakeServer two(take_line,
                       [](const FakeRequest& asked) { return FakeReply{"2" + asked.name}; });
  auto first = RedisSocket::connect("127.0.0.1", port_of(one), 60s);
  auto second = RedisSocket::connect("127.0.0.1", port_of(two), 60s);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->send("a\n"));
  EXPECT_TRUE(second->send("b\n"));
  EXPECT_EQ(received(*second), "2b");
  EXPECT_EQ(received(*first), "1a");
  {
    const RedisSocket moved = std::move(*first);
    EXPECT_EQ(one.open_connections(), 1);
  }
  EXPECT_TRUE(test::comes_true([&] { return one.open_connections() == 0; }));
  EXPECT_TRUE(second->send("c\n"));
  EXPECT_EQ(received(*second), "2c");
  EXPECT_EQ(two.open_connections(), 1);
}

TEST_F(RedisSocketTest, SilenceEndsWithThePatienceAndALateReplyIsStillThere) {
  test::FakeServer server(take_line, [](const FakeRequest&) { return FakeReply{"", {}, "late"}; });
  auto socket = RedisSocket::connect("127.0.0.1", port_of(server), 20ms);
  ASSERT_TRUE(socket);
  EXPECT_TRUE(socket->send("a\n"));
  EXPECT_EQ(received(*socket), "failed: no reply within 0.02 s");
  EXPECT_TRUE(test::comes_true([&] { return server.held() == 1; }));
  server.release();
  std::string got;
  EXPECT_TRUE(test::comes_true([&] { return (got = received(*socket, 2)) == "la"; })) << got;
  EXPECT_EQ(received(*socket), "te");
}

TEST_F(RedisSocketTest, SaysThatTheServerHasClosed) {
  test::FakeServer server(take_line, [](const FakeRequest&) {
    return FakeReply{"half", FakeReply::Then::close};
  });
  auto socket = RedisSocket::connect("127.0.0.1", port_of(server), 60s);
  ASSERT_TRUE(socket);
  EXPECT_TRUE(socket->send("a\n"));
  EXPECT_EQ(received(*socket), "half");
  EXPECT_EQ(received(*socket), "failed: the server closed the connection");
  // The kernel of the server resets the connection after the next bytes; no signal is raised.
  std::string sent;
  EXPECT_TRUE(test::comes_true([&] {
    sent = detail(socket->send("b\n"));
    return sent != "no error";
  }));
  EXPECT_TRUE(sent == "Broken pipe" || sent == "Connection reset by peer") << sent;
}

TEST_F(RedisSocketTest, SendsMoreThanTheKernelTakesAtOnceInOrder) {
  std::string all;
  while (all.size() < 8'000'000) all += std::to_string(all.size()) + " ";
  std::string came;  // by the only thread of the server that serves
  test::FakeServer server(
      [&](std::string& in) -> std::optional<FakeRequest> {
        came += in;
        in.clear();
        if (!came.ends_with('\n')) return std::nullopt;
        return FakeRequest{"all", ""};
      },
      [](const FakeRequest&) {
        return FakeReply{"ok", FakeReply::Then::close};
      },
      4096);
  auto socket = RedisSocket::connect("127.0.0.1", port_of(server), 60s);
  ASSERT_TRUE(socket);
  EXPECT_EQ(detail(socket->send(all + "\n")), "no error");
  EXPECT_EQ(received(*socket), "ok");
  EXPECT_TRUE(test::comes_true([&] { return server.open_connections() == 0; }));
  EXPECT_TRUE(came == all + "\n") << came.size() << " bytes of " << all.size();
}

TEST_F(RedisSocketTest, AServerThatDoesNotReadEndsASend) {
  const DeafListener listener;
  auto socket = RedisSocket::connect("127.0.0.1", listener.port(), 30ms);
  ASSERT_TRUE(socket);
  std::string much;
  much.resize(32'000'000, 'x');
  const Result<void> sent = socket->send(much);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::unavailable);
  EXPECT_TRUE(sent.error().detail == "no reply within 0.03 s" ||
              sent.error().detail == "Connection timed out")  // the kernel was faster
      << sent.error().detail;
}

}  // namespace
}  // namespace c10dd::store
