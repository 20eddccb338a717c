// SPDX-License-Identifier: Apache-2.0
// Answers transact requests: checks all conditions, plans all actions on copies of the values that
// the actions touch, and only then applies the actions. If one action fails, none is applied.
#pragma once

#include "daemon/core/job/key_ops.h"
#include "daemon/core/job/queue_ops.h"

namespace c10dd::core {

class Transactions {
 public:
  Transactions(KeySpace& keys, const Queues& queues, KeyOps& key_ops, QueueOps& queue_ops)
      : keys_(keys), queues_(queues), key_ops_(key_ops), queue_ops_(queue_ops) {}

  OptionalReply on(Step& step, const Transact& transact);

 private:
  struct Plan;
  bool holds(const Condition& condition) const;
  Result<void> plan(Plan& plan, const Action& action) const;

  KeySpace& keys_;
  const Queues& queues_;
  KeyOps& key_ops_;
  QueueOps& queue_ops_;
};

}  // namespace c10dd::core
