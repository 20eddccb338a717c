// SPDX-License-Identifier: Apache-2.0
// The servers of the scenarios that speak PyTorch's TCPStore: a daemon and, with --against torch,
// PyTorch's own servers. An older server does not understand the newest clients, so the daemon is
// measured in its dialect, too. Beside a plain run, which lives in memory, there are endpoints
// whose run is stored in RocksDB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/tcpstore_wire.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"
#include "tests/bench/torch_store.h"

namespace c10dd::bench {

/// One server in one dialect.
struct TcpstoreServer {
  Series series;
  tcpstore::Dialect dialect;
  Address address;
  pid_t process;
};

/// A node proxy in a process of its own, for a run of this daemon.
class ProxyServer {
 public:
  explicit ProxyServer(const Address& daemon);
  Address address() const { return {"127.0.0.1", port_}; }
  pid_t process() const { return child_->process(); }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<Child> child_;
};

class TcpstoreServers {
 public:
  enum class Endpoints : std::uint8_t { without, with };

  TcpstoreServers(const Options& options, Endpoints endpoints);

  const std::vector<TcpstoreServer>& all() const { return all_; }
  /// Why not all of PyTorch's servers are measured; empty: they are, or need not be.
  const std::string& skipped() const { return skipped_; }

 private:
  void add_endpoint(const std::string& durability);
  void add_proxy(const std::string& durability);

  std::unique_ptr<DaemonServer> daemon_;
  std::vector<std::unique_ptr<DaemonServer>> durable_;
  std::vector<std::unique_ptr<ProxyServer>> proxies_;
  std::vector<std::unique_ptr<TorchStoreServer>> torch_;
  std::vector<TcpstoreServer> all_;
  std::string skipped_;
};

}  // namespace c10dd::bench
