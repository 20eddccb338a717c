// SPDX-License-Identifier: Apache-2.0
// Library: NCCL in this process.
#pragma once

#include <string>

#include "collectives/nccl/api.h"
#include "protocol/error.h"

namespace c10dd::collectives::nccl {

/// NCCL's functions and version. Thread-safe.
class Library {
 public:
  /// Returns the Library of this process. The first call loads libnccl.so.2, unless the process has
  /// already loaded it. Fails with `unsupported` if there is none, or if it is too old.
  static Result<const Library*> load();

  const Api& api() const { return api_; }
  int version() const { return version_; }  ///< such as 22809 for 2.28.9
  std::string version_text() const;         ///< such as "2.28.9"

  /// Returns the text of a failure of `call`. `comm` is the communicator of the call, or null.
  std::string text_of(const char* call, Status status, Comm comm = nullptr) const;

 private:
  static Result<Library> open();

  Api api_ = {};
  int version_ = 0;
};

}  // namespace c10dd::collectives::nccl
