// SPDX-License-Identifier: Apache-2.0
// Connects all ranks of a group with each other, after one exchange of compact addresses. Per rank
// that takes one request to the daemon and O(size) bytes.
#pragma once

#include <gloo/transport/device.h>

#include <memory>

#include "collectives/gloo/transport.h"

namespace c10dd::collectives {

/// The connections of one rank to all others.
struct Mesh {
  std::shared_ptr<::gloo::transport::Device> device;
  std::shared_ptr<Transport> transport;
};

/// Connects to every peer and starts to watch them. Blocks until all are connected. Fails with
/// unavailable, and names the ranks to which there is no connection.
Result<Mesh> connect_mesh(const BackendSetup& setup);

}  // namespace c10dd::collectives
