// SPDX-License-Identifier: Apache-2.0
#include "daemon/end_by.h"

#include <unistd.h>

#include <csignal>
#include <system_error>

#include "daemon/shard/log_line.h"
#include "protocol/exit_codes.h"

namespace c10dd::daemon {

void EndBy::set(Time end) {
  try {
    thread_ = std::thread([this, end] { wait(end); });
  } catch (const std::system_error&) {  // no thread available: SIGALRM ends the process instead
    const auto left = end - std::chrono::steady_clock::now();
    ::alarm(1 + static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(left).count()));
  }
}

void EndBy::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  cancelled_now_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EndBy::wait(Time end) {
  std::unique_lock lock(mutex_);
  if (cancelled_now_.wait_until(lock, end, [this] { return cancelled_; })) return;
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(1);  // ends the process if writing the log line blocks
  log_as(LogLevel::critical,
         "event=stopped_unfinished reason=\"drain timeout exceeded before the engine was closed: a "
         "write hangs\"");
  ::_exit(exit_code::kTryAgain);
}

}  // namespace c10dd::daemon
