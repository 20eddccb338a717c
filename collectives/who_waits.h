// SPDX-License-Identifier: Apache-2.0
// Explains why a collective has failed. Ranks that wait publish their calls to the daemon.
// explain() adds the published calls and their ranks to the error text.
#pragma once

#include <string>
#include <vector>

#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/call_ops.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Returns the description of the operation that the rank publishes to the daemon.
PublishedCall published(const Operation& operation);

/// Returns the text that names a call in errors, such as "all_reduce 3 of 1000 float32 sum",
/// "broadcast 0 of 8 int64 from rank 1" or "barrier 7".
std::string text_of(const PublishedCall& call);

/// Adds to `failure` which ranks are in which call. `own` is the call that has failed. `processes`
/// lists the addresses of the ranks in rank order; the list may be empty.
///
/// Two different calls with the same sequence are a mismatch: the ranks have not issued the same
/// collectives. Calls with different sequences are not a mismatch, because a rank may be ahead.
/// - After a failure that is not a time-out, the text names the ranks of any mismatch.
/// - After a time-out, the text names the ranks of every call in `calls`. If `calls` has no call,
///   Failure::missing keeps its value. Otherwise, the first of these rules that applies sets it:
///   1. There is a mismatch: the ranks in its calls, except those in the call with the most ranks
///      (in a tie, except those in `own`).
///   2. The backend was waiting for silent ranks (without a published call): these silent ranks.
///   3. Only other ranks are silent: all silent ranks.
///   4. No rank is silent: the old value.
void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes);

}  // namespace c10dd::collectives
