// SPDX-License-Identifier: Apache-2.0
// Turns the error codes of MPI into exceptions, which only this module sees.
#pragma once

#include <mpi.h>

#include <stdexcept>
#include <string_view>

#include "protocol/format.h"

namespace c10dd::collectives::mpi {

/// A call of MPI has failed. The text names the function and has MPI's reason.
class CallFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws CallFailed unless `result`, which the function of MPI has returned, is MPI_SUCCESS.
inline void require(int result, const char* function) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  throw CallFailed(
      format("{}: {}", function, std::string_view(text, static_cast<std::size_t>(length))));
}

}  // namespace c10dd::collectives::mpi
