// SPDX-License-Identifier: Apache-2.0
// The scenarios: which servers, which load. Their list is in main.cc.
#pragma once

#include <optional>
#include <string>

#include "tests/bench/conversation.h"
#include "tests/bench/result.h"

namespace c10dd::bench {

struct Address {
  std::string host;
  std::uint16_t port = 0;
};

struct Options {
  unsigned connections = 1;
  unsigned depth = 1;
  unsigned rounds = 5;
  double seconds = 2;
  std::size_t key_bytes = 32;
  std::size_t value_bytes = 128;
  unsigned members = 1000;
  std::string engine;             ///< of the daemon that is started; empty: the scenario's
  std::optional<Address> daemon;  ///< that runs already
  std::optional<Address> redis;   ///< likewise
  bool spawn_redis = false;
  bool awake = false;  ///< the cores are kept from halting
};

/// A load that echo, the daemon and Redis take in turns.
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

}  // namespace c10dd::bench
