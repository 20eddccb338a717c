// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/library.h"

#include <mutex>
#include <optional>

#include "collectives/nccl/shared_object.h"
#include "protocol/format.h"

namespace c10dd::collectives::nccl {

Result<const Library*> Library::load() {
  // A failure is not remembered: the program may load NCCL, and try again.
  static std::mutex mutex;
  static std::optional<Library> library;
  const std::lock_guard lock(mutex);
  if (library) return &*library;
  Result<Library> opened = open();
  if (!opened) return opened.error();
  library = *opened;
  return &*library;
}

Result<Library> Library::open() {
  const Result<void*> handle = open_shared("libnccl.so.2", "C10DD_NCCL_LIBRARY");
  if (!handle) {
    return failure(Code::unsupported,
                   "nccl: the NCCL library cannot be loaded: {}; install NCCL, or set "
                   "C10DD_NCCL_LIBRARY to the path of libnccl.so.2",
                   handle.error().detail);
  }
  Library library;
  const char* const lacks =
      resolve(*handle, library.api_, [](auto f) { each_function(std::move(f)); });
  if (library.api_.version != nullptr) library.api_.version(&library.version_);
  if (lacks == nullptr) return library;
  return failure(Code::unsupported,
                 "nccl: NCCL {} lacks the function {}; c10dd needs NCCL 2.23 or newer",
                 library.version_text(), lacks);
}

std::string Library::version_text() const {
  constexpr int kMajor = 10'000;
  constexpr int kMinor = 100;
  return format("{}.{}.{}", version_ / kMajor, version_ % kMajor / kMinor, version_ % kMinor);
}

std::string Library::text_of(const char* call, Status status, Comm comm) const {
  std::string text = format("{}: {}", call, api_.error_text(status));
  const char* const last = api_.last_error(comm);
  if (last == nullptr || *last == '\0') return text;
  std::string more = last;  // lines of NCCL's log
  while (!more.empty() && (more.back() == '\n' || more.back() == ' ')) more.pop_back();
  for (char& c : more) c = c == '\n' ? ' ' : c;
  return more.empty() ? text : format("{} ({})", text, more);
}

}  // namespace c10dd::collectives::nccl
