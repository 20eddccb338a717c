// SPDX-License-Identifier: Apache-2.0
// Queues, which have a name space of their own beside the keys. Part of the table in ops.h.
#pragma once

#include <boost/describe/class.hpp>

#include "protocol/op_info.h"
#include "protocol/replies.h"
#include "protocol/types.h"

namespace c10dd {

/// Adds an item to the end of a queue.
struct QueuePush {
  static constexpr OpInfo op{32, "queue_push", OpKind::write, Access::use,
                             1,  Dedup::reply, Growth::much};
  using Body = Counted;  ///< items in the queue after the push

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(QueuePush, (), (key, value))

/// Pops the oldest item. Waits for an item up to `timeout`; with timeout 0, fails with not_found if
/// the queue is empty. Waiting pops are served in order of arrival. The item is delivered to
/// (session, sequence), so a repeat gets the same item. Removes the item when the delivery is
/// acknowledged; returns it to its place if the session ends or cancels the pop before that.
struct QueuePop {
  static constexpr OpInfo op{33, "queue_pop",     OpKind::wait, Access::use,
                             1,  Dedup::delivery, Growth::none};
  using Body = Popped;

  Bytes key;
  Duration timeout{0};
};
BOOST_DESCRIBE_STRUCT(QueuePop, (), (key, timeout))

/// Returns the number of items of a queue that are not delivered to a session.
struct QueueLength {
  static constexpr OpInfo op{34, "queue_length", OpKind::read, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Body = Counted;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(QueueLength, (), (key))

}  // namespace c10dd
