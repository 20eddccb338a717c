// SPDX-License-Identifier: Apache-2.0
// New endpoints: two have settings of their own, their ports are free, their connections are
// counted, and what is refused or closed is given back.
#include "daemon/net/endpoint_listeners.h"

#include <gtest/gtest.h>

#include <boost/asio/write.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/daemon/endpoint_world.h"
#include "tests/unit/daemon/samples.h"

namespace c10dd::daemon {
namespace {

using asio::ip::tcp;
using EndpointListenersTest = EndpointWorld;

TEST_F(EndpointListenersTest, TwoHaveSettingsOfTheirOwn) {
  daemon_.options.listen_port = 4711;
  const auto first = open(endpoint("digits", "a", 0, "r1"));
  const auto second = open(endpoint("letters", "a"));
  ASSERT_NE(first.port, 0);
  ASSERT_NE(second.port, 0);
  EXPECT_NE(first.port, second.port);
  EXPECT_EQ(listeners_->host(), own_host());
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[0].tcpstore_job, "digits");
  EXPECT_EQ(asked_[0].tcpstore_run, "r1");
  EXPECT_EQ(asked_[1].tcpstore_job, "letters");
  EXPECT_EQ(asked_[1].tcpstore_run, "");
  for (const ListenerSettings& settings : asked_) {
    EXPECT_EQ(settings.host, own_host());
    EXPECT_EQ(settings.port, 0);
    EXPECT_TRUE(settings.protocols.has(Protocol::tcpstore));
    EXPECT_FALSE(settings.protocols.has(Protocol::native));
    EXPECT_FALSE(settings.protocols.has(Protocol::http));
    EXPECT_EQ(settings.legacy, tcpstore::LegacyClients::l1) << "as the options have it";
  }
  EXPECT_EQ(places(), kPlaces - 2);
}

TEST_F(EndpointListenersTest, ServesNothingButTcpStore) {
  const auto one = open(endpoint("digits", "a"));
  tcp::socket http(outside_);
  http.connect({asio::ip::make_address(own_host()), one.port});
  asio::write(http, asio::buffer(std::string(kGet)));
  http.non_blocking(true);
  EXPECT_TRUE(is_ended(http));
  EXPECT_EQ(daemon_.closed("unknown", "refused"), 1);
  EXPECT_EQ(listeners_->connections(one), 0u);
  EXPECT_TRUE(use(one));
}

TEST_F(EndpointListenersTest, CountsTheConnectionsOfEach) {
  const auto first = open(endpoint("digits", "a"));
  const auto second = open(endpoint("digits", "b"));
  ASSERT_TRUE(use(first));
  ASSERT_TRUE(use(first));
  EXPECT_FALSE(listeners_->in_use(second));
  ASSERT_TRUE(use(second));
  EXPECT_EQ(listeners_->connections(first), 2u);
  EXPECT_EQ(listeners_->connections(second), 1u);
  EXPECT_EQ(places(), kPlaces - 5);
  leave(0);
  EXPECT_TRUE(daemon_.turn_until([&] { return listeners_->connections(first) == 1; }));
  EXPECT_TRUE(listeners_->in_use(first));
  leave(1);
  EXPECT_TRUE(daemon_.turn_until([&] { return !listeners_->in_use(first); }));
  EXPECT_TRUE(listeners_->in_use(second));
  EXPECT_EQ(listeners_->connections(endpoint("digits", "c")), 0u);
  EXPECT_EQ(listeners_->connections(endpoint("letters", "a")), 0u) << "of another job";
}

TEST_F(EndpointListenersTest, ClosedOneIsNotReachedAndItsConnectionsGoOn) {
  const auto first = open(endpoint("digits", "a"));
  const auto second = open(endpoint("digits", "b"));
  ASSERT_TRUE(use(first));
  ASSERT_TRUE(connect(first.port)) << "it waits to be accepted";
  listeners_->close(first, "released");
  EXPECT_FALSE(connect(first.port));
  EXPECT_TRUE(is_ended(clients_[1]));
  EXPECT_EQ(places(), kPlaces - 2) << "a listener and a connection";
  asio::write(clients_[0], asio::buffer(traces::bytes_of("0D 17640000")));
  Bytes replies(8, '\0');
  EXPECT_TRUE(daemon_.turn_until([&] { return clients_[0].available() == replies.size(); }));
  EXPECT_TRUE(use(second));
  listeners_->close(first, "released");  // again: there is none
  EXPECT_TRUE(use(second));
  PortHolder others(first.port);  // the port is free
}

TEST_F(EndpointListenersTest, TwoThatAreClosedBeforeTheLoopTurnsServeNobody) {
  const auto first = open(endpoint("digits", "a"));
  const auto second = open(endpoint("digits", "b"));
  ASSERT_TRUE(connect(first.port));
  listeners_->close(first, "withdrawn");
  listeners_->close(second, "withdrawn");
  EXPECT_EQ(places(), kPlaces);
  EXPECT_TRUE(is_ended(clients_[0]));
  EXPECT_EQ(daemon_.open("tcpstore"), 0);
}

TEST_F(EndpointListenersTest, FullDaemonOpensNoneUntilThereIsAPlace) {
  std::vector<Ticket> taken;
  while (places() > 1) taken.push_back(*admission_.enter_own());
  const auto first = open(endpoint("digits", "a"));
  ASSERT_NE(first.port, 0);
  for (int round = 0; round < 33; ++round) {
    EXPECT_EQ(open(endpoint("digits", "b")).port, 0);
    EXPECT_EQ(refused_.code, Code::quota_exceeded);
    EXPECT_EQ(asked_.size(), 1u) << "no socket was opened";
  }
  listeners_->close(first, "released");
  EXPECT_NE(open(endpoint("digits", "b")).port, 0);
  EXPECT_EQ(places(), 0u);
}

// ---- the choice of a port ----------------------------------------------------------------------

TEST_F(EndpointListenersTest, TakesTheLowestPortOfTheRangeThatIsFree) {
  const std::uint16_t low = three_free_ports();
  const std::uint16_t high = low + 2;
  daemon_.options.endpoint_ports = PortRange{low, high};
  std::optional<PortHolder> process(low);
  core::Endpoints leased(100);
  Rows rows;
  leased.put(endpoint("letters", "x", low + 1), TimePoint(), rows);  // of another daemon
  const auto first = open(endpoint("digits", "a"), leased);
  EXPECT_EQ(first.port, high) << refused_.detail;
  for (int round = 0; round < 33; ++round) {
    EXPECT_EQ(open(endpoint("digits", "b"), leased).port, 0);
    EXPECT_EQ(refused_.code, Code::quota_exceeded);
  }
  EXPECT_NE(refused_.detail.find("of the 3 ports of --endpoint-ports " + std::to_string(low) + "-" +
                                 std::to_string(high) + ", 1 are leased and 2 are used by"),
            std::string::npos)
      << refused_.detail;
  EXPECT_EQ(places(), kPlaces - 1) << "a refusal keeps nothing";
  process.reset();
  EXPECT_EQ(open(endpoint("digits", "b"), leased).port, low);
  EXPECT_TRUE(use(first));
  listeners_->close(first, "released");
  EXPECT_EQ(open(endpoint("digits", "c"), leased).port, high) << "it is free again";
}

TEST_F(EndpointListenersTest, RangeOfOnePort) {
  const std::uint16_t port = three_free_ports();
  daemon_.options.endpoint_ports = PortRange{port, port};
  const auto only = open(endpoint("digits", "a"));
  EXPECT_EQ(only.port, port);
  EXPECT_EQ(asked_.at(0).port, port);
  EXPECT_EQ(open(endpoint("digits", "b")).port, 0);
  EXPECT_TRUE(use(only)) << "the refusal did not close it";
}

TEST_F(EndpointListenersTest, HostOfAnotherMachineIsNoMatterOfPorts) {
  listen_on("203.0.113.1");
  EXPECT_EQ(open(endpoint("digits", "a")).port, 0);
  EXPECT_EQ(refused_.code, Code::unavailable);
  daemon_.options.endpoint_ports = PortRange{20'000, 20'001};
  EXPECT_EQ(open(endpoint("digits", "a")).port, 0);
  EXPECT_EQ(refused_.code, Code::unavailable);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(EndpointListenersTest, PortThatTheKernelOffersMayBeLeasedByAnother) {
  core::Endpoints all(100'000);
  Rows rows;
  unsigned low = 1'024;
  unsigned high = 65'535;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  for (unsigned port = low; port <= high; ++port) {
    all.put(endpoint("letters", std::to_string(port), static_cast<std::uint16_t>(port)),
            TimePoint(), rows);
  }
  EXPECT_EQ(open(endpoint("digits", "a"), all).port, 0);
  EXPECT_EQ(refused_.code, Code::unavailable);
  EXPECT_EQ(places(), kPlaces);
  for (const ListenerSettings& settings : asked_) EXPECT_EQ(settings.port, 0);
  EXPECT_GT(asked_.size(), 1u) << "it asks for another one";
}

}  // namespace
}  // namespace c10dd::daemon
