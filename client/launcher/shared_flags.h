// SPDX-License-Identifier: Apache-2.0
// The options that must be the same on all nodes of a job. A running agent keeps its values in the
// job's store. If the group refuses an agent, that agent finds there which option differs.
#pragma once

#include <map>
#include <string>

#include "client/job_store.h"
#include "client/launcher/options.h"

namespace c10dd::run {

/// The value of each flag.
using SharedFlags = std::map<std::string, std::string>;

SharedFlags shared_flags(const Options& options);

std::string encode(const SharedFlags& flags);
SharedFlags decode_flags(const std::string& text);

/// Returns "--nnodes is 3 here and 2 on host-b (pid 9)"; empty if the values agree. Ignores flags
/// that only one side has: the other side may run another version.
std::string difference(const SharedFlags& here, const SharedFlags& there, const std::string& where);

/// Stores the flags of this agent until its client is closed. Ignores errors, because the
/// rendezvous that follows reports them.
void publish(JobStore& store, const SharedFlags& flags);

/// Compares with each agent. Returns the first difference() that is not empty, or an empty text.
std::string disagreement(JobStore& store, const SharedFlags& flags);

}  // namespace c10dd::run
