// SPDX-License-Identifier: Apache-2.0
// Scenario storm. All ranks of a launch connect to the store at once, as PyTorch's clients do, and
// join: until the last one has its reply, or a minute is over. Then they are idle: the memory of a
// connection. Every round has servers of its own.
#include <algorithm>
#include <chrono>
#include <cmath>
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

/// A round ends after this time, also if not all clients have joined.
constexpr std::chrono::seconds kLimit{60};

struct Storm {
  std::chrono::nanoseconds took{0};
  unsigned joined = 0;
  double bytes = 0;  // memory of a connection
};

/// An address of this machine, so that no pair of ports is used twice.
std::string storm_source(unsigned round, unsigned connection) {
  return "127.1." + std::to_string(round % 250) + "." + std::to_string(1 + connection % 200);
}

/// What a client sends before it waits for anything.
Bytes first_bytes() {
  Bytes first;
  const auto add = [&](const tcpstore::Message& message) {
    tcpstore::encode_message(first, tcpstore::Dialect::v, message);
  };
  add({.query = Query::validate, .number = tcpstore::kMagic});
  add({.query = Query::ping, .number = 1});
  add({.query = Query::add, .key = "init/", .number = 1});
  return first;
}

/// Takes the replies to these bytes. Returns the number of clients that had joined.
std::int64_t take_replies(Line& line) {
  std::int64_t joined = 0;
  Query awaited = Query::ping;
  line.receive(2, [&](std::string_view in) -> std::size_t {
    const auto reply = tcpstore::cut_reply(in, awaited);
    if (!reply || !reply->has_value()) return 0;
    if (awaited == Query::add) joined = (*reply)->number;
    awaited = Query::add;
    return (*reply)->size;
  });
  return joined;
}

Storm blow(const Address& server, pid_t process, unsigned connections, unsigned round) {
  const Bytes first = first_bytes();
  const std::uint64_t before = memory_of(process);
  std::vector<Line> lines;
  lines.reserve(connections);
  const Clock::time_point start = Clock::now();
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(start + kLimit - Clock::now());
  };
  Storm found;
  std::int64_t last = 0;
  try {
    for (unsigned i = 0; i < connections; ++i) {
      lines.emplace_back(server, storm_source(round, i), left()).send(first);
    }
    for (Line& line : lines) {
      line.set_patience(left());
      last = std::max(last, take_replies(line));
      ++found.joined;
    }
  } catch (const std::runtime_error&) {
    if (left().count() > 0) throw;  // no time-out of this round
  }
  found.took = Clock::now() - start;
  if (found.joined == connections && last != connections) {
    throw std::runtime_error("storm: init/ is " + std::to_string(last) + ", not " +
                             std::to_string(connections));
  }
  found.bytes =
      (static_cast<double>(memory_of(process)) - static_cast<double>(before)) / connections;
  return found;
}

/// Adds what a server has done in one round.
void record(const Storm& storm, unsigned connections, Series& series, Fact& memory) {
  Histogram all;
  all.add(storm.took.count());
  const double seconds = static_cast<double>(storm.took.count()) * 1e-9;
  Sample sample = sample_of(all, seconds);
  sample.per_second = storm.joined / seconds;
  series.rounds.push_back(sample);
  if (storm.joined == connections) return memory.rounds.push_back(storm.bytes);
  series.how += "; not finished: " + std::to_string(storm.joined) + " of " +
                std::to_string(connections) + " joined after " +
                std::to_string(std::llround(seconds)) + " s";
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
  std::erase_if(kinds, [](const auto& kind) { return kind.dialect != tcpstore::Dialect::v; });
  result.series.push_back({"c10dd", "a plain run, from the first connect to the last reply", {}});
  result.facts.push_back({"c10dd: memory of an idle connection", "B", {}});
  for (const TorchStoreKind& kind : kinds) {
    result.series.push_back({kind.name, kind.python, {}});
    result.facts.push_back({kind.name + ": memory of an idle connection", "B", {}});
  }
  for (unsigned round = 0; round < options.rounds; ++round) {
    const DaemonServer daemon("memory:", "os");
    record(blow(daemon.address(), daemon.process(), connections, round), connections,
           result.series[0], result.facts[0]);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const TorchStoreServer server(kinds[i]);
      record(blow(server.address(), server.process(), connections, round), connections,
             result.series[i + 1], result.facts[i + 1]);
    }
  }
  return result;
}

}  // namespace c10dd::bench
