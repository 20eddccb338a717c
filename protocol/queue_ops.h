// SPDX-License-Identifier: Apache-2.0
// Queues: names of their own, beside the keys. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

struct QueuePush {
  static constexpr OpInfo op{32, "queue_push", OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Counted;  ///< items in the queue afterwards

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(QueuePush, (), (key, value))

/// Takes the oldest item; waits for one up to timeout, with timeout 0 an empty queue is not_found.
/// Items go to waiting pops in order of arrival. The item is delivered to (session, sequence): a
/// repeat gets the same item. It is gone when the delivery is acknowledged, and back in its place
/// when the session ends or cancels first.
struct QueuePop {
  static constexpr OpInfo op{33, "queue_pop",     OpKind::wait, Access::use,
                             1,  Dedup::delivery, Growth::none};
  using Body = Popped;

  Bytes key;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(QueuePop, (), (key, timeout))

/// How many items of a queue are not delivered to anybody.
struct QueueLength {
  static constexpr OpInfo op{34, "queue_length", OpKind::read, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Body = Counted;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(QueueLength, (), (key))

}  // namespace c10dd
