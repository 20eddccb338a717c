// SPDX-License-Identifier: Apache-2.0
// Makes one backend of several that are open, see open_composite().
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/backend.h"
#include "collectives/backend_names.h"

namespace c10dd::collectives {

/// A backend, and the kind of device whose tensors it gets.
struct BackendPart {
  BackendName name;
  std::unique_ptr<Backend> backend;
  std::size_t in_flight = 0;  ///< operations that it runs
};

/// Returns a backend that runs each operation on the part of its tensors' device, or on the first
/// part if there is none for it. After the first failure of a part it aborts the others.
std::unique_ptr<Backend> compose(std::vector<BackendPart> parts);

}  // namespace c10dd::collectives
