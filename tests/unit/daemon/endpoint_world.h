// SPDX-License-Identifier: Apache-2.0
// Listeners of endpoints over a small daemon and real sockets, on an address that no other process
// has. At the end of a test all places must be free.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/write.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/http/http_session.h"
#include "daemon/net/endpoint_listeners.h"
#include "daemon/net/native_session.h"
#include "daemon/net/tcpstore_session.h"
#include "tests/unit/daemon/fake_operations.h"
#include "tests/unit/daemon/listener_ports.h"
#include "tests/unit/daemon/small_daemon.h"
#include "tests/unit/protocol/tcpstore_traces.h"

namespace c10dd::daemon {

class EndpointWorld : public testing::Test {
 protected:
  static constexpr std::size_t kPlaces = 12;
  static constexpr std::chrono::milliseconds kRetry{5};

  void SetUp() override { listen_on(own_host()); }

  /// Recounts: without listeners and clients, all places are free.
  void TearDown() override {
    listeners_.reset();
    clients_.clear();
    EXPECT_TRUE(daemon_.turn_until([&] { return places() == kPlaces; })) << places();
  }

  static Options settings() {
    Options options;
    options.max_connections = kPlaces;
    options.listen_host = "127.0.0.1";
    options.tcpstore_job = "main";
    options.tcpstore_legacy = tcpstore::LegacyClients::l1;
    return options;
  }
  void listen_on(const std::string& host) {
    listeners_.reset();
    listeners_.emplace(
        EndpointListeners::Daemon{daemon_.loop, daemon_.options, admission_, daemon_.context,
                                  directory(),
                                  [this](const ListenerSettings& settings, auto count) {
                                    asked_.push_back(settings);
                                    return protocols(settings, std::move(count));
                                  }},
        host, kRetry);
  }
  Protocols protocols(const ListenerSettings& settings,
                      std::function<std::shared_ptr<const void>()> count) {
    auto runs = std::make_shared<FixedRun>("run-1");
    auto listener = std::make_shared<TcpStoreListener>(daemon_.context, settings, std::move(runs),
                                                       std::move(count));
    return Protocols({native_protocol(daemon_.context), http_protocol(daemon_.context, operations_),
                      tcpstore_protocol(std::move(listener))});
  }
  core::DirectoryHost& directory() { return daemon_.host.directory(); }

  /// Makes this daemon one of two, whose other one has this address.
  void join(const std::string& other) {
    core::FleetView fleet(1, std::chrono::seconds(2));
    fleet.read({{{1, {"127.0.0.1:1"}, "", std::chrono::seconds(2)}, 1},
                {{2, {other}, "", std::chrono::seconds(2)}, 1}},
               core::SteadyTime());
    directory().join_fleet(std::move(fleet));
  }

  static core::Endpoint endpoint(const std::string& job, const std::string& name,
                                 std::uint16_t port = 0, const std::string& run = "") {
    return {job, name, port, run, std::chrono::hours(1)};
  }
  /// Opens the listener of a new endpoint. Returns the endpoint with its port; 0: refused.
  core::Endpoint open(core::Endpoint endpoint, const core::Endpoints& leased) {
    const Result<std::uint16_t> port = listeners_->open(endpoint, leased);
    refused_ = port ? Failure{} : port.error();
    endpoint.port = port ? *port : 0;
    return endpoint;
  }
  core::Endpoint open(const core::Endpoint& endpoint) { return open(endpoint, none_); }

  /// Connects, as PyTorch does, and returns whether somebody listens.
  bool connect(std::uint16_t port, const std::string& host = own_host()) {
    asio::ip::tcp::socket socket(outside_);
    ErrorCode failed;
    socket.connect({asio::ip::make_address(host), port}, failed);
    if (failed) return false;
    asio::write(socket, asio::buffer(traces::bytes_of("00 CEF7853C 0D 16640000")));
    socket.non_blocking(true);
    clients_.push_back(std::move(socket));
    return true;
  }
  /// Connects to an endpoint, and waits until the connection counts.
  bool use(const core::Endpoint& endpoint) {
    const std::size_t before = listeners_->connections(endpoint);
    return connect(endpoint.port) &&
           daemon_.turn_until([&] { return listeners_->connections(endpoint) == before + 1; });
  }
  void leave(std::size_t client) { clients_.at(client).close(); }
  bool is_ended(asio::ip::tcp::socket& socket) {
    char byte = 0;
    ErrorCode failed;
    return daemon_.turn_until([&] {
      const std::size_t n = socket.read_some(asio::buffer(&byte, 1), failed);
      return n == 0 && failed != asio::error::would_block;
    });
  }

  /// Returns how many more connections and listeners are admitted.
  std::size_t places() {
    std::vector<Ticket> tickets;
    for (auto one = admission_.enter_own(); one; one = admission_.enter_own()) {
      tickets.push_back(std::move(*one));
    }
    return tickets.size();
  }

  SmallDaemon daemon_{1, settings()};
  FakeOperations operations_;
  Admission admission_{daemon_.options};
  const core::Endpoints none_{100};
  std::vector<ListenerSettings> asked_;
  std::optional<EndpointListeners> listeners_;
  Failure refused_;
  asio::io_context outside_;
  std::vector<asio::ip::tcp::socket> clients_;
};

}  // namespace c10dd::daemon
