// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/signals.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "protocol/parse.h"

namespace c10dd::run {
namespace {

constexpr int kEnding[] = {SIGTERM, SIGINT, SIGHUP};
constexpr int kForwarded[] = {SIGUSR1, SIGUSR2, SIGQUIT, SIGCONT, SIGWINCH};

void unblock_all() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void set_disposition(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(number, &action, nullptr);
}

enum class Takes : std::uint8_t { no, perhaps, yes };

/// Returns `yes` if a process handles a signal, and `perhaps` if it blocks the signal: to wait for
/// it, or for a moment, as shells do when they fork.
Takes takes(const std::string& process, int signal) {
  std::ifstream status(process + "/status");
  Takes found = Takes::no;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:") && !line.starts_with("SigCgt:")) continue;
    const auto mask = parse_number<std::uint64_t>(line.substr(line.find_last_of('\t') + 1), 16);
    if (!mask || (*mask >> (signal - 1) & 1) == 0) continue;
    if (line.starts_with("SigCgt:")) return Takes::yes;
    found = Takes::perhaps;
  }
  return found;
}

/// Returns whether a process handles a signal or waits for it. False also if it has ended.
bool expects(const std::string& process, int signal) {
  constexpr int kLooks = 5;
  for (int look = 0; look < kLooks; ++look) {
    const Takes found = takes(process, signal);
    if (found != Takes::perhaps) return found == Takes::yes;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace

std::span<const int> ending_signals() { return kEnding; }
std::span<const int> forwarded_signals() { return kForwarded; }

void prepare_signals() {
  // If SIGCHLD is ignored, the kernel reaps the workers, and nobody learns their exit codes.
  set_disposition(SIGCHLD, SIG_DFL);
  set_disposition(SIGPIPE, SIG_IGN);
  set_disposition(SIGTTIN, SIG_IGN);  // a read of the terminal in the background fails instead
  unblock_all();
}

void restore_signals() {
  // Resets handlers before signals are unblocked. Otherwise a signal to the child could run a
  // handler of the launcher. That handler would report that the launcher received the signal.
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) != 0) continue;
    if (number == SIGHUP && now.sa_handler == SIG_IGN) continue;
    set_disposition(number, SIG_DFL);
  }
  unblock_all();
}

std::size_t send_to_handlers(pid_t group, int signal) {
  if (access("/proc/self/status", R_OK) != 0) return kill(-group, signal) == 0 ? 1 : 0;
  std::size_t sent = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = parse_number<pid_t>(entry.path().filename().string());
    if (!pid || getpgid(*pid) != group || !expects(entry.path().string(), signal)) continue;
    if (kill(*pid, signal) == 0) ++sent;
  }
  return sent;
}

}  // namespace c10dd::run
