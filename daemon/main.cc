// SPDX-License-Identifier: Apache-2.0
// main() of c10dd. Reads the options. With --checkpoint, sends a request to a running daemon.
// Otherwise sets up the log and serves.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "daemon/checkpoint_request.h"
#include "daemon/config/options.h"
#include "daemon/server.h"
#include "protocol/exit_codes.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Read by jemalloc: returns freed memory to the system within a second, on a thread of its own. By
/// default a burst of large requests stays resident for ten seconds, or until the next one.
extern "C" [[gnu::visibility("default")]] const char* malloc_conf;
const char* malloc_conf = "background_thread:true,dirty_decay_ms:200,muzzy_decay_ms:0";
#endif

namespace {

/// Handles SIGTERM and SIGINT until the server installs its own handlers. Until then the daemon
/// acknowledges no request, so nothing is lost. The exit code is 0, because the process ends as
/// requested.
void end_at_once(int) { ::_exit(0); }

void take_early_signals() {
  std::signal(SIGTERM, end_at_once);
  std::signal(SIGINT, end_at_once);
}

// The handlers are installed before the constructors of the libraries run, because these
// constructors take milliseconds. A sanitizer must be initialised before any other code runs.
// Therefore a build with a sanitizer installs the handlers later, in begin().
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
[[gnu::constructor]] void begin() { take_early_signals(); }
#else
// NOLINTNEXTLINE(readability-identifier-naming): the other kind of build has a function
[[gnu::section(".preinit_array"), gnu::used]] void (*const begin)() = take_early_signals;
#endif

}  // namespace

int main(int argc, char** argv) {
  try {
    c10dd::daemon::ParsedOptions parsed = c10dd::daemon::parse_options(argc, argv);
    if (parsed.exit) return parsed.exit_code;
    if (!parsed.checkpoint.empty()) {
      // An interrupted checkpoint request has not succeeded, and must not end with exit code 0.
      std::signal(SIGTERM, SIG_DFL);
      std::signal(SIGINT, SIG_DFL);
      return c10dd::daemon::request_checkpoint(parsed.options, parsed.checkpoint);
    }
    spdlog::set_default_logger(spdlog::stderr_logger_mt("c10dd"));
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
    spdlog::set_level(spdlog::level::from_str(parsed.options.log_level));
    return c10dd::daemon::Server(std::move(parsed.options)).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "c10dd: unexpected error: %s\n", e.what());
    return c10dd::exit_code::kBug;
  }
}
