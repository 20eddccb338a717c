// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/tcpstore_servers.h"

namespace c10dd::bench {
namespace {

constexpr const char* kDaemon = "c10dd";
constexpr const char* kOldDaemon = "c10dd as 1.13.1";

}  // namespace

TcpstoreServers::TcpstoreServers(const Options& options) {
  using tcpstore::Dialect;
  daemon_ = std::make_unique<DaemonServer>("memory:", "os");
  const auto add_daemon = [&](const char* name, const char* how, Dialect dialect) {
    all_.push_back({{name, how, {}}, dialect, daemon_->address(), daemon_->process()});
  };
  add_daemon(kDaemon, "a plain run", Dialect::v);
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

}  // namespace c10dd::bench
