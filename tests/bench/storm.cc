// SPDX-License-Identifier: Apache-2.0
// Scenario storm. All ranks of a launch connect to the store at once, as PyTorch's clients do, and
// join: until the last one has its reply. Then they are idle: the memory of a connection. Every
// round has servers of its own.
#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "protocol/tcpstore_wire.h"
#include "tests/bench/crowd.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"
#include "tests/bench/torch_store.h"

namespace c10dd::bench {
namespace {

using Clock = std::chrono::steady_clock;
using tcpstore::Query;

constexpr unsigned kConnections = 10'000;

struct Storm {
  std::chrono::nanoseconds took{0};
  double bytes = 0;  // memory of a connection
};

/// An address of this machine, so that no pair of ports is used twice.
std::string source_of(unsigned round, unsigned connection) {
  return "127.1." + std::to_string(round % 250) + "." + std::to_string(1 + connection % 200);
}

Storm blow(const Address& server, pid_t process, unsigned connections, unsigned round) {
  Bytes first;
  const auto add = [&](const tcpstore::Message& message) {
    tcpstore::encode_message(first, tcpstore::Dialect::v, message);
  };
  add({.query = Query::validate, .number = tcpstore::kMagic});
  add({.query = Query::ping, .number = 1});
  add({.query = Query::add, .key = "init/", .number = 1});
  const std::uint64_t before = memory_of(process);
  std::vector<Line> lines;
  lines.reserve(connections);
  const Clock::time_point start = Clock::now();
  for (unsigned i = 0; i < connections; ++i) {
    lines.emplace_back(server, source_of(round, i)).send(first);
  }
  std::int64_t joined = 0;
  for (Line& line : lines) {
    Query awaited = Query::ping;
    line.receive(2, [&](std::string_view in) -> std::size_t {
      const auto reply = tcpstore::cut_reply(in, awaited);
      if (!reply || !reply->has_value()) return 0;
      if (awaited == Query::add) joined = std::max(joined, (*reply)->number);
      awaited = Query::add;
      return (*reply)->size;
    });
  }
  Storm found{.took = Clock::now() - start};
  if (joined != connections) {
    throw std::runtime_error("storm: init/ is " + std::to_string(joined) + ", not " +
                             std::to_string(connections));
  }
  found.bytes =
      (static_cast<double>(memory_of(process)) - static_cast<double>(before)) / connections;
  return found;
}

}  // namespace

ScenarioResult run_storm(const Options& options) {
  const unsigned connections = options.connections.value_or(kConnections);
  check_file_limit("storm", connections);
  ScenarioResult result;
  result.name = "storm";
  result.counted = "joins";
  result.bars = "c10dd";
  result.parameters = {{"connections", connections}, {"awake", options.awake}};
  std::vector<TorchStoreKind> kinds;
  if (!options.against.empty()) kinds = torch_stores();
  result.series.push_back({"c10dd", "a plain run, from the first connect to the last reply", {}});
  result.facts.push_back({"c10dd: memory of an idle connection", "B", {}});
  for (const TorchStoreKind& kind : kinds) {
    result.series.push_back({kind.name, kind.python, {}});
    result.facts.push_back({kind.name + ": memory of an idle connection", "B", {}});
  }
  const auto record = [&](std::size_t i, const Storm& storm) {
    Histogram all;
    all.add(storm.took.count());
    Sample sample = sample_of(all, static_cast<double>(storm.took.count()) * 1e-9);
    sample.per_second *= connections;
    result.series[i].rounds.push_back(sample);
    result.facts[i].rounds.push_back(storm.bytes);
  };
  for (unsigned round = 0; round < options.rounds; ++round) {
    const DaemonServer daemon("memory:", "os");
    record(0, blow(daemon.address(), daemon.process(), connections, round));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const TorchStoreServer server(kinds[i]);
      record(i + 1, blow(server.address(), server.process(), connections, round));
    }
  }
  return result;
}

}  // namespace c10dd::bench
