// SPDX-License-Identifier: Apache-2.0
// Binding, accepting and admitting, over local sockets; and --checkpoint, which is a client of such
// a listener.
#include "daemon/net/listener.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "daemon/checkpoint_request.h"
#include "daemon/http/http_session.h"
#include "daemon/net/native_session.h"
#include "daemon/net/port_user.h"
#include "protocol/native_wire.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/samples.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/daemon/tcpstore_entry.h"
#include "tests/unit/dead_peer.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;

class ListenerTest : public testing::Test {
 protected:
  void start() {
    admission_ = std::make_unique<Admission>(daemon_.options);
    listener_ = std::make_unique<Listener>(daemon_.loop, at("127.0.0.1", 0), *admission_);
    ASSERT_TRUE(listener_->open());
    listener_->serve(daemon_.context, Protocols({native_protocol(daemon_.context),
                                                 http_protocol(daemon_.context, operations_),
                                                 tcpstore_entry(daemon_.context)}));
  }

  static ListenerSettings at(const std::string& host, std::uint16_t port) {
    ListenerSettings settings;
    settings.host = host;
    settings.port = port;
    return settings;
  }

  std::uint16_t port() const {
    const std::string address = listener_->address();
    EXPECT_TRUE(address.starts_with("127.0.0.1:")) << address;
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

  tcp::socket connect() {
    tcp::socket socket(clients_);
    socket.connect({asio::ip::address_v4::loopback(), port()});
    socket.non_blocking(true);
    return socket;
  }

  /// Reads until this text has come, or the end. Returns what was read.
  std::string read(tcp::socket& socket, const std::string& until) {
    std::string text;
    ErrorCode failed;
    EXPECT_TRUE(daemon_.turn_until([&] {
      std::array<char, 4096> buffer;
      const std::size_t n = socket.read_some(asio::buffer(buffer), failed);
      text.append(buffer.data(), n);
      const bool over = failed && failed != asio::error::would_block;
      return over || (!until.empty() && text.ends_with(until));
    }));
    return text;
  }

  std::string ask(tcp::socket& socket, const std::string& bytes, const std::string& until) {
    asio::write(socket, asio::buffer(bytes));
    return read(socket, until);
  }

  SmallDaemon daemon_;
  FakeOperations operations_;
  asio::io_context clients_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<Listener> listener_;
};

/// Returns the descriptor of this process whose peer has this port, -1 if there is none.
int accepted_from(std::uint16_t port) {
  for (int fd = 0; fd < 1'024; ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        ntohs(peer.sin_port) == port) {
      return fd;
    }
  }
  return -1;
}

TEST_F(ListenerTest, BindsAllAddressesOfAName) {
  admission_ = std::make_unique<Admission>(daemon_.options);
  Listener listener(daemon_.loop, at("localhost", 0), *admission_);
  ASSERT_TRUE(listener.open());
  EXPECT_TRUE(listener.is_loopback());
  EXPECT_EQ(listener.name(), "localhost:" + std::to_string(listener.endpoint().port()));
  tcp::resolver resolver(clients_);
  for (const auto& one :
       resolver.resolve("localhost", std::to_string(listener.endpoint().port()))) {
    tcp::socket socket(clients_);
    ErrorCode failed;
    socket.connect(one.endpoint(), failed);
    if (failed == asio::error::address_family_not_supported) continue;  // no IPv6 here
    EXPECT_FALSE(failed) << one.endpoint() << ": " << failed.message();
  }
  EXPECT_TRUE(listener.address().starts_with("127.0.0.1:")) << "IPv4 first";
  // The port of one of them is taken: it is an error, and none of them stays bound.
  Listener second(daemon_.loop, at("localhost", listener.endpoint().port()), *admission_);
  EXPECT_EQ(second.open().error().code, Code::unavailable);
  EXPECT_TRUE(second.addresses().empty());
}

TEST_F(ListenerTest, AcceptedConnectionDetectsADeadPeer) {
  start();
  tcp::socket client = connect();
  const std::uint16_t port = client.local_endpoint().port();
  ASSERT_TRUE(daemon_.turn_until([&] { return accepted_from(port) >= 0; }));
  expect_detects_dead_peer(accepted_from(port));
}

TEST_F(ListenerTest, ItsConnectionsOutliveIt) {
  start();
  tcp::socket served = connect();
  EXPECT_TRUE(ask(served, kGet, "ok\n").starts_with("HTTP/1.1 200 OK\r\n"));
  tcp::socket silent = connect();  // nobody knows its protocol yet
  daemon_.turn_a_while();
  const std::uint16_t before = port();
  listener_.reset();
  EXPECT_TRUE(ask(served, kGet, "ok\n").starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(ask(silent, kGet, "ok\n").starts_with("HTTP/1.1 200 OK\r\n"));
  tcp::socket late(clients_);
  ErrorCode failed;
  late.connect({asio::ip::address_v4::loopback(), before}, failed);
  EXPECT_EQ(failed, asio::error::connection_refused);
}

TEST_F(ListenerTest, ServesBothProtocolsOnOnePort) {
  start();
  tcp::socket http = connect();
  EXPECT_TRUE(ask(http, kGet, "ok\n").starts_with("HTTP/1.1 200 OK\r\n"));
  tcp::socket native = connect();
  std::string bytes(native::kMagic);
  Hello hello;
  hello.session = {1, 1};
  hello.job = "digits";
  native::encode_request(bytes, {}, hello);
  asio::write(native, asio::buffer(bytes));
  std::string reply(native::ReplyHeader::kSize, '\0');
  ErrorCode failed;
  EXPECT_TRUE(daemon_.turn_until([&] { return native.available(failed) >= reply.size(); }));
  EXPECT_EQ(asio::read(native, asio::buffer(reply)), reply.size());
  EXPECT_EQ(reply[4], static_cast<char>(Hello::op.code));
  EXPECT_EQ(daemon_.open("native") + daemon_.open("http"), 2);
}

TEST_F(ListenerTest, OneThatIsTooManyIsToldInItsWords) {
  daemon_.options.max_connections = 1;
  start();
  tcp::socket first = connect();
  EXPECT_FALSE(ask(first, kGet, "ok\n").empty());
  tcp::socket second = connect();
  const std::string refused = ask(second, kGet, "");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n")) << refused;
  EXPECT_NE(refused.find("too many connections: 2 with this one, limit 1; raise --max-connections"),
            std::string::npos);
  first.close();
  EXPECT_TRUE(daemon_.turn_until([&] { return daemon_.closed("http", "peer") == 1; }));
  tcp::socket third = connect();
  EXPECT_FALSE(ask(third, kGet, "ok\n").empty()) << "there is a place again";
}

TEST_F(ListenerTest, OneThatIsTooManyToBeToldIsClosed) {
  daemon_.options.max_connections = 1;
  start();
  std::vector<tcp::socket> all;
  while (daemon_.closed("unknown", "quota_exceeded") == 0) {
    ASSERT_LT(all.size(), limits::kSpareFiles);
    all.push_back(connect());
    daemon_.turn();
  }
  EXPECT_EQ(read(all.back(), ""), "");
}

TEST_F(ListenerTest, PortThatIsTakenIsNamed) {
  start();
  Listener second(daemon_.loop, at("127.0.0.1", port()), *admission_);
  const Result<void> refused = second.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_TRUE(
      refused.error().detail.starts_with("cannot listen on 127.0.0.1:" + std::to_string(port())));
  EXPECT_TRUE(refused.error().detail.ends_with(
      format(" (pid {}) listens there; stop it or choose another port with --listen", getpid())))
      << refused.error().detail;
}

TEST_F(ListenerTest, PortThatAConnectionHasIsNamed) {
  start();
  tcp::socket client = connect();
  ErrorCode failed;
  const std::uint16_t own = client.local_endpoint(failed).port();
  Listener second(daemon_.loop, at("127.0.0.1", own), *admission_);
  const Result<void> refused = second.open();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_NE(refused.error().detail.find("it is the local end of a connection of "),
            std::string::npos)
      << refused.error().detail;
  EXPECT_NE(refused.error().detail.find(
                format(" (pid {}) to 127.0.0.1:{}; end it, or choose a port", getpid(), port())),
            std::string::npos)
      << refused.error().detail;
}

TEST(PortSocket, IsFoundInTheTableOfTheKernel) {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0100007F:733C 0200000A:01BB 06 00000000:00000000 03:00000000 00000000     0        0 "
      "0 3 "
      "0000000000000000\n"
      "   1: 0100007F:733C 0200000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 "
      "41 "
      "1 0000000000000000\n"
      "   2: 00000000:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "42 "
      "1 0000000000000000\n"
      "   3: 0000000000000000FFFF00000100007F:733D 0000000000000000FFFF00000200000A:01BB 01 "
      "00000000:00000000 00:00000000 00000000 0 0 43 1 0\n";
  const auto connection = port_socket_in(table, 0x733c);
  ASSERT_TRUE(connection);
  EXPECT_FALSE(connection->listens);
  EXPECT_EQ(connection->peer, "10.0.0.2:443");
  EXPECT_EQ(connection->inode, 41u);
  const auto server = port_socket_in(table, 0x733d);
  ASSERT_TRUE(server);
  EXPECT_TRUE(server->listens) << "a server is named before its connections";
  EXPECT_EQ(server->inode, 42u);
  EXPECT_FALSE(port_socket_in(table, 80));
  EXPECT_FALSE(port_socket_in("x\n1: y z", 80));
}

TEST_F(ListenerTest, HostThatIsNoneOfThisMachineIsNamed) {
  const auto open = [&](const std::string& host) {
    Admission admission(daemon_.options);
    return Listener(daemon_.loop, at(host, 0), admission).open().error();
  };
  EXPECT_EQ(open(std::string(300, 'x')).code, Code::invalid_argument);
  const Failure elsewhere = open("203.0.113.1");
  EXPECT_EQ(elsewhere.code, Code::invalid_argument);
  EXPECT_TRUE(elsewhere.detail.ends_with("; give an address of this machine with --listen"));
}

TEST_F(ListenerTest, ClosedItAcceptsNoMore) {
  start();
  tcp::socket first = connect();
  EXPECT_FALSE(ask(first, kGet, "ok\n").empty());
  const std::uint16_t was = port();
  listener_->close();
  daemon_.turn_a_while();
  tcp::socket second(clients_);
  ErrorCode failed;
  second.connect({asio::ip::address_v4::loopback(), was}, failed);
  EXPECT_EQ(failed, asio::error::connection_refused);
  EXPECT_FALSE(ask(first, kGet, "ok\n").empty()) << "those that are there go on";
}

// ---- checkpoint --------------------------------------------------------------------------------

class CheckpointRequestTest : public ListenerTest {
 protected:
  struct Said {
    int code = -1;
    std::string out;
    std::string error;
  };

  /// Requests a checkpoint as a client, while the daemon turns. Returns the client's output.
  Said request(const std::string& path) {
    Options options = daemon_.options;
    options.listen = listener_ ? listener_->address() : "127.0.0.1:1";
    options.listen_host = "127.0.0.1";
    options.listen_port = listener_ ? port() : 1;
    Said said;
    std::atomic<bool> over = false;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::thread client([&] {
      said.code = request_checkpoint(options, path);
      over = true;
    });
    const bool ended = daemon_.turn_until([&] { return over.load(); });
    if (!ended) listener_->close();
    client.join();
    said.out = testing::internal::GetCapturedStdout();
    said.error = testing::internal::GetCapturedStderr();
    return said;
  }
};

TEST_F(CheckpointRequestTest, SaysWhereItWasWritten) {
  start();
  const Said said = request("/srv/copy");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, "checkpoint written to /srv/copy\n");
  EXPECT_EQ(request("copy").code, 0);
  EXPECT_EQ(operations_.asked,
            (std::vector<std::string>{"checkpoint /srv/copy",
                                      "checkpoint " + std::filesystem::absolute("copy").string()}));
}

TEST_F(CheckpointRequestTest, SaysWhyNotAndWhetherToTryAgain) {
  start();
  operations_.done = failure(Code::unsupported, "engine memory writes no checkpoint");
  Said said = request("/c");
  EXPECT_EQ(said.code, 64);
  EXPECT_EQ(said.error, "c10dd: engine memory writes no checkpoint\n");
  operations_.done = failure(Code::unavailable, "the engine is being reopened");
  said = request("/c");
  EXPECT_EQ(said.code, 75);
  EXPECT_EQ(said.error, "c10dd: the engine is being reopened\n");
}

TEST_F(CheckpointRequestTest, SaysThatNoDaemonAnswers) {
  const Said said = request("/c");
  EXPECT_EQ(said.code, 69);
  EXPECT_TRUE(said.error.starts_with("c10dd: checkpoint: no daemon answers HTTP at 127.0.0.1:1: "))
      << said.error;
}

}  // namespace
}  // namespace c10dd::daemon
