// SPDX-License-Identifier: Apache-2.0
// Explains why a collective has failed: adds to the error text which ranks wait in which call. The
// ranks have published these calls to the daemon.
#pragma once

#include <string>
#include <vector>

#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/call_ops.h"
#include "protocol/error.h"

namespace c10dd::collectives {

/// Returns the description of `call` that the rank publishes to the daemon.
PublishedCall published(const CollectiveCall& call);

/// Returns the text that names a call in errors, such as "all_reduce 3 of 1000 float32 sum",
/// "broadcast 0 of 8 int64 from rank 1" or "barrier 7".
std::string text_of(const PublishedCall& call);

/// Adds to the failure of the collective `own` which ranks are in which call. `processes` lists the
/// addresses of the ranks in rank order; the list may be empty.
///
/// Two different calls with the same sequence are a mismatch: the ranks have not issued the same
/// collectives. Calls with different sequences are not a mismatch, because a rank may be ahead.
/// - After a failure that is not a time-out, the text names the ranks of any mismatch.
/// - After a time-out, the text names the ranks of every call. If there is a mismatch, `missing`
///   becomes the ranks that are in another call than most ranks (in a tie, than this rank).
///   Otherwise `missing` becomes the silent ranks, which have published no call: those that the
///   backend was waiting for, or all silent ranks if the backend was waiting for none of them.
void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes);

}  // namespace c10dd::collectives
