// SPDX-License-Identifier: Apache-2.0
// Compares the options that must be equal on all nodes of a job. Each agent puts its options into
// the job's store. If the group refuses an agent, the agent reads the options of the other agents
// from the store, to find out which option differs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "client/job_store.h"
#include "client/launcher/options.h"

namespace c10dd::run {

/// The value of each flag.
using SharedFlags = std::map<std::string, std::string>;

SharedFlags shared_flags(const Options& options);

std::string encode(const SharedFlags& flags);
SharedFlags decode_flags(const std::string& text);

/// Returns a text such as "--nnodes is 3 here and 2 on host-b (pid 9)"; empty if the values agree.
/// Ignores a flag that is missing on one side: the two agents may run different versions.
std::string difference(const SharedFlags& here, const SharedFlags& there, const std::string& where);

/// Puts the flags of this agent into the store. The daemon removes them when the agent's client is
/// closed. Ignores errors, because the rendezvous that follows reports them.
void publish(JobStore& store, const SharedFlags& flags);

/// Returns the agents of the job that are connected, each as "host-b (pid 9)". Returns none if the
/// daemon does not answer.
std::vector<std::string> agents(JobStore& store);

/// Compares `flags` with those of each agent. Returns the first difference, or an empty text.
std::string disagreement(JobStore& store, const SharedFlags& flags);

}  // namespace c10dd::run
