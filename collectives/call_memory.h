// SPDX-License-Identifier: Apache-2.0
// CallMemory: keeps the memory of ended calls for later calls, so that issuing an operation does
// not allocate.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "client/internal/fork_guard.h"

namespace c10dd::collectives {

/// The free blocks of one process group. All blocks have the size of the first one. Thread-safe.
class CallMemory {
 public:
  CallMemory() { free_.reserve(kKept); }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  ~CallMemory() {
    for (void* block : free_) ::operator delete(block);
  }

  void* allocate(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        void* const block = free_.back();
        free_.pop_back();
        return block;
      }
    }
    return ::operator new(bytes);
  }

  void deallocate(void* block) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (free_.size() < kKept) return free_.push_back(block);
    }
    ::operator delete(block);
  }

 private:
  static constexpr std::size_t kKept = 256;

  std::mutex mutex_;
  std::vector<void*> free_;
};

/// Allocates from a CallMemory, for std::allocate_shared(). In a forked child, leaks the object and
/// its memory: its locks may be held by threads that do not exist there.
template <class T>
class CallAllocator {
 public:
  using value_type = T;

  CallAllocator(std::shared_ptr<CallMemory> memory, client::HomeProcess home)
      : memory_(std::move(memory)), home_(home) {}
  template <class U>
  CallAllocator(const CallAllocator<U>& other) : memory_(other.memory_), home_(other.home_) {}

  T* allocate(std::size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    return static_cast<T*>(memory_->allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t) noexcept {
    if (!home_.forked()) memory_->deallocate(block);
  }
  template <class U>
  void destroy(U* object) noexcept {
    if (!home_.forked()) object->~U();
  }

  template <class U>
  bool operator==(const CallAllocator<U>& other) const {
    return memory_ == other.memory_;
  }

 private:
  template <class U>
  friend class CallAllocator;

  std::shared_ptr<CallMemory> memory_;
  client::HomeProcess home_;
};

}  // namespace c10dd::collectives
