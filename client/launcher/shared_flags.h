// SPDX-License-Identifier: Apache-2.0
// What all nodes of a job must say alike: each agent keeps it in the job's store as long as it
// runs, so that one who is refused can name the flag and the node.
#pragma once

#include <map>
#include <string>

#include "client/job_store.h"
#include "client/launcher/options.h"

namespace c10dd::run {

/// Values by flag.
using SharedFlags = std::map<std::string, std::string>;

SharedFlags shared_flags(const Options& options);

std::string encode(const SharedFlags& flags);
SharedFlags decode_flags(const std::string& text);

/// "--nnodes is 3 here and 2 on host-b (pid 9)"; empty when they agree.
std::string difference(const SharedFlags& here, const SharedFlags& there, const std::string& where);

/// For the life of this client. A daemon that refuses is told so by the rendezvous.
void publish(JobStore& store, const SharedFlags& flags);

/// The difference from the first agent that says otherwise; empty when there is none.
std::string disagreement(JobStore& store, const SharedFlags& flags);

}  // namespace c10dd::run
