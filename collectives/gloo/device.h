// SPDX-License-Identifier: Apache-2.0
// The network device of this rank: Gloo's event loop, bound to one address of this machine.
#pragma once

#include <gloo/transport/device.h>

#include <memory>

#include "collectives/backend.h"

namespace c10dd::collectives {

/// Opens the device on the first of these that is set: the option interface, the option hostname,
/// the variable C10DD_GLOO_INTERFACE, the bootstrap's local address. Fails with invalid_argument if
/// the value is not an interface or an address of this machine. May block on the name look-up.
Result<std::shared_ptr<::gloo::transport::Device>> open_device(const BackendSetup& setup);

}  // namespace c10dd::collectives
