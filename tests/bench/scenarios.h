// SPDX-License-Identifier: Apache-2.0
// The scenarios: which servers, which load. Their list is in main.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/conversation.h"
#include "tests/bench/result.h"

namespace c10dd::bench {

/// Another server to measure; without an address one is started.
struct Peer {
  enum class Kind { redis, etcd, torch, mpi };
  Kind kind = Kind::redis;
  std::optional<Address> running;
};

struct Options {
  std::optional<unsigned> connections;  ///< nothing: the scenario's
  unsigned depth = 1;
  unsigned rounds = 5;
  double seconds = 2;
  std::size_t key_bytes = 32;
  std::size_t value_bytes = 128;
  std::optional<unsigned> members;  ///< nothing: the scenario's, as are the times
  std::optional<unsigned> times;
  std::optional<unsigned> daemons;  ///< on one Redis
  unsigned waiters = 10'000;
  unsigned keys = 1'000'000;
  std::string engine;             ///< of the daemon that is started; empty: the scenario's
  std::optional<Address> daemon;  ///< that runs already
  std::vector<Peer> against;
  bool proxy = false;   ///< of tcpstore-*: also through a node proxy
  bool tls = false;     ///< connections to the daemon and to Redis are encrypted
  bool awake = false;   ///< the cores are kept from halting
  std::string only;     ///< of instructions: the cases whose names contain this text
  std::string budgets;  ///< of instructions: a file with the most that each case may cost
  std::string groups = "dp=100,tp=2";  ///< of synthetic: KIND=SIZE,...; besides one of all ranks
  std::string fault = "none";          ///< of synthetic
  double at = 10;                      ///< of synthetic: seconds before the fault
  double sync_delay = 0;  ///< ms that every sync of the servers started here takes longer
  double read_rate = 0;   ///< MiB/s at which the daemon reads its files; 0: as fast as it can
};

/// A load that echo, the daemon and its peers take in turns.
struct LoadScenario {
  std::string name;
  Operation operation = Operation::get;
  std::string engine;       ///< of the daemon; DIR is a temporary directory
  std::string durability;   ///< of the daemon
  std::string appendfsync;  ///< of Redis
  bool echo_only = false;
};
ScenarioResult run_load_scenario(const LoadScenario& scenario, const Options& options);

/// members sessions over connections meet at barriers of rocksdb with fsync.
ScenarioResult run_barriers(const Options& options);

/// One key is set, on which all waiters wait, over at most 1,000 connections; RocksDB with fsync.
ScenarioResult run_wait_fanout(const Options& options);

/// A daemon with many keys is killed and started again, until it answers; and the memory of a key.
ScenarioResult run_restart_load(const Options& options);

/// Members form a group and meet; and the memory of one.
ScenarioResult run_join(const Options& options);

/// A member's process is killed; until all others of its group have been told.
ScenarioResult run_death(const Options& options);

/// A member's network link is set down; likewise.
ScenarioResult run_silent(const Options& options);

/// A daemon with a group is killed and started again, until all members have their places again.
ScenarioResult run_restart(const Options& options);

/// The owner of a job is killed, until another daemon serves all its clients.
ScenarioResult run_takeover(const Options& options);

/// Instructions that each kind of request costs, with both engines, counted by callgrind.
ScenarioResult run_instructions(const Options& options);

/// Calls of a process group of one rank, which communicates with nobody.
ScenarioResult run_collective(const Options& options);

/// An all_reduce of 64 KiB to 64 MiB over Gloo, beside Gloo alone in the same processes.
ScenarioResult run_all_reduce(const Options& options);

/// Ranks report the activity of their process groups until a fault; until the daemon names it.
ScenarioResult run_synthetic(const Options& options);

/// All ranks of a launch join a TCPStore at once.
ScenarioResult run_storm(const Options& options);

/// The ranks of a launch exchange the addresses of a process group over a TCPStore.
ScenarioResult run_gloo_init(const Options& options);

/// Requests of PyTorch's TCPStore: the daemon beside PyTorch's own servers.
ScenarioResult run_tcpstore_get(const Options& options);
ScenarioResult run_tcpstore_set(const Options& options);
ScenarioResult run_tcpstore_add(const Options& options);
ScenarioResult run_tcpstore_multi_get(const Options& options);

/// Connections with a session that do nothing, and the memory of one.
ScenarioResult run_idle(const Options& options);

}  // namespace c10dd::bench
