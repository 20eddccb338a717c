// SPDX-License-Identifier: Apache-2.0
// The entry: options, log, serve; or a request to the daemon that runs.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>

#include "daemon/checkpoint_request.h"
#include "daemon/options.h"
#include "daemon/server.h"

int main(int argc, char** argv) {
  try {
    c10dd::daemon::ParsedOptions parsed = c10dd::daemon::parse_options(argc, argv);
    if (parsed.exit) return parsed.exit_code;
    if (!parsed.checkpoint.empty()) {
      return c10dd::daemon::request_checkpoint(parsed.options, parsed.checkpoint);
    }
    spdlog::set_default_logger(spdlog::stderr_logger_mt("c10dd"));
    spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
    spdlog::set_level(spdlog::level::from_str(parsed.options.log_level));
    return c10dd::daemon::Server(std::move(parsed.options)).run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "c10dd: unexpected: %s\n", e.what());
    return 70;
  }
}
