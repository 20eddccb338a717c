// SPDX-License-Identifier: Apache-2.0
// Client::rendezvous: see client/membership.h.
#pragma once

#include <memory>

#include "client/internal/connection.h"
#include "client/membership.h"

namespace c10dd::client {

/// Blocks until there is a place. Throws.
std::shared_ptr<Membership> join_group(std::shared_ptr<Client> client,
                                       std::shared_ptr<Connection> connection,
                                       const RendezvousOptions& options);

}  // namespace c10dd::client
