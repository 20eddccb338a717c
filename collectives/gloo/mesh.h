// SPDX-License-Identifier: Apache-2.0
// Connects all ranks of a group with one transposing exchange of compact addresses: O(1) requests
// and O(size) bytes per rank.
#pragma once

#include <gloo/transport/device.h>

#include <memory>

#include "collectives/gloo/transport.h"

namespace c10dd::collectives {

struct Mesh {
  std::shared_ptr<::gloo::transport::Device> device;
  std::shared_ptr<Transport> transport;
};

/// Connected to every peer and watching them, or the failure that names who did not come.
Result<Mesh> connect_mesh(const BackendSetup& setup);

}  // namespace c10dd::collectives
