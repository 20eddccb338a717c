// SPDX-License-Identifier: Apache-2.0
// Opens a vendor's library at run time, and finds its functions.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "protocol/error.h"

namespace c10dd::collectives::nccl {

/// Returns the handle of a library. Prefers, in this order: the file that the environment variable
/// `variable` names, a library of that name that the process has already loaded, so that there is
/// one copy of it, and the search path of the linker. If there is none, fails with the linker's
/// text. The library is never closed.
inline Result<void*> open_shared(const char* name, const char* variable) {
  const char* const file = std::getenv(variable);
  const bool chosen = file != nullptr && *file != '\0';
  void* handle = chosen ? nullptr : dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) handle = dlopen(chosen ? file : name, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* const reason = dlerror();
  return failure(Code::unsupported, reason == nullptr ? name : reason);
}

/// Fills a table of functions. `each` is each_function() or each_cuda_function(). Returns the name
/// of the first function that the library lacks, or null.
template <class Table, class Each>
const char* resolve(void* handle, Table& table, Each each) {
  const char* lacks = nullptr;
  each([&]<class Function>(const char* symbol, Function Table::*member) {
    table.*member = reinterpret_cast<Function>(dlsym(handle, symbol));
    if (table.*member == nullptr && lacks == nullptr) lacks = symbol;
  });
  return lacks;
}

}  // namespace c10dd::collectives::nccl
