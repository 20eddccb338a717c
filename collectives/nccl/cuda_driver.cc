// SPDX-License-Identifier: Apache-2.0
// Each function that needs the context makes it current on its thread, because any thread may call.
#include "collectives/nccl/cuda_driver.h"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "client/internal/fork_guard.h"
#include "collectives/nccl/cuda_driver_api.h"
#include "collectives/nccl/freeing_thread.h"
#include "collectives/nccl/shared_object.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {
namespace {

std::string driver_text(const CudaApi& api, CudaStatus status) {
  const char* text = nullptr;
  if (api.error_text(status, &text) == CudaStatus::success && text != nullptr) return text;
  return format("error {}", static_cast<int>(status));
}

Failure failed(const CudaApi& api, const char* call, CudaStatus status) {
  return failure(Code::internal, "{}: {}", call, driver_text(api, status));
}

Result<void> checked(const CudaApi& api, const char* call, CudaStatus status) {
  if (status == CudaStatus::success) return {};
  return failed(api, call, status);
}

CudaAddress address_of(const void* memory) { return reinterpret_cast<CudaAddress>(memory); }

constexpr int kText = 128;

}  // namespace

CudaDevice::Current::Current(const CudaDevice& device) : api_(device.api_) {
  pushed_ = api_.push_context(device.context_) == CudaStatus::success;
}

CudaDevice::Current::~Current() {
  if (!pushed_) return;
  void* popped = nullptr;
  api_.pop_context(&popped);
}

CudaEvent::~CudaEvent() {
  const std::lock_guard lock(device_.mutex_);
  device_.free_events_.push_back(event_);
}

Result<void> CudaEvent::record(void* stream) {
  const CudaDevice::Current current(device_);
  return checked(device_.api_, "cuEventRecord", device_.api_.record_event(event_, stream));
}

Result<void> CudaEvent::order(void* stream) {
  const CudaDevice::Current current(device_);
  return checked(device_.api_, "cuStreamWaitEvent", device_.api_.stream_wait(stream, event_, 0));
}

Result<bool> CudaEvent::reached() const {
  const CudaDevice::Current current(device_);
  const CudaStatus status = device_.api_.query_event(event_);
  if (status == CudaStatus::not_ready) return false;
  const Result<void> result = checked(device_.api_, "cuEventQuery", status);
  if (!result) return result.error();
  return true;
}

Result<void*> CudaDevice::make_stream() const {
  const Current current(*this);
  void* stream = nullptr;
  const CudaStatus status = api_.create_stream(&stream, kStreamNonBlocking);
  if (status != CudaStatus::success) return failed(api_, "cuStreamCreate", status);
  return stream;
}

void CudaDevice::destroy_stream(void* stream) const noexcept {
  const Current current(*this);
  api_.destroy_stream(stream);
}

Result<std::shared_ptr<CudaEvent>> CudaDevice::make_event() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      void* const event = free_events_.back();
      free_events_.pop_back();
      return std::make_shared<CudaEvent>(*this, event);
    }
  }
  const Current current(*this);
  void* event = nullptr;
  const CudaStatus status = api_.create_event(&event, kEventDisableTiming);
  if (status != CudaStatus::success) return failed(api_, "cuEventCreate", status);
  return std::make_shared<CudaEvent>(*this, event);
}

Result<void> CudaDevice::copy(void* to, const void* from, std::size_t bytes, void* stream) const {
  if (bytes == 0) return {};
  const Current current(*this);
  return checked(api_, "cuMemcpyAsync", api_.copy(address_of(to), address_of(from), bytes, stream));
}

Result<void*> CudaDevice::allocate_raw(std::size_t bytes) const {
  const Current current(*this);
  CudaAddress address = 0;
  const CudaStatus status = api_.allocate(&address, bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver has addresses as integers
  if (status == CudaStatus::success) return reinterpret_cast<void*>(address);
  return failure(Code::unavailable, "cannot allocate {} bytes on cuda:{}: {}", bytes, index_,
                 driver_text(api_, status));
}

Result<std::shared_ptr<void>> CudaDevice::allocate(std::size_t bytes) const {
  const Result<void*> raw = allocate_raw(bytes);
  if (!raw) return raw.error();
  std::shared_ptr<void> memory(*raw, [this](void* data) {
    FreeingThread::instance().run([this, data] {
      const Current current(*this);
      api_.free(address_of(data));
    });
  });
  if (const Result<void> cleared = clear(memory.get(), bytes); !cleared) return cleared.error();
  return memory;
}

Result<void> CudaDevice::clear(void* memory, std::size_t bytes) const {
  const Result<void*> stream = make_stream();
  if (!stream) return stream.error();
  const std::shared_ptr<void> kept(*stream, [this](void* used) { destroy_stream(used); });
  const auto done = make_event();
  if (!done) return done.error();
  {
    const Current current(*this);
    const CudaStatus status = api_.clear(address_of(memory), 0, bytes, *stream);
    if (status != CudaStatus::success) return failed(api_, "cuMemsetD8Async", status);
  }
  if (const Result<void> recorded = (*done)->record(*stream); !recorded) return recorded;
  while (true) {
    const Result<bool> reached = (*done)->reached();
    if (!reached) return reached.error();
    if (*reached) return {};
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Result<void*> CudaDevice::allocate_for_ever(std::size_t bytes) const { return allocate_raw(bytes); }

Result<void*> CudaDevice::allocate_host_for_ever(std::size_t bytes) const {
  const Current current(*this);
  void* memory = nullptr;
  const CudaStatus status = api_.allocate_host(&memory, bytes);
  if (status == CudaStatus::success) return memory;
  return failure(Code::unavailable, "cannot allocate {} bytes of page-locked memory: {}", bytes,
                 driver_text(api_, status));
}

Result<const Cuda*> Cuda::start() {
  // A failure is not remembered. The object is never destroyed, because threads may use it while
  // the process exits.
  static std::mutex mutex;
  static Cuda* cuda = nullptr;
  static const client::HomeProcess home;
  if (home.forked()) {
    return failure(
        Code::unsupported,
        "nccl: this process was forked from a process that had used CUDA, and CUDA does not "
        "work after a fork; start this process with exec");
  }
  const std::lock_guard lock(mutex);
  if (cuda != nullptr) return cuda;
  const Result<Cuda*> opened = open();
  if (!opened) return opened.error();
  cuda = *opened;
  return cuda;
}

Result<Cuda*> Cuda::open() {
  const Result<void*> handle = open_shared("libcuda.so.1", "C10DD_CUDA_LIBRARY");
  if (!handle) {
    return failure(Code::unsupported,
                   "nccl: the NVIDIA driver cannot be loaded: {}; run on a machine with an NVIDIA "
                   "GPU and its driver, or choose backend gloo",
                   handle.error().detail);
  }
  auto api = std::make_unique<CudaApi>();
  const char* const lacks =
      resolve(*handle, *api, [](auto f) { each_cuda_function(std::move(f)); });
  if (lacks != nullptr) {
    return failure(Code::unsupported,
                   "nccl: the NVIDIA driver lacks the function {}; install a newer driver", lacks);
  }
  int devices = 0;
  CudaStatus status = api->init(0);
  if (status == CudaStatus::success) status = api->device_count(&devices);
  if (status != CudaStatus::success || devices == 0) {
    return failure(
        Code::unsupported,
        "nccl: no GPU can be used: {}; check nvidia-smi and CUDA_VISIBLE_DEVICES, or "
        "choose backend gloo",
        status == CudaStatus::success ? "the driver reports 0 devices" : driver_text(*api, status));
  }
  auto* const cuda = new Cuda;
  cuda->api_ = std::move(api);
  cuda->devices_ = devices;
  cuda->opened_.resize(static_cast<std::size_t>(devices));
  return cuda;
}

Result<const CudaDevice*> Cuda::device(int index) const {
  const std::lock_guard lock(mutex_);
  auto& opened = opened_.at(static_cast<std::size_t>(index));
  if (opened) return opened.get();
  int device = 0;
  void* context = nullptr;
  std::array<char, kText> name{};
  std::array<char, kText> bus_id{};
  CudaStatus status = api_->device(&device, index);
  if (status == CudaStatus::success) status = api_->device_name(name.data(), kText, device);
  if (status == CudaStatus::success) status = api_->bus_id(bus_id.data(), kText, device);
  if (status == CudaStatus::success) status = api_->retain_primary_context(&context, device);
  if (status != CudaStatus::success) {
    return failure(Code::unsupported, "nccl: cuda:{} cannot be used: {}; check it with nvidia-smi",
                   index, driver_text(*api_, status));
  }
  opened = std::make_unique<const CudaDevice>(*api_, index, context, name.data(), bus_id.data());
  return opened.get();
}

}  // namespace c10dd::collectives::nccl
