// SPDX-License-Identifier: Apache-2.0
// The implementation of Client::rendezvous() and of Membership, see client/membership.h.
#pragma once

#include <memory>

#include "client/internal/connection.h"
#include "client/membership.h"

namespace c10dd::client {

/// Joins the group. Blocks until this process has a place in a generation; throws as
/// Client::rendezvous() does.
std::shared_ptr<Membership> join_group(std::shared_ptr<Client> client,
                                       std::shared_ptr<Connection> connection,
                                       const RendezvousOptions& options);

}  // namespace c10dd::client
