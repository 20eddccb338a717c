// SPDX-License-Identifier: Apache-2.0
// The processes of a worker: it, and the children that it has started in its process group.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace c10dd::run {

/// Sends a signal to those processes of a group that handle it or wait for it: the signal would end
/// the others, such as a shell around the trainer. Where /proc does not tell, sends it to all.
/// Returns to how many processes it was sent.
std::size_t send_to_handlers(pid_t group, int signal);

}  // namespace c10dd::run
