// SPDX-License-Identifier: Apache-2.0
// Which ranks wait in which call, as sentences of an error text.
#pragma once

#include <string>
#include <vector>

#include "collectives/bootstrap.h"
#include "collectives/hooks.h"
#include "protocol/call_ops.h"
#include "protocol/error.h"

namespace c10dd::collectives {

PublishedCall published(const CollectiveCall& call);

/// "all_reduce 3 of 1000 float32 sum", "broadcast 0 of 8 int64 from rank 1", "barrier 7".
std::string words(const PublishedCall& call);

/// Adds to the failure of `own`, a collective, who is in which call. Ranks do not match if calls of
/// the same sequence differ: then the text says so of any failure. Else a call may only be ahead of
/// the others, and the text says who is where if the call has timed out.
///
/// Of a time-out, `missing` becomes those who are in another call of that sequence than most ranks,
/// or than this one if there is no such call. Without a mismatch they are the silent ones, if there
/// are any: those whom the backend has waited for, if it has waited for one of them.
/// `processes`: by rank, or empty.
void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes);

}  // namespace c10dd::collectives
