// SPDX-License-Identifier: Apache-2.0
// main() of c10ddctl: asks daemons over HTTP. docs/c10ddctl.md has the commands and exit codes.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "client/ctl/arguments.h"
#include "client/ctl/commands.h"
#include "client/ctl/watch.h"
#include "protocol/exit_codes.h"

namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM};

/// The code with which a signal ends the watch.
std::atomic<int> code_at_signal{c10dd::exit_code::kTryAgain};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void end_watch(int) { ::_exit(code_at_signal.load()); }

/// From now on a signal ends the process at once, also while a daemon does not reply.
void end_at_signals() {
  for (const int number : kEnding) {
    struct sigaction before {};
    struct sigaction action {};
    action.sa_handler = end_watch;
    // As under nohup, or in the background of a script.
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(number, &action, nullptr);
  }
}

/// Writes a whole line, although a signal comes meanwhile. Returns false if nobody reads it.
bool print_line(const std::string& line) {
  sigset_t ending;
  sigset_t before;
  ::sigemptyset(&ending);
  for (const int number : kEnding) ::sigaddset(&ending, number);
  ::pthread_sigmask(SIG_BLOCK, &ending, &before);
  const bool written = std::fputs((line + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return written;
}

int watch(const c10dd::ctl::Arguments& arguments) {
  end_at_signals();
  return c10dd::ctl::watch(
      arguments,
      {.print = print_line,
       .warn = [](const auto& line) { std::fprintf(stderr, "c10ddctl: %s\n", line.c_str()); },
       .now = [] { return std::chrono::system_clock::now(); },
       .set_code = [](int code) { code_at_signal = code; },
       .pause =
           [] {
             std::this_thread::sleep_for(std::chrono::seconds(1));
             return true;
           }});
}

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
  if (parsed->arguments.watch) return watch(parsed->arguments);
  const c10dd::ctl::Outcome outcome = c10dd::ctl::run(parsed->arguments);
  std::fputs(outcome.output.c_str(), stdout);
  if (!outcome.error.empty()) std::fprintf(stderr, "c10ddctl: %s\n", outcome.error.c_str());
  return outcome.code;
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "c10ddctl: unexpected error: %s\n", error.what());
    return c10dd::exit_code::kBug;
  }
}
