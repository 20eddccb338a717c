// SPDX-License-Identifier: Apache-2.0
// The stand-in for libcuda.so.1. A stream is a thread that calls functions in their order.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "tests/unit/collectives/nccl/stand_in.h"

namespace c10dd::stand_in {
namespace {

constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidContext = 201;
constexpr int kNotReady = 600;
constexpr int kDevices = 16;

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  void put(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ends_ = false;
  std::thread thread_;
};

struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  int recorded = 0;  // how often it was recorded
  int reached = 0;   // the last record that the stream has come to
};
/// An event lives as long as a stream needs it.
std::map<void*, std::shared_ptr<Event>> events;
std::mutex events_mutex;

std::shared_ptr<Event> event_of(void* handle) {
  const std::lock_guard lock(events_mutex);
  return events.at(handle);
}

struct Context {
  int device = 0;
  std::unique_ptr<Stream> default_stream = std::make_unique<Stream>();
};
Context& context_of(int device) {
  static std::mutex mutex;
  static std::map<int, Context>* const contexts = new std::map<int, Context>;
  const std::lock_guard lock(mutex);
  Context& context = (*contexts)[device];
  context.device = device;
  return context;
}

thread_local std::vector<Context*> current;

Stream& stream_of(void* handle) {
  return handle == nullptr ? *current.back()->default_stream : *static_cast<Stream*>(handle);
}

bool may_allocate() {
  std::atomic<int>& left = cuda_control().memory_left;
  return left == 0 || --left > 0;
}

}  // namespace

CudaControl& cuda_control() {
  static CudaControl control;
  return control;
}

void put_on_stream(void* stream, std::function<void()> task) {
  stream_of(stream).put(std::move(task));
}

void put_on_default_stream(int device, std::function<void()> task) {
  context_of(device).default_stream->put(std::move(task));
}

int current_device() { return current.empty() ? -1 : current.back()->device; }

// NOLINTBEGIN(readability-identifier-naming): the names of the CUDA driver
extern "C" {

int cuInit(unsigned) { return cuda_control().init_status; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuGetErrorString(int status, const char** text) {
  *text = status == kOutOfMemory ? "out of memory" : "no CUDA-capable device is detected";
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = cuda_control().devices;
  return kSuccess;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return kSuccess;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<std::size_t>(size), "stand-in");
  return kSuccess;
}
int cuDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02x:00.0", device % kDevices);
  return kSuccess;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &context_of(device);
  return kSuccess;
}
int cuCtxPushCurrent_v2(void* context) {
  current.push_back(static_cast<Context*>(context));
  return kSuccess;
}
int cuCtxPopCurrent_v2(void** context) {
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream;
  return kSuccess;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}
int cuEventCreate(void** event, unsigned) {
  const auto made = std::make_shared<Event>();
  const std::lock_guard lock(events_mutex);
  *event = made.get();
  events[*event] = made;
  return kSuccess;
}
int cuEventDestroy_v2(void* event) {
  const std::lock_guard lock(events_mutex);
  events.erase(event);
  return kSuccess;
}
int cuEventRecord(void* handle, void* stream) {
  if (current.empty()) return kInvalidContext;
  const auto event = event_of(handle);
  int number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = ++event->recorded;
  }
  stream_of(stream).put([event, number] {
    const std::lock_guard lock(event->mutex);
    event->reached = std::max(event->reached, number);
    event->changed.notify_all();
  });
  return kSuccess;
}
int cuEventQuery(void* handle) {
  if (current.empty()) return kInvalidContext;
  const auto event = event_of(handle);
  const std::lock_guard lock(event->mutex);
  return event->reached >= event->recorded ? kSuccess : kNotReady;
}
int cuStreamWaitEvent(void* stream, void* handle, unsigned) {
  if (current.empty()) return kInvalidContext;
  const auto event = event_of(handle);
  int number = 0;
  {
    const std::lock_guard lock(event->mutex);
    number = event->recorded;
  }
  stream_of(stream).put([event, number] {
    std::unique_lock lock(event->mutex);
    event->changed.wait(lock, [&] { return event->reached >= number; });
  });
  return kSuccess;
}
int cuMemAlloc_v2(unsigned long long* address, std::size_t bytes) {
  if (!may_allocate()) return kOutOfMemory;
  void* const memory = std::malloc(bytes);
  std::memset(memory, 0xAB, bytes);
  *address = reinterpret_cast<unsigned long long>(memory);
  return kSuccess;
}
int cuMemFree_v2(unsigned long long address) {
  while (cuda_control().frees_hang) std::this_thread::yield();
  std::free(reinterpret_cast<void*>(address));
  return kSuccess;
}
int cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  if (!may_allocate()) return kOutOfMemory;
  *memory = std::malloc(bytes);
  return kSuccess;
}
int cuMemFreeHost(void* memory) {
  std::free(memory);
  return kSuccess;
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  if (current.empty()) return kInvalidContext;
  stream_of(stream).put([=] {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return kSuccess;
}
int cuMemsetD8Async(unsigned long long address, unsigned char value, std::size_t bytes,
                    void* stream) {
  stream_of(stream).put([=] { std::memset(reinterpret_cast<void*>(address), value, bytes); });
  return kSuccess;
}
}
// NOLINTEND(readability-identifier-naming)

}  // namespace c10dd::stand_in
