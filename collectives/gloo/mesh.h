// SPDX-License-Identifier: Apache-2.0
// Connects all ranks of a group with each other. First the ranks exchange compact addresses. This
// costs each rank one request to the daemon and O(size) bytes.
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

/// Connects to every peer and starts to watch the peers. Blocks until all are connected. Fails with
/// code unavailable if a peer cannot be connected, and names all such peers.
Result<Mesh> connect_mesh(const BackendSetup& setup);

}  // namespace c10dd::collectives
