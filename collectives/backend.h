// SPDX-License-Identifier: Apache-2.0
// What a collective library must offer to carry a process group. Calls block, come from one thread
// in issue order and have valid arguments (cpu tensors, count > 0, root < size); only abort() may
// come from any thread at any time. After the first failure or abort() every call fails.
// To add a backend: derive in collectives/<name>_backend.cc, add it to open_process_group.cc, run
// tests/unit/collectives/backend_contract_test.cc over it.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/process_group.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Bounds and names one collective.
struct CallContext {
  std::uint64_t sequence = 0;
  Duration timeout{0};  ///< as the caller gave it, for messages
  std::chrono::steady_clock::time_point deadline;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// When any of these returns, the backend has let go of the tensors. Failures name the ranks that
  /// are to blame where that can be known, in the text and in Failure::missing. `unavailable`: a
  /// peer was lost.
  virtual Result<void> all_reduce(const Tensor& tensor, ReduceOp op,
                                  const CallContext& context) = 0;
  virtual Result<void> broadcast(const Tensor& tensor, Rank root, const CallContext& context) = 0;
  virtual Result<void> all_gather(const Tensor& output, const Tensor& input,
                                  const CallContext& context) = 0;
  virtual Result<void> barrier(const CallContext& context) = 0;

  /// Makes the running call return `aborted` with this reason, soon.
  virtual void abort(const std::string& reason) = 0;
};

struct BackendSetup {
  World world;
  GroupOptions options;
  std::shared_ptr<Bootstrap> bootstrap;
  mutable std::exception_ptr thrown = nullptr;  ///< by the bootstrap; says more than a Failure
};

/// The bootstrap's exchange with its exceptions turned into failures and its answer checked.
inline Result<std::vector<std::string>> transpose(const BackendSetup& setup,
                                                  std::vector<std::string> parts) {
  try {
    auto reply = setup.bootstrap->transpose(std::move(parts), setup.options.open_timeout);
    if (reply.size() != setup.world.size) {
      return failure(Code::size_mismatch, "bootstrap of process group \"" + setup.world.name +
                                              "\" answered " + std::to_string(reply.size()) +
                                              " parts for " + std::to_string(setup.world.size) +
                                              " ranks");
    }
    return reply;
  } catch (const std::exception& error) {
    setup.thrown = std::current_exception();
    return failure(Code::unavailable, error.what());
  }
}

/// The list of backends: built-in ones, else a module. Blocks until all ranks have come.
Result<std::unique_ptr<Backend>> open_backend(const BackendSetup& setup);

Result<std::unique_ptr<Backend>> open_loopback(const BackendSetup& setup);

/// What the shared object of a backend exports as `c10dd_backend_module`. The number changes with
/// any type that crosses; a module and its loader must come from one build.
inline constexpr std::uint32_t kBackendAbi = 2;

struct BackendModule {
  std::uint32_t abi = kBackendAbi;
  std::uint32_t setup_bytes = sizeof(BackendSetup);
  const char* compiler = __VERSION__;
  Result<std::unique_ptr<Backend>> (*open)(const BackendSetup& setup) = nullptr;
};

inline constexpr char kBackendModuleSymbol[] = "c10dd_backend_module";

/// Finds, opens and checks `libc10dd_<name>.so`; it stays loaded.
Result<const BackendModule*> load_backend_module(const std::string& name);

}  // namespace c10dd::collectives
