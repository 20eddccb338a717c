// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/signals.h"

#include <csignal>

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

}  // namespace c10dd::run
