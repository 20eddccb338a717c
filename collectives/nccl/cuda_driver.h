// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, which is loaded at run time: devices, events, memory. All that c10dd knows
// of CUDA is here. A stream is a CUstream, which is the same as a cudaStream_t.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/backend.h"
#include "protocol/error.h"

namespace c10dd::collectives::nccl {

struct CudaApi;
class CudaDevice;

/// A point on a stream. Thread-safe.
class CudaEvent final : public DeviceEnd {
 public:
  CudaEvent(const CudaDevice& device, void* event) : device_(device), event_(event) {}
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override;

  /// Makes this the point that `stream` has got to when it has done all that it has now.
  Result<void> record(void* stream);
  Result<void> order(void* stream) override;
  /// Returns whether the stream has come to this point. Fails if an operation of the device has
  /// failed.
  Result<bool> reached() const;

 private:
  const CudaDevice& device_;
  void* const event_;
};

/// A device in its primary context, which is the context that CUDA's runtime uses. The context is
/// kept until the process exits. Thread-safe.
class CudaDevice {
 public:
  /// Makes the context current on this thread, as NCCL needs it, while the object exists.
  class Current {
   public:
    explicit Current(const CudaDevice& device);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const CudaApi& api_;
    bool pushed_ = false;
  };

  CudaDevice(const CudaApi& api, int index, void* context, std::string name, std::string bus_id)
      : api_(api),
        index_(index),
        context_(context),
        name_(std::move(name)),
        bus_id_(std::move(bus_id)) {}

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const std::string& bus_id() const { return bus_id_; }  ///< such as "0000:3b:00.0"

  /// Makes a stream that does not wait for the default stream.
  Result<void*> make_stream() const;
  void destroy_stream(void* stream) const noexcept;

  /// Returns an event that has not been recorded.
  Result<std::shared_ptr<CudaEvent>> make_event() const;

  /// Copies between memory of the device, and memory of allocate_host(), when `stream` gets there.
  Result<void> copy(void* to, const void* from, std::size_t bytes, void* stream) const;

  /// Returns zeroed memory, which is freed on the FreeingThread.
  Result<std::shared_ptr<void>> allocate(std::size_t bytes) const;
  /// Return memory that is never freed: of the device, and of the host for copy().
  Result<void*> allocate_for_ever(std::size_t bytes) const;
  Result<void*> allocate_host_for_ever(std::size_t bytes) const;

 private:
  friend class CudaEvent;

  Result<void*> allocate_raw(std::size_t bytes) const;
  Result<void> clear(void* memory, std::size_t bytes) const;

  const CudaApi& api_;
  const int index_;
  void* const context_;
  const std::string name_;
  const std::string bus_id_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> free_events_;
};

/// CUDA's driver in this process. Thread-safe.
class Cuda {
 public:
  /// Returns the Cuda of this process; the first call loads and starts the driver. Fails with
  /// `unsupported` if there is no driver or no GPU, or in a process that was forked after a first
  /// call.
  static Result<const Cuda*> start();

  int devices() const { return devices_; }  ///< number of GPUs, at least 1

  /// Returns a device, which exists until the process exits. `index` must be below devices().
  Result<const CudaDevice*> device(int index) const;

 private:
  static Result<Cuda*> open();

  std::unique_ptr<const CudaApi> api_;
  int devices_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<const CudaDevice>> opened_;  // by index; null: not yet
};

}  // namespace c10dd::collectives::nccl
