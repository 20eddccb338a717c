// SPDX-License-Identifier: Apache-2.0
// The first process of a container. The kernel makes it the parent of all processes whose parents
// have ended, and a signal without a handler does nothing to it.
#pragma once

namespace c10dd::run {

/// If this process has number 1, starts a child, which returns. The process itself then reaps what
/// ends, passes signals on to the child, and ends with the exit code of the child. Any other
/// process returns at once. Called before any thread is started.
void become_child_of_init();

}  // namespace c10dd::run
