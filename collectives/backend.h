// SPDX-License-Identifier: Apache-2.0
// Backend: the interface of a collective library. BackendModule: the interface of a module, which
// is a shared library that contains a backend. To add a backend, derive from Backend in
// collectives/<name>/ and build a module (CMakeLists.txt). Then add <name> to backends() in
// tests/unit/collectives/thread_ranks.h. backend_contract_test.cc tests all backends in that list.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/internal/module_loader.h"
#include "collectives/process_group.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// The point on a device's stream at which an operation ends. Can be used after the operation has
/// ended. Thread-safe.
class DeviceEnd {
 public:
  virtual ~DeviceEnd() = default;

  /// Makes what is put on `stream` from now on wait until the operation has ended. Does not block.
  virtual Result<void> order(void* stream) = 0;
};

/// Gets the begin and the end of one operation.
class Completion {
 public:
  /// Ends the operation. The backend calls it exactly once for each start(), on any thread, and
  /// does not access the tensors afterwards.
  virtual void complete(Result<void> result) noexcept = 0;

  /// Called instead of complete() to end a send or recv. A failure with code size_mismatch concerns
  /// only this message: the group stays usable.
  virtual void complete_message(Result<Received> result) noexcept = 0;

  /// Tells that the operation, whose tensors are in the memory of a device, is on a stream of the
  /// device. Called at most once, before the two functions above.
  virtual void enqueued(std::shared_ptr<DeviceEnd> end) noexcept = 0;

  /// Tells that the operation runs, see Traits::tells_begin. Called at most once, before complete()
  /// and complete_message(). Does not block.
  virtual void begun() noexcept = 0;

 protected:
  ~Completion() = default;
};

struct BackendSetup;
class DeviceCopies;

/// How a group must call its backend to run operations other than send and recv.
struct Traits {
  /// May a thread that issues an operation call start()? If not, only the group's worker does.
  bool on_callers_thread = true;
  /// How many operations may have been started without having ended.
  std::size_t in_flight = 1;
  /// Do operations end only while a thread calls progress()?
  bool needs_progress = false;
  /// Does start() only hand an operation over, sends and receives included? Then the backend calls
  /// Completion::begun() when it runs; those of all other backends run from start() on.
  bool tells_begin = false;
};

/// Runs the operations of one rank. After the first failure, and after abort(), every operation
/// fails.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Traits traits() const { return {}; }

  /// Returns whether the backend runs the operation on elements of this type, in the memory of this
  /// device. `op` counts only if the operation reduces; combines(op, dtype) is true then. `dtype`
  /// and `device` count only if the operation has tensors. Thread-safe.
  virtual bool supports(Collective, DType, ReduceOp, Device device) const {
    return device.kind == Device::Kind::cpu;
  }

  /// Returns why the backend cannot run this send or recv, such as "does not support tags: use tag
  /// 0", or an empty text. Thread-safe.
  virtual std::string refuses(const Operation& message) const {
    static_cast<void>(message);
    return {};
  }

  /// Returns whether start() of this operation returns at once. Then an asynchronous operation is
  /// started by the thread that issues it if none is ahead of it. Thread-safe.
  virtual bool starts_at_once(const Operation& operation) const {
    static_cast<void>(operation);
    return false;
  }

  /// Starts an operation, or runs it until its end. A send or recv must only be started, without
  /// blocking; it may be started at any time, by any thread. For all others, called by one thread
  /// at a time, in the order of the sequences, with valid arguments: supported, elements in
  /// Operation::common(), root < size. `operation` and `completion` stay valid until the completion
  /// is called, which may happen before start() returns. The operation ends at its deadline at the
  /// latest. If the ranks that caused a failure are known, the failure's text and Failure::missing
  /// name them. The code is timed_out if the deadline has passed, and unavailable if a peer was
  /// lost.
  virtual void start(const Operation& operation, Completion& completion) = 0;

  /// Continues operations that were started. Does not block. Thread-safe.
  virtual void progress() {}

  /// Returns whether split() can open the backend of a part of this group that has these options.
  virtual bool splits(const GroupOptions& part) const {
    static_cast<void>(part);
    return false;
  }

  /// Opens the backend of a part of this group. Called by all ranks of this group, in their order
  /// of operations; ranks with equal colors form a part, in which their ranks are their keys.
  /// `part` is null on a rank that is in no part. Such a rank gets null. `deadline` is that
  /// of the first step, see GroupOptions::open_timeout; the second step has as long.
  virtual Result<std::unique_ptr<Backend>> split(const BackendSetup* part, int color, int key,
                                                 std::chrono::steady_clock::time_point deadline);

  /// Makes all started operations fail with code aborted and `reason`. Each completion is still
  /// called. Does not wait for that. Thread-safe.
  virtual void abort(const std::string& reason) = 0;

  /// Returns zeroed memory in which the backend works best. The memory can be used after the
  /// backend was destroyed. Not a collective operation. Fails with `unsupported` if the backend has
  /// no memory of this device. Thread-safe.
  virtual Result<std::shared_ptr<void>> allocate(std::size_t bytes, Device device);

  /// Returns what the backend uses, such as "gloo over TCP, 127.0.0.1". Thread-safe.
  virtual std::string describe() const = 0;
};

/// Holds all that is needed to open the backend of a group. Passed to open_backend() and to
/// BackendModule::open.
struct BackendSetup {
  World world;
  GroupOptions options;
  std::shared_ptr<Bootstrap> bootstrap;
  /// The exception that the bootstrap has thrown, or null. open_group() rethrows it unchanged.
  mutable std::exception_ptr thrown = nullptr;
};

/// These return the results of the functions of Bootstrap that have their names. They fail if the
/// bootstrap throws, and then store the exception in setup.thrown, or if the result does not have
/// one part per rank.
Result<std::vector<std::string>> transpose(const BackendSetup& setup,
                                           std::vector<std::string> parts);
Result<std::vector<std::string>> all(const BackendSetup& setup, std::string part);
Result<std::string> from_root(const BackendSetup& setup, std::string part);

/// Returns `options` with the name of a backend instead of "auto".
GroupOptions with_backend(GroupOptions options);

/// Opens the backend that the options name. A backend may open others so, with a World and
/// Bootstrap of its own or with those that it has got. Prefers a built-in backend to a module of
/// the same name. Blocks until all ranks have opened the backend.
Result<std::unique_ptr<Backend>> open_backend(const BackendSetup& setup);

/// Opens the built-in backend whose ranks are threads of one process. Blocks until all ranks have
/// called open_loopback().
Result<std::unique_ptr<Backend>> open_loopback(const BackendSetup& setup);

/// Opens a backend for each kind of device, see split_names(). Fails on every rank if the ranks do
/// not name the same ones.
Result<std::unique_ptr<Backend>> open_composite(const BackendSetup& setup);

/// Version of the interface between a module and its loader. Increase it after a change of a type
/// that module and loader share. A module and its loader must come from the same build.
inline constexpr std::uint32_t kBackendAbi = 9;

/// Describes a module. Each module exports c10dd_backend_module(), which returns its description.
struct BackendModule {
  client::ModuleHead head = {.abi = kBackendAbi, .setup_bytes = sizeof(BackendSetup)};
  Result<std::unique_ptr<Backend>> (*open)(const BackendSetup& setup) = nullptr;
  /// Returns what copies tensors of a device; null if the module knows no device.
  Result<const DeviceCopies*> (*device_copies)() = nullptr;
};

/// Finds, loads and checks `libc10dd_<name>.so`, see load_module(). Thread-safe.
Result<const BackendModule*> load_backend_module(const std::string& name);

}  // namespace c10dd::collectives
