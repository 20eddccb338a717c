// SPDX-License-Identifier: Apache-2.0
// To add a store: a line in store_kinds(). A server is started at the first use, one for all tests
// of this process.
#include "tests/unit/client/store_kinds.h"

#include "client/client.h"
#include "tests/bench/servers.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/installed_program.h"
#include "tests/unit/temporary_directory.h"
#if C10DD_WITH_REDIS
#include "tests/unit/store/redis_server.h"
#endif

namespace c10dd::test {
namespace {

/// A client of a new job.
std::shared_ptr<Client> new_client() {
  static DaemonProcess daemon("memory:");
  static std::vector<std::shared_ptr<Client>> clients;
  if (daemon.pid() < 0) daemon.start();
  const std::string job = "job" + std::to_string(clients.size());
  clients.push_back(Client::connect("c10dd://" + daemon.address() + "/" + job));
  return clients.back();
}

std::shared_ptr<Store> make_daemon_store() { return new_client()->store(); }

/// The daemon's listener for TCPStore; a new endpoint for each store.
StoreKind tcp_of_daemon() {
  const auto url = std::make_shared<std::string>();
  const auto open = [url] { return open_store(*url); };
  StoreKind kind;
  kind.name = "tcp_of_daemon";
  kind.make = [url, open] {
    const LeasedEndpoint endpoint = new_client()->lease_endpoint("main", {.run = "run"});
    *url = "tcp://" + endpoint.host + ":" + std::to_string(endpoint.port);
    return open();
  };
  kind.again = open;
  kind.lacks = {"remove_prefix", "strict_add"};
  return kind;
}

/// A new file for each store.
std::shared_ptr<Store> make_file_store_somewhere() {
  static const TemporaryDirectory folder;
  static int files = 0;
  return make_file_store(folder.path() + "/store" + std::to_string(files++));
}

std::shared_ptr<Store> make_prefix_of_hash() {
  auto below = make_hash_store();
  below->set("a", "of somebody else");
  below->set("p", "of somebody else");
  below->set("p0", "of somebody else");
  return make_prefix_store("p", below);
}

/// A store whose URL ends with the name of a job or with a prefix, and which is a new one for each
/// store. `base` starts the server.
StoreKind by_url(std::string name, std::function<std::string()> base) {
  const auto stores = std::make_shared<int>(0);
  const auto open = [base = std::move(base), stores] {
    return open_store(base() + "/job" + std::to_string(*stores));
  };
  StoreKind kind;
  kind.name = std::move(name);
  kind.make = [open, stores] {
    ++*stores;
    return open();
  };
  kind.again = open;
  return kind;
}

#if C10DD_WITH_REDIS
StoreKind redis() {
  StoreKind kind = by_url("redis", [] {
    static const store::RedisServer server;
    return "redis://127.0.0.1:" + std::to_string(server.port());
  });
  kind.absent = [] { return store::RedisServer::installed() ? "" : "no redis-server in PATH"; };
  return kind;
}
#endif

/// With limits that let it take the largest value, and the keys of one multi_set.
StoreKind etcd() {
  StoreKind kind = by_url("etcd", [] {
    static const bench::EtcdServer server(
        {"--max-request-bytes", "33554432", "--max-txn-ops", "200000"});
    return "etcd://127.0.0.1:" + std::to_string(server.address().port);
  });
  kind.absent = [] { return installed_program("etcd").empty() ? "no etcd in PATH" : ""; };
  return kind;
}

std::vector<StoreKind> make_kinds() {
  std::vector<StoreKind> kinds;
  kinds.push_back({"hash", make_hash_store});
  kinds.push_back({"file", make_file_store_somewhere});
  kinds.push_back({"prefix", make_prefix_of_hash});
  kinds.push_back({"daemon", make_daemon_store});
  kinds.push_back({"prefix_of_daemon", [] { return make_prefix_store("p", make_daemon_store()); }});
  kinds.push_back(tcp_of_daemon());
  kinds.push_back(etcd());
#if C10DD_WITH_REDIS
  kinds.push_back(redis());
#endif
  return kinds;
}

}  // namespace

const std::vector<StoreKind>& store_kinds() {
  static const std::vector<StoreKind> kinds = make_kinds();
  return kinds;
}

}  // namespace c10dd::test
