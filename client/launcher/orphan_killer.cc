// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/orphan_killer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "protocol/parse.h"

namespace c10dd::run {
namespace {

void detach_from_terminal() {
  setsid();  // signals to the launcher's process group must not reach the orphan killer
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
}

void close_each_above(int last) {
  std::set<int> open;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto fd = parse_number<int>(entry.path().filename().string());
    if (fd && *fd > last) open.insert(*fd);
  }
  if (error) {  // no /proc
    for (int fd = last + 1; fd < sysconf(_SC_OPEN_MAX); ++fd) open.insert(fd);
  }
  for (const int fd : open) close(fd);
}

/// Moves `pipe` to a new descriptor and returns the new descriptor. Closes all other descriptors
/// except the standard ones. Otherwise the orphan killer would keep the launcher's other pipes
/// open, and the readers of these pipes would see no end of file until the orphan killer ends.
int keep_only(int pipe) {
  constexpr int kPipe = 3;
  dup2(pipe, kPipe);
  if (close_range(kPipe + 1, ~0U, 0) != 0) close_each_above(kPipe);  // Linux before 5.9, sandboxes
  return kPipe;
}

/// The main function of the orphan killer. Reads numbers from the pipe. A positive number N means
/// "watch process group N", and -N means "forget process group N". Ends when the pipe is closed.
/// The kernel closes the pipe if the launcher is killed.
[[noreturn]] void guard(int inherited, const std::string& folder) {
  detach_from_terminal();
  const int pipe = keep_only(inherited);
  std::set<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t n = read(pipe, &group, sizeof group);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof group) break;
    if (group > 0) {
      groups.insert(group);
    } else {
      groups.erase(-group);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  _exit(0);
}

}  // namespace

OrphanKiller::OrphanKiller(const std::string& folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  client::Descriptor read(ends[0]);
  pipe_ = client::Descriptor(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    guard(ends[0], folder);
  }
}

OrphanKiller::~OrphanKiller() {
  pipe_ = client::Descriptor();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void OrphanKiller::watch(pid_t group) { send(group); }
void OrphanKiller::forget(pid_t group) { send(-group); }

void OrphanKiller::send(pid_t group) {
  while (write(pipe_.get(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace c10dd::run
