// SPDX-License-Identifier: Apache-2.0
// Starts the threads of the SDK.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "client/errors.h"
#include "protocol/format.h"

namespace c10dd::client {

/// Starts a thread. Throws Error with Code::unavailable if the system has no room for it; `whose`
/// names in the text what needs the thread.
template <class Body>
std::thread start_thread(const char* whose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw Error(Code::unavailable,
                format("the {} cannot start a thread: {}; raise the limit of processes (ulimit -u) "
                       "or of memory (ulimit -v)",
                       whose, error.what()));
  }
}

}  // namespace c10dd::client
