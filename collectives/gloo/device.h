// SPDX-License-Identifier: Apache-2.0
// The network device of this rank: Gloo's event loop, bound to one address of this machine.
#pragma once

#include <gloo/transport/device.h>

#include <memory>

#include "collectives/backend.h"

namespace c10dd::collectives {

/// Opens a device. Its address comes from the option `interface`, else from the option `hostname`,
/// else from the variable C10DD_GLOO_INTERFACE or GLOO_SOCKET_IFNAME, else from
/// Bootstrap::local_address(). Fails with `invalid_argument` if the interface or the address is not
/// one of this machine, and with `unavailable` if Gloo or the bootstrap throws. May block on the
/// name look-up.
Result<std::shared_ptr<::gloo::transport::Device>> open_device(const BackendSetup& setup);

}  // namespace c10dd::collectives
