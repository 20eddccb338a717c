// SPDX-License-Identifier: Apache-2.0
// The operation by which clients report measurements. Part of the operation table in ops.h.
#pragma once

#include <boost/describe/class.hpp>
#include <string>
#include <vector>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Totals of one collective since the session started.
struct CollectiveTotals {
  std::string process_group;  ///< kind of the process group: dp, tp, pp, ...
  std::string collective;     ///< all_reduce, broadcast, ...
  std::string backend;
  std::uint64_t count = 0;     ///< completed calls
  std::uint64_t failures = 0;  ///< failed calls
  std::uint64_t payload_bytes = 0;
  std::uint64_t bus_bytes = 0;  ///< payload_bytes times the bus factor that nccl-tests defines
  std::uint64_t duration_ns = 0;
  std::vector<std::uint64_t> buckets;  ///< calls per bucket of kCoarseBounds, not cumulative
  /// Calls per bound of kFineBounds, not cumulative. buckets[0] counts these calls, too. Empty in
  /// the reports of older clients.
  std::vector<std::uint64_t> fine_buckets;
  std::uint64_t queue_ns = 0;  ///< time between issue and start of the completed calls
  /// Completed calls by this time, per bucket of kCollectiveBounds, not cumulative. Empty in the
  /// reports of older clients.
  std::vector<std::uint64_t> queue_buckets;
  std::uint64_t in_flight = 0;  ///< calls that were issued and have not ended; not a total
};
BOOST_DESCRIBE_STRUCT(CollectiveTotals, (),
                      (process_group, collective, backend, count, failures, payload_bytes,
                       bus_bytes, duration_ns, buckets, fine_buckets, queue_ns, queue_buckets,
                       in_flight))

/// Reports totals since the start of the session. The daemon counts only the difference from the
/// session's previous report, so a lost or repeated report does no harm.
struct Report {
  static constexpr OpInfo op{64, "report",    OpKind::event, Access::use,
                             1,  Dedup::none, Growth::none};
  using Body = Done;

  std::uint64_t number = 0;  ///< strictly increasing per session
  std::vector<CollectiveTotals> collectives;
};
BOOST_DESCRIBE_STRUCT(Report, (), (number, collectives))

}  // namespace c10dd
