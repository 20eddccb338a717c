// SPDX-License-Identifier: Apache-2.0
// The handles of the C interface: numbers, never used again, so that the use of a closed handle is
// an error and not a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <c10dd.h>

namespace c10dd::c {

/// Base of the objects behind the handles. Each derived class has a `kName` for error texts.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  virtual ~Object() = default;
  /// Ends the calls of other threads.
  virtual void close() {}
  /// Returns whether the objects of other handles use it.
  virtual bool is_used_by_others() const { return false; }
};

/// The handles of this process. Those that are open at exit() are closed then. Thread-safe.
class Handles {
 public:
  Handles();

  /// Gives the object a handle.
  void* add(std::shared_ptr<Object> object);

  /// Returns the object of a handle, which stays as long as the caller uses it. Throws
  /// InvalidArgument for null and for an object of another kind, Forked if the handle was made by
  /// the process from which this one was forked, and Error with Code::closed if it was closed.
  template <class T>
  std::shared_ptr<T> find(const void* handle) {
    const std::shared_ptr<Object> found = get(handle, T::kName, false);
    std::shared_ptr<T> cast = std::dynamic_pointer_cast<T>(found);
    if (!cast) wrong_kind(T::kName);
    return cast;
  }
  /// As find(), and ends the handle.
  template <class T>
  std::shared_ptr<T> take(const void* handle) {
    find<T>(handle);
    return std::static_pointer_cast<T>(get(handle, T::kName, true));
  }

 private:
  static void close_all();
  std::shared_ptr<Object> get(const void* handle, const char* what, bool remove);
  [[noreturn]] static void wrong_kind(const char* what);

  const std::uint64_t before_;  ///< the last number of the process from which this one was forked
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Object>> objects_;
};

/// Returns the handles of this process.
Handles& handles();

}  // namespace c10dd::c
