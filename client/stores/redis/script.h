// SPDX-License-Identifier: Apache-2.0
// The Lua script that makes each change of a store on Redis, so that a change and the message that
// tells of it are one step.
#pragma once

#include <string_view>

namespace c10dd::client::redis {

/// KEYS = {the hash with the values, the sorted set with the names of the keys, queues...}.
/// ARGV = {operation, prefix of the channels, arguments...}. Operations, with their results:
///   set            key, value, ...            1
///   get            key, ...                   the values; nil for a missing key
///   exist          name, ...; queues: same    a text with 1 or 0 for each name
///   add            key, delta                 {"sum", sum} or {reason, the present value}
///   append         key, value, limit          the new length; above the limit, nothing is changed
///   compare_set    key, expected, desired     {1}, or {0, the present value or nil}
///   remove         key                        0 or 1
///   remove_prefix  first, end (of BYLEX)      how many keys were removed
///   push           key, value; queue          the length
///   pop            queue                      the item; nil if the queue is empty
/// When a key or the first item of a queue comes, a message goes to the channel with its name.
extern const std::string_view kScript;

}  // namespace c10dd::client::redis
