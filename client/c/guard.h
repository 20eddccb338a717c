// SPDX-License-Identifier: Apache-2.0
// Helpers of all functions of the C interface: they check arguments, and turn exceptions into
// codes.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10dd.h>
#include "client/errors.h"
#include "client/internal/caller.h"

namespace c10dd::c {

class Block;

/// Throws InvalidArgument if `pointer` is null; `what` names the argument.
void require(const void* pointer, const char* what);

/// Copies a struct that begins with its size. Throws InvalidArgument if the size is below `known`,
/// and if fields after `known` bytes, of a later version, are not zero.
void copy_options(const void* given, std::size_t known, void* options, const char* what);

/// Returns the struct of the caller, or `defaults` if `given` is null. `what` names it.
template <class T>
T options_of(const T* given, T defaults, const char* what) {
  if (given != nullptr) copy_options(given, sizeof(T), &defaults, what);
  return defaults;
}

std::string_view bytes_of(c10dd_view view, const char* what);
std::vector<std::string> strings_of(const c10dd_view* items, std::size_t count, const char* what);
/// Returns a text that may be null.
std::string text_of(const char* text);
const c10dd_missing* copy(Block& block, const std::vector<Missing>& missing);

/// The call of this thread, as the caller wants it.
class Call {
 public:
  explicit Call(const c10dd_call* call);
  /// Returns the time-out of the caller, or `usual`.
  Duration timeout(Duration usual) const { return timeout_.value_or(usual); }

 private:
  std::optional<Duration> timeout_;
  client::Caller caller_;
  client::CallerScope scope_;
};

/// Returns whether `error` is null or can be filled; clears it.
bool clear(c10dd_error* error) noexcept;
/// Fills `error` from the present exception, and returns its code.
c10dd_code caught(c10dd_error* error) noexcept;

/// Calls `body`, and turns its exception into a code.
template <class Body>
c10dd_code guarded(c10dd_error* error, Body&& body) noexcept {
  if (!clear(error)) return C10DD_INVALID_ARGUMENT;
  try {
    body();
    return C10DD_OK;
  } catch (...) {
    return caught(error);
  }
}

}  // namespace c10dd::c
