// SPDX-License-Identifier: Apache-2.0
// Scenarios tcpstore-*: the daemon and PyTorch's own servers under the same load of PyTorch's
// protocol, beside the echo of the same bytes. Each server is spoken to in its own dialect. Servers
// run on all cores but the first, and the load on the first, because the scheduler's choice makes a
// factor of nine.
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/bench/cores.h"
#include "tests/bench/load.h"
#include "tests/bench/scenarios.h"
#include "tests/bench/servers.h"
#include "tests/bench/tcpstore_conversation.h"
#include "tests/bench/tcpstore_servers.h"

namespace c10dd::bench {
namespace {

/// The servers, started on their cores.
class Stores {
 public:
  Stores(const TcpstoreWorkload& workload, const Options& options, ScenarioResult& result) {
    const Cores others(false);
    const PlainBytes bytes = tcpstore_bytes(workload);
    echo_ = std::make_unique<EchoServer>(NativeBytes{bytes.request.size(), bytes.reply});
    targets_.push_back({"echo",
                        "bare epoll, the bytes of the last request",
                        {echo_->address()},
                        echo_->process(),
                        [bytes](unsigned) { return bytes_conversation(bytes); }});
    result.series.push_back({"echo", targets_.back().how, {}});
    servers_ = std::make_unique<TcpstoreServers>(options, TcpstoreServers::Endpoints::with);
    result.skipped = servers_->skipped();
    for (const TcpstoreServer& server : servers_->all()) {
      const bool has_it = server.dialect != tcpstore::Dialect::l0 ||
                          workload.operation != TcpstoreOperation::multi_get;
      if (!has_it) continue;
      TcpstoreWorkload spoken = workload;
      spoken.dialect = server.dialect;
      targets_.push_back({server.series.name,
                          server.series.how,
                          {server.address},
                          server.process,
                          [spoken](unsigned n) { return tcpstore_conversation(spoken, n); }});
      result.series.push_back(server.series);
    }
  }

  const std::vector<Target>& targets() const { return targets_; }

 private:
  std::unique_ptr<EchoServer> echo_;
  std::unique_ptr<TcpstoreServers> servers_;
  std::vector<Target> targets_;
};

ScenarioResult run(const char* name, TcpstoreOperation operation, const Options& options) {
  const TcpstoreWorkload workload{operation, options.key_bytes, options.value_bytes};
  const unsigned connections = options.connections.value_or(1);
  ScenarioResult result;
  result.name = name;
  result.counted = "requests";
  result.bars = "c10dd";
  result.round_seconds = options.seconds;
  result.parameters = {{"connections", connections},
                       {"depth", options.depth},
                       {"key_bytes", options.key_bytes},
                       {"value_bytes", options.value_bytes},
                       {"awake", options.awake}};
  const Stores stores(workload, options, result);
  const Cores first(true);
  const LoadOptions load{connections, options.depth, options.seconds * kWarmUpShare,
                         options.seconds};
  for (unsigned round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < stores.targets().size(); ++i) {
      const Measurement measured = run_load(stores.targets()[i], load);
      result.series[i].rounds.push_back(
          sample_of(measured.latency, measured.seconds, measured.cpu_seconds));
    }
  }
  return result;
}

}  // namespace

ScenarioResult run_tcpstore_get(const Options& options) {
  return run("tcpstore-get", TcpstoreOperation::get, options);
}
ScenarioResult run_tcpstore_set(const Options& options) {
  return run("tcpstore-set", TcpstoreOperation::set, options);
}
ScenarioResult run_tcpstore_add(const Options& options) {
  return run("tcpstore-add", TcpstoreOperation::add, options);
}
ScenarioResult run_tcpstore_multi_get(const Options& options) {
  return run("tcpstore-multi-get", TcpstoreOperation::multi_get, options);
}

}  // namespace c10dd::bench
