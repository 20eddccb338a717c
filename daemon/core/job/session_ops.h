// SPDX-License-Identifier: Apache-2.0
// Opens sessions, notes when sessions lose their connections, and ends sessions together with
// everything that they own.
#pragma once

#include <utility>
#include <vector>

#include "daemon/core/job/key_ops.h"
#include "daemon/core/job/queue_ops.h"
#include "daemon/core/reports/collective_activity.h"
#include "daemon/core/reports/collective_ledger.h"
#include "protocol/epochs.h"

namespace c10dd::core {

class SessionOps {
 public:
  /// The tables in which a session may own something.
  struct Parts {
    Sessions& sessions;
    Barriers& barriers;
    Groups& groups;
    const Lifetimes& lifetimes;
    const Queues& queues;
    LaunchRanks& launch;
    CollectiveLedger& ledger;
    CollectiveActivity& activity;
    Waits& waits;
    KeyOps& key_ops;
    QueueOps& queue_ops;
  };

  /// `number`, `start` and `starts` are the values that the constructor of Job got.
  SessionOps(JobNumber number, const Stamp& start, std::vector<EpochStart> starts,
             const Parts& parts)
      : number_(number), start_(start), starts_(std::move(starts)), parts_(parts) {
    if (starts_.empty()) starts_.push_back({start.epoch, start.revision});
  }

  OptionalReply on(Step& step, const Hello& hello);
  OptionalReply on(Step& step, const Ping& ping);
  OptionalReply on(Step& step, const Goodbye& goodbye);
  OptionalReply on(Step& step, const Cancel& cancel);
  // NativeChannels answers these two before a job is asked.
  OptionalReply on(Step&, const Authenticate&) {
    return refuse(Code::unsupported, "authenticate: a job asks nobody; ask the daemon");
  }
  OptionalReply on(Step&, const LeaseEndpoint&) {
    return refuse(Code::unsupported,
                  "lease_endpoint: a job cannot lease endpoints; ask the daemon");
  }

  /// Ends a session: aborts its blocked requests, takes it out of its barriers and groups, gives
  /// its unacknowledged items back, and removes its ephemeral keys.
  void end(Step& step, const SessionId& id, Ending ending);

  /// Notes that a session has lost its connection. Ends a fleeting session.
  void disconnect(Step& step, const SessionId& session);

 private:
  JobNumber number_;
  Stamp start_;
  std::vector<EpochStart> starts_;  // never empty; the last one is that of start_
  Parts parts_;
};

}  // namespace c10dd::core
