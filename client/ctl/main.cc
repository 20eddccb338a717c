// SPDX-License-Identifier: Apache-2.0
// main() of c10ddctl: asks daemons over HTTP. deploy/README.md has the commands and exit codes.
#include <csignal>
#include <cstdio>
#include <exception>

#include "client/ctl/arguments.h"
#include "client/ctl/commands.h"
#include "protocol/exit_codes.h"

namespace {

int run(int argc, char** argv) {
  const auto parsed =
      c10dd::ctl::parse({argv + 1, argv + argc}, c10dd::client::process_environment());
  if (!parsed) {
    std::fprintf(stderr, "c10ddctl: %s\n", parsed.error().detail.c_str());
    return c10dd::exit_code::kUsage;
  }
  if (!parsed->reply.empty()) {
    std::fputs(parsed->reply.c_str(), stdout);
    return 0;
  }
  const c10dd::ctl::Outcome outcome = c10dd::ctl::run(parsed->arguments);
  std::fputs(outcome.output.c_str(), stdout);
  if (!outcome.error.empty()) std::fprintf(stderr, "c10ddctl: %s\n", outcome.error.c_str());
  return outcome.code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10ddctl: unexpected error: %s\n", error.what());
    return c10dd::exit_code::kBug;
  }
}
