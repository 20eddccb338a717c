// SPDX-License-Identifier: Apache-2.0
// Opens sessions, notes that they lose their connection, and ends them with all that they own.
#pragma once

#include "daemon/core/collective_ledger.h"
#include "daemon/core/key_ops.h"
#include "daemon/core/queue_ops.h"

namespace c10dd::core {

class SessionOps {
 public:
  /// What a session may have something in.
  struct Parts {
    Sessions& sessions;
    Barriers& barriers;
    Groups& groups;
    const Lifetimes& lifetimes;
    const Queues& queues;
    CollectiveLedger& ledger;
    Waits& waits;
    KeyOps& key_ops;
    QueueOps& queue_ops;
  };

  /// start: see Job.
  SessionOps(JobNumber number, const Stamp& start, const Parts& parts)
      : number_(number), start_(start), parts_(parts) {}

  Maybe on(Step& step, const Hello& hello);
  Maybe on(Step& step, const Ping& ping);
  Maybe on(Step& step, const Goodbye& goodbye);
  Maybe on(Step& step, const Cancel& cancel);

  /// Ends a session. It leaves nothing of its own and nothing half done.
  void end(Step& step, const SessionId& id, Ending ending);

  /// The connection of a session went.
  void disconnect(Step& step, const SessionId& session);

 private:
  JobNumber number_;
  Stamp start_;
  Parts parts_;
};

}  // namespace c10dd::core
