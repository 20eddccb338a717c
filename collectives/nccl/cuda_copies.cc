// SPDX-License-Identifier: Apache-2.0
// Copies in pieces through page-locked memory, because a copy of other memory would block in the
// driver for as long as the stream takes.
#include "collectives/nccl/cuda_copies.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/internal/per_process.h"
#include "collectives/nccl/cuda_driver.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;
constexpr auto kCopyPoll = std::chrono::microseconds(20);

/// A stream of a device, and page-locked memory for a piece. Used by one copy at a time.
struct Path {
  const CudaDevice* device = nullptr;
  void* stream = nullptr;
  void* memory = nullptr;
};

/// The paths that no copy uses. They are kept until the process exits. Thread-safe.
class Paths {
 public:
  Result<Path> take(int index) {
    {
      const std::lock_guard lock(mutex_);
      auto& free = free_[index];
      if (!free.empty()) {
        const Path path = free.back();
        free.pop_back();
        return path;
      }
    }
    const Result<const Cuda*> cuda = Cuda::start();
    if (!cuda) return cuda.error();
    if (index < 0 || index >= (*cuda)->devices()) {
      return failure(Code::invalid_argument,
                     "a tensor is on cuda:{}, but this process has {} GPUs, numbered from 0", index,
                     (*cuda)->devices());
    }
    const Result<const CudaDevice*> device = (*cuda)->device(index);
    if (!device) return device.error();
    const Result<void*> stream = (*device)->make_stream();
    if (!stream) return stream.error();
    const Result<void*> memory = (*device)->allocate_host_for_ever(kPiece);
    if (!memory) return memory.error();
    return Path{*device, *stream, *memory};
  }

  void give_back(const Path& path) {
    const std::lock_guard lock(mutex_);
    free_[path.device->index()].push_back(path);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Path>> free_;  // by device
};

/// Blocks until the stream has done what it has now.
Result<void> await(const CudaDevice& device, void* stream) {
  const auto event = device.make_event();
  if (!event) return event.error();
  if (Result<void> recorded = (*event)->record(stream); !recorded) return recorded;
  while (true) {
    const Result<bool> reached = (*event)->reached();
    if (!reached) return reached.error();
    if (*reached) return {};
    std::this_thread::sleep_for(kCopyPoll);
  }
}

class CudaCopies final : public DeviceCopies {
 public:
  Result<void> to_host(void* host, const Tensor& tensor) const override {
    return along(tensor, [&](const Path& path) -> Result<void> {
      if (Result<void> done = await(*path.device, tensor.stream); !done) return done;
      return pieces(tensor.bytes(), [&](std::size_t at, std::size_t bytes) -> Result<void> {
        const auto* const from = static_cast<const std::byte*>(tensor.data) + at;
        if (Result<void> put = path.device->copy(path.memory, from, bytes, path.stream); !put) {
          return put;
        }
        if (Result<void> done = await(*path.device, path.stream); !done) return done;
        std::memcpy(static_cast<std::byte*>(host) + at, path.memory, bytes);
        return {};
      });
    });
  }

  Result<void> to_device(const Tensor& tensor, const void* host, std::size_t all) const override {
    return along(tensor, [&](const Path& path) {
      return pieces(all, [&](std::size_t at, std::size_t bytes) -> Result<void> {
        std::memcpy(path.memory, static_cast<const std::byte*>(host) + at, bytes);
        auto* const to = static_cast<std::byte*>(tensor.data) + at;
        if (Result<void> put = path.device->copy(to, path.memory, bytes, path.stream); !put) {
          return put;
        }
        return await(*path.device, path.stream);
      });
    });
  }

 private:
  template <class Copy>
  static Result<void> along(const Tensor& tensor, Copy copy) {
    const Result<Path> path = client::of_this_process<Paths>().take(tensor.device.index);
    if (!path) return path.error();
    Result<void> result = copy(*path);
    client::of_this_process<Paths>().give_back(*path);
    return result;
  }

  template <class Copy>
  static Result<void> pieces(std::size_t all, Copy copy) {
    for (std::size_t at = 0; at < all; at += kPiece) {
      if (Result<void> copied = copy(at, std::min(kPiece, all - at)); !copied) return copied;
    }
    return {};
  }
};

}  // namespace

Result<const DeviceCopies*> cuda_copies() {
  static const CudaCopies copies;
  const Result<const Cuda*> cuda = Cuda::start();
  if (!cuda) return cuda.error();
  return &copies;
}

}  // namespace c10dd::collectives::nccl
