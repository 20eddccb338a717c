// SPDX-License-Identifier: Apache-2.0
// Counts the requests of one shard without touching memory that other shards write. flush() adds
// the counts to the metrics. Not thread-safe: belongs to the loop of its shard.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/metrics/metrics.h"
#include "protocol/metric_catalog.h"

namespace c10dd::daemon {

class RequestTally {
 public:
  explicit RequestTally(Metrics& metrics) : metrics_(metrics) {}

  void request(Protocol protocol, const OpInfo& op) {
    ++ops_[op.code].requests[index_of(protocol)];
  }

  /// Counts a reply that was sent. took: the time from the arrival of the request to the release
  /// of the reply. For blocking operations `took` is ignored, because core::WaitEnded reports their
  /// time.
  void answered(const OpInfo& op, Code outcome, Duration took) {
    if (op.kind != OpKind::wait) observe(ops_[op.code], took);
    if (outcome != Code::ok) metrics_.failed(op, outcome);
  }

  /// Adds to the metrics what was counted since the last call of flush().
  void flush() {
    for_each_op([this]<class Op>(std::type_identity<Op>) {
      Counts& counts = ops_[Op::op.code];
      for (const ProtocolName& entry : kProtocols) {
        const std::uint64_t count = counts.requests[index_of(entry.protocol)];
        if (count > 0) metrics_.requests(entry.protocol, Op::op, count);
      }
      if (counts.timed > 0) metrics_.took(Op::op, counts.buckets, counts.seconds);
      counts = {};
    });
  }

 private:
  struct Counts {
    std::array<std::uint64_t, kProtocolCount> requests{};
    std::uint64_t timed = 0;
    double seconds = 0;
    RequestBuckets buckets{};
  };

  static void observe(Counts& counts, Duration took) {
    const double seconds = std::chrono::duration<double>(took).count();
    std::size_t bucket = 0;
    while (bucket < metric::kRequestBounds.size() && seconds > metric::kRequestBounds[bucket]) {
      ++bucket;
    }
    ++counts.buckets[bucket];
    ++counts.timed;
    counts.seconds += seconds;
  }

  Metrics& metrics_;
  std::array<Counts, 256> ops_{};  // by code
};

}  // namespace c10dd::daemon
