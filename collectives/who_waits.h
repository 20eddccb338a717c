// SPDX-License-Identifier: Apache-2.0
// Explains a failed collective by the calls that the ranks have published: says which ranks wait in
// which call.
#pragma once

#include <string>
#include <vector>

#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/call_ops.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Returns the description of a call that is published to the daemon.
PublishedCall published(const CollectiveCall& call);

/// Returns the call as an error text shows it: "all_reduce 3 of 1000 float32 sum", "broadcast 0 of
/// 8 int64 from rank 1", "barrier 7".
std::string text_of(const PublishedCall& call);

/// Adds to the failure of the collective `own` which ranks are in which call. `processes` says
/// where the ranks run, by rank, or is empty.
///
/// A mismatch is two calls with the same sequence that differ: the ranks have not issued the same
/// collectives. Calls with different sequences are not a mismatch, because a rank may be ahead.
/// - After a failure that is not a time-out, the text names the ranks of any mismatch.
/// - After a time-out, the text names the ranks of every call. If there is a mismatch, `missing`
///   becomes the ranks that are in another call than most ranks (in a tie, than this rank).
///   Otherwise `missing` becomes the silent ranks, which have published no call: those that the
///   backend was waiting for, or all silent ranks if the backend was waiting for none of them.
void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes);

}  // namespace c10dd::collectives
