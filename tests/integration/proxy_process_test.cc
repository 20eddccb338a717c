// SPDX-License-Identifier: Apache-2.0
// The node proxy in a process, between raw clients of PyTorch's TCPStore and the real daemon: what
// it counts, what it says, and what a forked child keeps of it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/internal/socket.h"
#include "client/proxy/proxy.h"
#include "protocol/tcpstore_wire.h"
#include "tests/integration/daemon_process.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using tcpstore::Query;

/// A client of the newest PyTorch.
class Local {
 public:
  explicit Local(const proxy::Proxy& proxy) {
    auto made = client::dial("127.0.0.1:" + std::to_string(proxy.port()), -1, 5s);
    if (made) socket_ = std::move(*made);
    send({.query = Query::validate, .number = tcpstore::kMagic});
  }
  void send(const tcpstore::Message& message) {
    Bytes out;
    encode_message(out, tcpstore::Dialect::v, message);
    EXPECT_EQ(::send(socket_.get(), out.data(), out.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(out.size()));
  }
  /// Returns the bytes that come within 10 s, at most so many; fewer at the end of the connection.
  Bytes receive(std::size_t bytes) {
    Bytes in;
    pollfd polled{socket_.get(), POLLIN, 0};
    while (in.size() < bytes && poll(&polled, 1, 10'000) > 0) {
      char part[64];
      const ssize_t n = ::recv(socket_.get(), part, std::min(bytes - in.size(), sizeof part), 0);
      if (n <= 0) break;
      in.append(part, static_cast<std::size_t>(n));
    }
    return in;
  }
  /// Returns whether the other end closes the connection within 10 s, with nothing sent before.
  bool ends() {
    pollfd polled{socket_.get(), POLLIN, 0};
    char byte = 0;
    return poll(&polled, 1, 10'000) > 0 && ::recv(socket_.get(), &byte, 1, 0) == 0;
  }
  void add(std::string_view key) {
    send({.query = Query::add, .key = key, .number = 1});
    EXPECT_EQ(receive(8).size(), 8u);
  }

 private:
  client::Descriptor socket_;
};

bool comes_true(const std::function<bool()>& what) {
  for (int i = 0; i < 1000; ++i) {
    if (what()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

class ProxyProcess : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }

  proxy::ProxySettings settings() {
    return {.daemons = {daemon_.address()},
            .job = "job",
            .run = "run",
            .host = "node",
            .say = [this](const std::string& line) {
              const std::lock_guard lock(mutex_);
              said_ += line + "\n";
            }};
  }
  std::string said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

  test::DaemonProcess daemon_{"memory:"};
  std::mutex mutex_;
  std::string said_;
};

TEST_F(ProxyProcess, CountsWhoWaitsAndWhatHasNoReply) {
  const proxy::Proxy proxy(settings());
  {
    Local waiter(proxy);
    Local other(proxy);
    other.add("n");
    waiter.send({.query = Query::wait, .keys = {"never"}});
    EXPECT_TRUE(comes_true([&] { return proxy.counts().waits == 1; }));
    const proxy::ProxyCounts counts = proxy.counts();
    EXPECT_EQ(counts.clients, 2u);
    EXPECT_EQ(counts.accepted, 2u);
    EXPECT_EQ(counts.unanswered, 1u);
  }
  EXPECT_TRUE(comes_true([&] { return proxy.counts().clients == 0; }));
  EXPECT_EQ(proxy.counts().closed, 0u);
}

TEST_F(ProxyProcess, SaysAnAbsenceOnceForAllClientsAndWhyOneWasClosed) {
  const proxy::Proxy proxy(settings());
  std::vector<std::unique_ptr<Local>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Local>(proxy));
    clients.back()->add("n");
  }
  daemon_.stop(SIGKILL);
  const auto absences = [&] {
    std::size_t count = 0;
    const std::string text = said();
    for (std::size_t at = 0; (at = text.find("; the clients wait", at)) != std::string::npos;
         ++at) {
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(comes_true([&] { return absences() > 0; }));
  daemon_.start();  // without its state
  EXPECT_TRUE(comes_true([&] { return proxy.counts().closed == clients.size(); })) << said();
  EXPECT_EQ(absences(), 1u) << said();
  EXPECT_NE(said().find("proxy: closed the connection of a client: "), std::string::npos) << said();
}

TEST_F(ProxyProcess, AForkedChildKeepsNoConnectionOpen) {
  auto proxy = std::make_unique<proxy::Proxy>(settings());
  Local client(*proxy);
  client.add("n");
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  proxy.reset();
  EXPECT_TRUE(client.ends()) << "the child holds the other end";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace c10dd
