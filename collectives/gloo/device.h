// SPDX-License-Identifier: Apache-2.0
// The network device of the own side: one event loop bound to one address of this machine.
#pragma once

#include <gloo/transport/device.h>

#include <memory>

#include "collectives/backend.h"

namespace c10dd::collectives {

/// In this order: option interface, option hostname, C10DD_GLOO_INTERFACE, the bootstrap's local
/// address. Fails with invalid_argument for a name that is no address of this machine.
Result<std::shared_ptr<::gloo::transport::Device>> open_device(const BackendSetup& setup);

}  // namespace c10dd::collectives
