// SPDX-License-Identifier: Apache-2.0
// The signals of the launcher: what it makes of each, and what it changes in what its parent has
// set. A parent may have ignored or blocked any signal, and exec() keeps that.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

namespace c10dd::run {

/// Signals that end the launch, if the parent does not ignore them as nohup does.
std::span<const int> ending_signals();
/// Signals that are passed on to the workers. Schedulers send them to say "save now".
std::span<const int> forwarded_signals();

/// Unblocks all signals. Restores the default of those whose dispositions the launcher depends on,
/// and ignores SIGPIPE. Called before any thread is started.
void prepare_signals();

/// Restores the default of all signals and unblocks them, in a forked child before it executes a
/// program. Only a SIGHUP that is ignored stays so: nohup is meant for the workers, too.
/// Async-signal-safe.
void restore_signals();

/// Sends a signal to those processes of a group, such as a worker and its children, that handle it
/// or wait for it: the signal would end the others, such as a shell around the trainer. Where /proc
/// does not tell, sends it to all. Returns to how many processes it was sent.
std::size_t send_to_handlers(pid_t group, int signal);

}  // namespace c10dd::run
