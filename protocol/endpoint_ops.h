// SPDX-License-Identifier: Apache-2.0
// The operation that leases a port for PyTorch's TCPStore clients. Part of the operation table in
// ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <string>

#include "protocol/op_info.h"
#include "protocol/types.h"

namespace c10dd {

/// Reply to lease_endpoint.
struct EndpointLease {
  std::string host;  ///< on which the daemon listens; an address such as 0.0.0.0 stands for all
  std::uint16_t port = 0;
  Duration ttl{0};
};
BOOST_DESCRIBE_STRUCT(EndpointLease, (), (host, port, ttl))

/// Leases an endpoint of the session's job: a port on which the daemon serves only the clients of
/// PyTorch's TCPStore, in this job. An endpoint that has the name already keeps its port, and is
/// renewed: it gets the ttl and the world size of this request.
struct LeaseEndpoint {
  static constexpr OpInfo op{67, "lease_endpoint", OpKind::write, Access::use,
                             1,  Dedup::none,      Growth::needed};
  using Body = EndpointLease;

  std::string name;
  std::string run;  ///< of all connections; if empty, each launch gets a run of its own
  /// How long the endpoint is leased while it has no connection; 0: limits::kEndpointTtl.
  Duration ttl{0};
  std::uint32_t world_size = 0;  ///< of the job, for status pages; 0: unknown
};
BOOST_DESCRIBE_STRUCT(LeaseEndpoint, (), (name, run, ttl, world_size))

}  // namespace c10dd
