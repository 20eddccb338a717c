// SPDX-License-Identifier: Apache-2.0
// The memory that a rank of a drill gives to its collectives: on the host, or on a GPU for NCCL.
#pragma once

#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/process_group.h"
#include "tests/gpu/device_values.h"

namespace c10dd::drills {

/// Two areas of zeros. Not thread-safe.
class Memory {
 public:
  /// Takes the GPU of a group of the backend nccl, else memory of the host.
  explicit Memory(const ProcessGroup& group) {
    const std::string text = group.describe();
    const std::size_t at = text.find("cuda:");
    if (at != std::string::npos) gpu_.emplace(std::stoi(text.substr(at + 5)));
    for (Tensor& area : areas_) {
      auto bytes = std::make_shared<std::vector<std::byte>>(kBytes);
      area = {.data = bytes->data(), .count = kBytes, .dtype = DType::uint8, .owner = bytes};
      if (gpu_) area = gpu_->put(*bytes, DType::uint8);
    }
  }

  bool on_gpu() const { return gpu_.has_value(); }

  /// Returns the first `count` elements of an area.
  Tensor elements(std::size_t count, DType dtype = DType::float32, std::size_t area = 0) const {
    Tensor tensor = areas_.at(area);
    if (count * size_of(dtype) > kBytes) throw std::length_error("the area is too small");
    tensor.count = count;
    tensor.dtype = dtype;
    return tensor;
  }

  /// The stream of the elements on a GPU.
  void* stream() const { return gpu_.value().stream(); }

  /// Keeps the stream of the elements busy for this time, with a kernel that looks at the clock.
  void hold_up(std::chrono::nanoseconds time) const {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto call = [](const char* name, auto... arguments) {
      using Function = int (*)(decltype(arguments)...);
      void* const found = driver == nullptr ? nullptr : dlsym(driver, name);
      const auto function = reinterpret_cast<Function>(found);  // NOLINT: from dlsym
      if (function == nullptr || function(arguments...) != 0)
        throw std::runtime_error(std::string(name) + " failed");
    };
    const auto* const cuda = gpu::require(collectives::nccl::Cuda::start());
    const collectives::nccl::CudaDevice::Current current(
        *gpu::require(cuda->device(gpu_.value().index())));
    void* module = nullptr;
    void* kernel = nullptr;
    auto left = static_cast<std::uint64_t>(time.count());
    std::array<void*, 1> parameters = {&left};
    const unsigned one = 1;
    const unsigned none = 0;
    call("cuModuleLoadData", &module, kSpin);
    call("cuModuleGetFunction", &kernel, module, "spin");
    call("cuLaunchKernel", kernel, one, one, one, one, one, one, none, stream(), parameters.data(),
         static_cast<void**>(nullptr));
  }

 private:
  static constexpr std::size_t kBytes = 16 << 10;
  /// Returns after so many nanoseconds.
  static constexpr const char* kSpin = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 length) {
  .reg .u64 %end, %now, %length;
  .reg .pred %early;
  ld.param.u64 %length, [length];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %now, %length;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %early, %now, %end;
  @%early bra again;
  ret;
}
)";

  std::optional<gpu::Gpu> gpu_;
  std::array<Tensor, 2> areas_;
};

}  // namespace c10dd::drills
