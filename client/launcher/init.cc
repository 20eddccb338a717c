// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/init.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace c10dd::run {
namespace {

/// Reaps all processes that have ended. Exits if the launcher is one of them.
void reap_all(pid_t launcher) {
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended != launcher) continue;
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
}

}  // namespace

void become_child_of_init() {
  if (getpid() != 1) return;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t launcher = fork();
  if (launcher < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (launcher == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return;
  }
  for (;;) {
    siginfo_t signal{};
    const int number = sigwaitinfo(&all, &signal);
    reap_all(launcher);
    // A signal of the kernel, as by a terminal, has gone to the whole foreground group already.
    if (number > 0 && number != SIGCHLD && signal.si_code != SI_KERNEL) kill(launcher, number);
  }
}

}  // namespace c10dd::run
