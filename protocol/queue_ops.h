// SPDX-License-Identifier: Apache-2.0
// Operations on queues. Part of the table in ops.h. A queue and a key can have the same name.
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
  using Body = Counted;  ///< number of items in the queue after the push

  Bytes key;
  Bytes value;
};
BOOST_DESCRIBE_STRUCT(QueuePush, (), (key, value))

/// Pops the oldest item. Waits up to `timeout` for an item. With timeout 0, fails with not_found if
/// the queue is empty. Waiting pops are served in order of arrival. A repeated request, with the
/// same session and sequence, gets the same item. The daemon removes the item when the client
/// acknowledges the reply. If the session ends or cancels the pop before the acknowledgement, the
/// item returns to its old place in the queue.
struct QueuePop {
  static constexpr OpInfo op{33, "queue_pop",     OpKind::wait, Access::use,
                             1,  Dedup::delivery, Growth::none};
  using Body = Popped;

  Bytes key;
  Duration timeout{0};
  Duration waited{0};  ///< see Get
};
BOOST_DESCRIBE_STRUCT(QueuePop, (), (key, timeout, waited))

/// Returns the number of items in a queue. Popped items do not count, even if unacknowledged.
struct QueueLength {
  static constexpr OpInfo op{34, "queue_length", OpKind::read, Access::observe,
                             1,  Dedup::none,    Growth::none};
  using Body = Counted;

  Bytes key;
};
BOOST_DESCRIBE_STRUCT(QueueLength, (), (key))

}  // namespace c10dd
