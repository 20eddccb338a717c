// SPDX-License-Identifier: Apache-2.0
// The part of the interface of CUDA's driver that c10dd uses, declared by c10dd itself, as in
// api.h. Included only by cuda_driver.cc, and by api_check.cc, which compares it with cuda.h.
#pragma once

#include <cstddef>

namespace c10dd::collectives::nccl {

enum class CudaStatus : int { success = 0, not_initialized = 3, no_device = 100, not_ready = 600 };

/// A device address.
using CudaAddress = unsigned long long;

inline constexpr unsigned int kStreamNonBlocking = 1;
inline constexpr unsigned int kEventDisableTiming = 2;

struct CudaApi {
  CudaStatus (*init)(unsigned int flags);
  CudaStatus (*driver_version)(int* version);
  CudaStatus (*error_text)(CudaStatus status, const char** text);
  CudaStatus (*device_count)(int* count);
  CudaStatus (*device)(int* device, int index);
  CudaStatus (*device_name)(char* name, int size, int device);
  CudaStatus (*bus_id)(char* id, int size, int device);
  CudaStatus (*retain_primary_context)(void** context, int device);
  CudaStatus (*push_context)(void* context);
  CudaStatus (*pop_context)(void** context);
  CudaStatus (*create_stream)(void** stream, unsigned int flags);
  CudaStatus (*destroy_stream)(void* stream);
  CudaStatus (*stream_wait)(void* stream, void* event, unsigned int flags);
  CudaStatus (*create_event)(void** event, unsigned int flags);
  CudaStatus (*destroy_event)(void* event);
  CudaStatus (*record_event)(void* event, void* stream);
  CudaStatus (*query_event)(void* event);
  CudaStatus (*allocate)(CudaAddress* address, std::size_t bytes);
  CudaStatus (*free)(CudaAddress address);
  CudaStatus (*allocate_host)(void** memory, std::size_t bytes);
  CudaStatus (*free_host)(void* memory);
  CudaStatus (*copy)(CudaAddress to, CudaAddress from, std::size_t bytes, void* stream);
  CudaStatus (*clear)(CudaAddress address, unsigned char value, std::size_t bytes, void* stream);
};

/// Calls f(name of the symbol, pointer to the member) for each function.
template <class F>
constexpr void each_cuda_function(F f) {
  f("cuInit", &CudaApi::init);
  f("cuDriverGetVersion", &CudaApi::driver_version);
  f("cuGetErrorString", &CudaApi::error_text);
  f("cuDeviceGetCount", &CudaApi::device_count);
  f("cuDeviceGet", &CudaApi::device);
  f("cuDeviceGetName", &CudaApi::device_name);
  f("cuDeviceGetPCIBusId", &CudaApi::bus_id);
  f("cuDevicePrimaryCtxRetain", &CudaApi::retain_primary_context);
  f("cuCtxPushCurrent_v2", &CudaApi::push_context);
  f("cuCtxPopCurrent_v2", &CudaApi::pop_context);
  f("cuStreamCreate", &CudaApi::create_stream);
  f("cuStreamDestroy_v2", &CudaApi::destroy_stream);
  f("cuStreamWaitEvent", &CudaApi::stream_wait);
  f("cuEventCreate", &CudaApi::create_event);
  f("cuEventDestroy_v2", &CudaApi::destroy_event);
  f("cuEventRecord", &CudaApi::record_event);
  f("cuEventQuery", &CudaApi::query_event);
  f("cuMemAlloc_v2", &CudaApi::allocate);
  f("cuMemFree_v2", &CudaApi::free);
  f("cuMemAllocHost_v2", &CudaApi::allocate_host);
  f("cuMemFreeHost", &CudaApi::free_host);
  f("cuMemcpyAsync", &CudaApi::copy);
  f("cuMemsetD8Async", &CudaApi::clear);
}

}  // namespace c10dd::collectives::nccl
