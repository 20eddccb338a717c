// SPDX-License-Identifier: Apache-2.0
// Elements in memory of a GPU, and copies between it and the host.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "collectives/nccl/cuda_driver.h"
#include "collectives/process_group.h"

namespace c10dd::gpu {

template <class T>
T require(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().detail);
  return std::move(*result);
}
inline void require(Result<void> result) {
  if (!result) throw std::runtime_error(result.error().detail);
}

/// The GPU of this rank, with a stream of the test and page-locked memory for copies.
class Gpu {
 public:
  explicit Gpu(int index)
      : device_(*require(require(collectives::nccl::Cuda::start())->device(index))),
        stream_(require(device_.make_stream())),
        host_(require(device_.allocate_host_for_ever(kHostBytes))) {}

  void* stream() const { return stream_; }
  int index() const { return device_.index(); }

  /// Returns a tensor in memory of the GPU with these elements, or the bytes of elements, which the
  /// stream puts there.
  template <class T>
  Tensor put(const std::vector<T>& values, DType dtype) {
    const std::size_t bytes = values.size() * sizeof(T);
    if (bytes > kHostBytes) throw std::runtime_error("the values do not fit the host's memory");
    const std::shared_ptr<void> memory = require(device_.allocate(std::max<std::size_t>(bytes, 1)));
    std::memcpy(host_, values.data(), bytes);
    require(device_.copy(memory.get(), host_, bytes, stream_));
    await();
    return {.data = memory.get(),
            .count = bytes / size_of(dtype),
            .dtype = dtype,
            .device = {Device::Kind::cuda, device_.index()},
            .stream = stream_,
            .owner = memory};
  }

  /// Returns the elements of a tensor, or their bytes, when the stream has got to the copy.
  template <class T>
  std::vector<T> get(const Tensor& tensor) {
    std::vector<T> values(tensor.bytes() / sizeof(T));
    require(device_.copy(host_, tensor.data, tensor.bytes(), stream_));
    await();
    std::memcpy(values.data(), host_, tensor.bytes());
    return values;
  }

 private:
  static constexpr std::size_t kHostBytes = std::size_t{64} << 20;

  void await() {
    const auto event = require(device_.make_event());
    require(event->record(stream_));
    while (!require(event->reached())) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  const collectives::nccl::CudaDevice& device_;
  void* const stream_;
  void* const host_;
};

}  // namespace c10dd::gpu
