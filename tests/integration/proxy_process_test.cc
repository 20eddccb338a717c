// SPDX-License-Identifier: Apache-2.0
// The node proxy in a process, between raw clients of PyTorch's TCPStore and the real daemon: what
// it counts, what it says, and what a forked child keeps of it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/proxy/proxy.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/client/store_client.h"
#include "tests/unit/comes_true.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using tcpstore::Query;

using test::comes_true;
using test::StoreClient;

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
    StoreClient waiter(proxy.port());
    StoreClient other(proxy.port());
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
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<StoreClient>(proxy.port()));
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
  StoreClient client(proxy->port());
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
