// SPDX-License-Identifier: Apache-2.0
// Runs the targets of a load in turns, so that what else the machine does hits all of them.
#include "tests/bench/fleet_servers.h"
#include "tests/bench/load.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

// etcd is also measured with its clients as streams over so few connections: that suits it best.
constexpr unsigned kEtcdConnections = 4;
using Converse = std::unique_ptr<Conversation> (*)(const Workload&, unsigned);

/// The servers of one scenario, started as needed, and how to speak to them.
class Contestants {
 public:
  Contestants(const LoadScenario& scenario, const Options& options, const Workload& workload)
      : workload_(workload) {
    echo_ = std::make_unique<EchoServer>(native_bytes(workload));
    add("echo", "bare epoll, the bytes of c10dd", *echo_, echo_conversation);
    if (scenario.echo_only) return;
    if (options.tls) security_ = std::make_unique<Security>();
    if (options.daemon) {
      add_running("c10dd", *options.daemon, native_conversation);
    } else {
      start(options.engine.empty() ? scenario.engine : options.engine, scenario.durability);
      if (options.daemons) start_fleet(*options.daemons);
    }
    for (const Peer& peer : options.against) {
      join(peer, scenario, options.connections.value_or(1));
    }
  }

  const std::vector<Target>& targets() const { return targets_; }

 private:
  void start(const std::string& engine, const std::string& durability) {
    std::string url = engine;
    if (engine == "redis:") {
      engine_ = std::make_unique<RedisServer>("always");
      url = engine_->url();
    }
    const std::string how = "--engine " + engine + " --durability " + durability;
    daemon_ = std::make_unique<DaemonServer>(url, durability, security_.get());
    workload_.credential = credential_of(daemon_->address());
    add("c10dd", how + (security_ ? " --tls" : ""), *daemon_, native_conversation);
    workload_.credential.clear();
    if (!security_) return;
    plain_ = std::make_unique<DaemonServer>(url, durability);
    add("c10dd-plain", how, *plain_, native_conversation);
  }

  void start_fleet(unsigned daemons) {
    fleet_ = std::make_unique<FleetServers>(daemons);
    workload_.daemons = daemons;
    targets_.push_back({"c10dd-fleet", std::to_string(daemons) + " daemons on one Redis",
                        fleet_->addresses(), 0, bind(native_conversation)});
    workload_.daemons = 1;
  }

  void join(const Peer& peer, const LoadScenario& scenario, unsigned clients) {
    if (peer.kind == Peer::Kind::etcd) {
      join_etcd(peer, clients);
    } else if (peer.running) {
      add_running("redis", *peer.running, redis_conversation);
    } else {
      redis_ = std::make_unique<RedisServer>(scenario.appendfsync, security_.get());
      add("redis",
          "--appendonly yes --appendfsync " + scenario.appendfsync +
              (security_ ? ", TLS only" : ""),
          *redis_, redis_conversation);
    }
  }

  void join_etcd(const Peer& peer, unsigned clients) {
    if (peer.running) {
      add_running("etcd", *peer.running, etcd_conversation);
    } else {
      etcd_ = std::make_unique<EtcdServer>();
      add("etcd", "one member, syncs before it answers; gRPC", *etcd_, etcd_conversation);
    }
    if (clients <= kEtcdConnections || clients % kEtcdConnections != 0) return;
    Target shared = targets_.back();
    shared.name = "etcd-shared";
    shared.how = "the same etcd, the clients are streams over " + std::to_string(kEtcdConnections) +
                 " connections";
    shared.clients_of_a_connection = clients / kEtcdConnections;
    targets_.push_back(std::move(shared));
  }

  void add(const char* name, const std::string& how, const auto& server, Converse converse) {
    targets_.push_back({name, how, {server.address()}, server.process(), bind(converse)});
  }
  void add_running(const char* name, const Address& at, Converse converse) {
    targets_.push_back({name, "was running", {at}, 0, bind(converse)});
  }
  std::function<std::unique_ptr<Conversation>(unsigned)> bind(Converse converse) const {
    return [=, workload = workload_](unsigned number) { return converse(workload, number); };
  }

  Workload workload_;
  std::unique_ptr<Security> security_;  // null: without --tls
  std::unique_ptr<EchoServer> echo_;
  std::unique_ptr<RedisServer> engine_;
  std::unique_ptr<DaemonServer> daemon_;
  std::unique_ptr<DaemonServer> plain_;  // beside the one with TLS
  std::unique_ptr<FleetServers> fleet_;
  std::unique_ptr<RedisServer> redis_;
  std::unique_ptr<EtcdServer> etcd_;
  std::vector<Target> targets_;
};

}  // namespace

ScenarioResult run_load_scenario(const LoadScenario& scenario, const Options& options) {
  const Workload workload{scenario.operation, options.key_bytes, options.value_bytes};
  const NativeBytes bytes = native_bytes(workload);
  ScenarioResult result;
  result.name = scenario.name;
  result.counted = "requests";
  result.bars = "c10dd";
  result.round_seconds = options.seconds;
  const unsigned connections = options.connections.value_or(1);
  result.parameters = {{"connections", connections},
                       {"depth", options.depth},
                       {"key_bytes", options.key_bytes},
                       {"value_bytes", options.value_bytes},
                       {"request_bytes", bytes.request},
                       {"reply_bytes", bytes.reply.size()},
                       {"awake", options.awake},
                       {"tls", options.tls},
                       {"sync_delay_us", static_cast<std::uint64_t>(options.sync_delay * 1'000)}};
  const Contestants contestants(scenario, options, workload);
  const std::vector<Target>& targets = contestants.targets();
  for (const Target& target : targets) {
    result.series.push_back({target.name, target.how, {}});
  }
  const LoadOptions load{connections, options.depth, options.seconds * kWarmUpShare,
                         options.seconds};
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      LoadOptions its = load;
      its.connections /= targets[i].clients_of_a_connection;
      its.depth *= targets[i].clients_of_a_connection;
      const Measurement measured = run_load(targets[i], its);
      result.series[i].rounds.push_back(
          sample_of(measured.latency, measured.seconds, measured.cpu_seconds));
    }
  }
  return result;
}

}  // namespace c10dd::bench
