// SPDX-License-Identifier: Apache-2.0
// CallMemory: keeps the memory of ended calls for later calls, so that issuing an operation does
// not allocate.
#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "client/internal/fork_guard.h"

namespace c10dd::collectives {

/// The free blocks of one process group. All blocks have the size of the first one. Exists until
/// release() was called and all blocks have come back. Thread-safe.
class CallMemory {
 public:
  static CallMemory* make() { return new CallMemory; }

  void* allocate(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      ++used_;
      if (!free_.empty()) {
        void* const block = free_.back();
        free_.pop_back();
        return block;
      }
    }
    return ::operator new(bytes);
  }

  void deallocate(void* block) noexcept {
    std::unique_lock lock(mutex_);
    --used_;
    const bool last = released_ && used_ == 0;
    const bool keep = free_.size() < kKept;
    if (keep) free_.push_back(block);
    lock.unlock();
    if (!keep) ::operator delete(block);
    if (last) delete this;
  }

  /// The owner does not allocate any more.
  void release() noexcept {
    std::unique_lock lock(mutex_);
    released_ = true;
    const bool last = used_ == 0;
    lock.unlock();
    if (last) delete this;
  }

 private:
  static constexpr std::size_t kKept = 256;

  CallMemory() { free_.reserve(kKept); }
  ~CallMemory() {
    for (void* block : free_) ::operator delete(block);
  }

  std::mutex mutex_;
  std::vector<void*> free_;
  std::size_t used_ = 0;
  bool released_ = false;
};

/// Allocates from a CallMemory, for std::allocate_shared(). In a forked child, leaks the object and
/// its memory: its locks may be held by threads that do not exist there.
template <class T>
class CallAllocator {
 public:
  using value_type = T;

  CallAllocator(CallMemory* memory, client::HomeProcess home) : memory_(memory), home_(home) {}
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

  CallMemory* memory_;
  client::HomeProcess home_;
};

}  // namespace c10dd::collectives
