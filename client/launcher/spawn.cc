// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/spawn.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "client/launcher/signals.h"

namespace c10dd::run {
namespace {

using client::Descriptor;

rlimit former_file_limit{0, 0};  // limit of open files before raise_file_limit(); 0 if not raised

/// Calls the kernel directly, because the wrapper in glibc 2.36 cannot be called from C++.
int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
  Pipe made{Descriptor(ends[0]), Descriptor(ends[1])};
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) throw_errno("pipe");
  return made;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// Everything that the child needs, prepared before the fork. Because this process has threads, the
/// child may call only async-signal-safe functions.
struct Prepared {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int in;
  int out;
  int error;
  pid_t parent;
};

void complain(const char* program, int error) {
  const char* texts[] = {
      "c10drun: cannot execute ", program, ": ", strerrordesc_np(error),
      error == ENOENT ? " (is the interpreter that its first line names missing?)\n" : "\n"};
  for (const char* text : texts) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
  }
}

/// Sets up the forked child, then executes the program in it.
[[noreturn]] void become(const Prepared& child) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(128 + SIGKILL);  // the parent died before prctl()
  restore_signals();
  if (former_file_limit.rlim_cur != 0) setrlimit(RLIMIT_NOFILE, &former_file_limit);
  dup2(child.in, STDIN_FILENO);
  dup2(child.out, STDOUT_FILENO);
  dup2(child.error, STDERR_FILENO);
  execve(child.program, child.arguments, child.environment);
  const int error = errno;
  complain(child.program, error);
  _exit(error == ENOENT ? 127 : 126);
}

/// Forks a child that starts with all signals blocked.
pid_t fork_blocked() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  const int why = errno;
  if (pid != 0) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = why;
  return pid;
}

}  // namespace

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

std::string Exit::text() const {
  if (!known) return "has ended with an unknown exit code";
  return signal != 0 ? "was killed by " + signal_name(signal)
                     : "exited with code " + std::to_string(code);
}

Child spawn(const std::string& program, const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment, int in) {
  const Descriptor null(in >= 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (in < 0 && !null) throw_errno("/dev/null");
  Pipe out = make_pipe();
  Pipe error = make_pipe();
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> environment_list = pointers(environment);
  const Prepared prepared{program.c_str(),
                          argument_list.data(),
                          environment_list.data(),
                          in < 0 ? null.get() : in,
                          out.write.get(),
                          error.write.get(),
                          getpid()};
  Child child;
  child.pid = fork_blocked();
  if (child.pid < 0) throw_errno("fork");
  if (child.pid == 0) become(prepared);
  setpgid(child.pid, child.pid);  // the child does this too, because either process can run first
  child.process = Descriptor(open_process(child.pid));
  child.out = std::move(out.read);
  child.error = std::move(error.read);
  return child;
}

Exit reap(const Child& child) {
  kill(-child.pid, SIGKILL);  // must precede waitpid(), which frees child.pid for reuse
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0) {
    if (errno != EINTR) return {kUnknownCode, 0, false};
  }
  return WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
}

bool has_ended(const Child& child) {
  siginfo_t ended{};
  return waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         ended.si_pid != 0;
}

void raise_file_limit(std::size_t files) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= files) return;
  former_file_limit = limit;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, files);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) former_file_limit = {0, 0};
}

}  // namespace c10dd::run
