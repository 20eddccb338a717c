// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/tcpstore_servers.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "client/client.h"
#include "client/proxy/proxy.h"
#include "tests/bench/line.h"

namespace c10dd::bench {
namespace {

constexpr const char* kDaemon = "c10dd";
constexpr const char* kOldDaemon = "c10dd as 1.13.1";

}  // namespace

ProxyServer::ProxyServer(const Address& daemon) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) fail_with_errno("pipe");
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  child_ = std::make_unique<Child>([&] {
    const proxy::Proxy proxy({.daemons = {daemon.host + ":" + std::to_string(daemon.port)},
                              .job = "bench",
                              .run = "proxied",
                              .host = "bench"});
    const std::string line = std::to_string(proxy.port()) + "\n";
    if (::write(write_end.get(), line.data(), line.size()) < 0) std::_Exit(1);
    while (true) ::pause();
  });
  write_end = Descriptor();
  port_ = static_cast<std::uint16_t>(std::stoi(first_line("the proxy", read_end)));
}

TcpstoreServers::TcpstoreServers(const Options& options, Endpoints endpoints) {
  using tcpstore::Dialect;
  daemon_ = std::make_unique<DaemonServer>("memory:", "os");
  const auto add_daemon = [&](const char* name, const char* how, Dialect dialect) {
    all_.push_back({{name, how, {}}, dialect, daemon_->address(), daemon_->process()});
  };
  add_daemon(kDaemon, "a plain run", Dialect::v);
  if (endpoints == Endpoints::with) {
    for (const char* durability : {"os", "fsync"}) add_endpoint(durability);
  }
  if (options.proxy) add_proxy("os");
  if (options.against.empty()) return;
  bool newest = false;
  for (const TorchStoreKind& kind : torch_stores()) {
    newest = newest || kind.dialect == Dialect::v;
    torch_.push_back(std::make_unique<TorchStoreServer>(kind));
    const bool old = kind.dialect != Dialect::v;
    if (old) add_daemon(kOldDaemon, "the same in the dialect of PyTorch 1.13.1", kind.dialect);
    all_.push_back({{kind.name, kind.python, {}, old ? kOldDaemon : ""},
                    kind.dialect,
                    torch_.back()->address(),
                    torch_.back()->process()});
  }
  if (!newest) {
    skipped_ = "torch: the newest PyTorch is not installed; ./dev torch newest installs it";
  }
}

/// Starts a daemon on RocksDB, and leases an endpoint with a run.
void TcpstoreServers::add_endpoint(const std::string& durability) {
  durable_.push_back(std::make_unique<DaemonServer>("rocksdb:DIR", durability));
  const DaemonServer& daemon = *durable_.back();
  const LeasedEndpoint leased =
      Client::connect("c10dd://127.0.0.1:" + std::to_string(daemon.address().port) + "/bench")
          ->lease_endpoint("bench", {.run = "bench"});
  all_.push_back({{"endpoint, " + durability, "a durable run on RocksDB", {}},
                  tcpstore::Dialect::v,
                  {leased.host, leased.port},
                  daemon.process()});
}

/// Starts a daemon on RocksDB, and a proxy for a run of it.
void TcpstoreServers::add_proxy(const std::string& durability) {
  durable_.push_back(std::make_unique<DaemonServer>("rocksdb:DIR", durability));
  proxies_.push_back(std::make_unique<ProxyServer>(durable_.back()->address()));
  all_.push_back({{"proxy, " + durability, "a durable run on RocksDB, through a node proxy", {}},
                  tcpstore::Dialect::v,
                  proxies_.back()->address(),
                  proxies_.back()->process()});
}

}  // namespace c10dd::bench
