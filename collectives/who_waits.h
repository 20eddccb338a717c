// SPDX-License-Identifier: Apache-2.0
// Explains a failed collective by the calls that the ranks have published: which ranks are in which
// call.
#pragma once

#include <string>
#include <vector>

#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/call_ops.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Returns what the daemon gets to know of a call.
PublishedCall published(const CollectiveCall& call);

/// Returns the call as an error text shows it: "all_reduce 3 of 1000 float32 sum", "broadcast 0 of
/// 8 int64 from rank 1", "barrier 7".
std::string text_of(const PublishedCall& call);

/// Adds to the failure of the collective `own` which ranks are in which call. `processes` has where
/// the ranks run, by rank, or is empty.
///
/// A mismatch is two calls with the same sequence that differ: the ranks have not issued the same
/// collectives. Calls with different sequences are no mismatch, since a rank may only be ahead of
/// another.
/// - A failure that is not a time-out: the text names the ranks of a mismatch, if there is one.
/// - A time-out: the text names the ranks of every call. With a mismatch, `missing` becomes the
///   ranks that are in another call than most ranks (in a tie, in another call than this rank).
///   Without a mismatch, it becomes the silent ranks, which have published no call: those that the
///   backend was waiting for, or all of them if it was waiting for none of these.
void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes);

}  // namespace c10dd::collectives
