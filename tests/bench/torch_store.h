// SPDX-License-Identifier: Apache-2.0
// PyTorch's own TCPStore servers: each alone in a process of Python.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/tcpstore_wire.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {

/// A version of PyTorch that is installed here, and one of its servers.
struct TorchStoreKind {
  std::string name;                                  ///< such as "torch, poll"
  std::string python;                                ///< the interpreter
  std::string choice;                                ///< an argument of TCPStore, in Python
  tcpstore::Dialect dialect = tcpstore::Dialect::v;  ///< that the server understands
};

/// Returns the servers of the newest PyTorch, if this machine has the environment that `./dev torch
/// newest` makes, and that of Debian's PyTorch 1.13.1, if it is installed.
std::vector<TorchStoreKind> torch_stores();

class TorchStoreServer {
 public:
  explicit TorchStoreServer(const TorchStoreKind& kind);
  Address address() const { return {"127.0.0.1", port_}; }
  pid_t process() const { return child_->process(); }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<Child> child_;
};

}  // namespace c10dd::bench
