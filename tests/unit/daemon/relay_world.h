// SPDX-License-Identifier: Apache-2.0
// A daemon of a fleet of three, with a Relay. At the end of a test all its places must be free.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/net/relay.h"
#include "protocol/relay_frame.h"
#include "tests/unit/daemon/small_daemon.h"

namespace c10dd::daemon {

class RelayWorld : public testing::Test {
 protected:
  static constexpr std::size_t kPlaces = 16;
  static constexpr native::RelayKey kOwnKey{1, 11};

  void SetUp() override {
    daemon_.context.admission = &admission_;
    daemon_.context.relay = &relay_;
  }
  void TearDown() override {
    EXPECT_TRUE(daemon_.turn_until([&] { return places() == kPlaces; })) << places();
    EXPECT_TRUE(admission_.may_enter_tcpstore());
  }

  static Options settings() {
    Options options;
    options.max_connections = kPlaces;
    options.max_connections_per_address = 2;
    return options;
  }
  static store::DaemonRow row(std::uint64_t process, std::vector<std::string> addresses,
                              native::RelayKey key) {
    store::DaemonRow row;
    row.facts.process = process;
    row.facts.addresses = std::move(addresses);
    row.facts.lease = std::chrono::seconds(2);
    row.facts.relay_key = key;
    row.beats = 1;
    return row;
  }
  /// Makes this daemon a member of a fleet with these others.
  void join(std::vector<store::DaemonRow> rows, native::RelayKey own = kOwnKey) {
    core::FleetView fleet(1, std::chrono::seconds(2));
    rows.insert(rows.begin(), row(1, {"127.0.0.1:1"}, own));
    fleet.read(rows, core::SteadyTime());
    daemon_.host.directory().join_fleet(std::move(fleet));
  }

  /// Returns how many more connections are admitted.
  std::size_t places() {
    std::vector<Ticket> tickets;
    for (auto one = admission_.enter_own(); one; one = admission_.enter_own()) {
      tickets.push_back(std::move(*one));
    }
    return tickets.size();
  }
  /// Takes all places of connections of TCPStore but `left`.
  std::vector<Ticket> crowd(std::size_t left) {
    std::vector<Ticket> tickets;
    for (auto one = admission_.enter_link(); one; one = admission_.enter_link()) {
      tickets.push_back(std::move(*one));
    }
    tickets.resize(tickets.size() - left);
    return tickets;
  }

  Relay make_relay(std::chrono::milliseconds patience) {
    return Relay({daemon_.loop, daemon_.context, admission_, daemon_.host.directory(),
                  [this](const ListenerSettings& settings) { return listener(settings); },
                  patience});
  }
  /// Makes the listener of connections that others pass on.
  virtual std::shared_ptr<TcpStoreListener> listener(const ListenerSettings&) { return nullptr; }

  SmallDaemon daemon_{1, settings()};
  Admission admission_{daemon_.options};
  Relay relay_ = make_relay(std::chrono::seconds(30));
};

}  // namespace c10dd::daemon
