// SPDX-License-Identifier: Apache-2.0
#include "client/c/handles.h"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "client/errors.h"
#include "client/internal/per_process.h"
#include "protocol/format.h"

namespace c10dd::c {
namespace {

std::atomic<std::uint64_t> last_number{0};

}  // namespace

Handles::Handles() : before_(last_number.load()) {}

void* Handles::add(std::shared_ptr<Object> object) {
  static const int registered = std::atexit(close_all);
  static_cast<void>(registered);  // without it, the daemon waits for the session to expire
  const std::uint64_t number = ++last_number;
  const std::lock_guard lock(mutex_);
  objects_.emplace(number, std::move(object));
  // A number that looks like a pointer, and is never used as one.
  return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
      static_cast<std::uintptr_t>(number));
}

std::shared_ptr<Object> Handles::get(const void* handle, const char* what, bool remove) {
  const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(handle));
  if (number == 0) throw InvalidArgument(format("the {} is null", what));
  if (number <= before_) {
    throw Forked(
        format("this {} belongs to the parent process; connect again in this process", what));
  }
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(number);
  if (found == objects_.end()) throw Error(Code::closed, format("the {} was closed", what));
  if (!remove) return found->second;
  std::shared_ptr<Object> object = std::move(found->second);
  objects_.erase(found);
  return object;
}

/// Says goodbye to the daemon. A forked child has handles of its own.
void Handles::close_all() {
  decltype(objects_) open;
  {
    Handles& all = handles();
    const std::lock_guard lock(all.mutex_);
    open.swap(all.objects_);
  }
  for (const bool used_by_others : {false, true}) {
    for (auto& [number, object] : open) {
      if (!object || object->is_used_by_others() != used_by_others) continue;
      object->close();
      object.reset();
    }
  }
}

void Handles::wrong_kind(const char* what) {
  throw InvalidArgument(format("this handle is not the handle of a {}", what));
}

Handles& handles() { return client::of_this_process<Handles>(); }

}  // namespace c10dd::c
