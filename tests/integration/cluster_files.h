// SPDX-License-Identifier: Apache-2.0
// The files of a cluster with TLS on this machine, made by c10ddctl as an operator makes them.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace c10dd::test {

/// Runs a program of PATH, or at a path, to its end. `output`: the file for what it prints. Throws
/// with that text unless its exit code is 0.
inline void run_program(std::vector<std::string> words, const std::string& output) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, pointers[0], &files, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0)
    throw std::runtime_error("cannot run " + words[0] + ": " + std::strerror(failed));
  int status = -1;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::ifstream printed(output);
  throw std::runtime_error(words[0] +
                           " failed: " + std::string(std::istreambuf_iterator<char>(printed), {}));
}

/// A CA, the files of daemons on 127.0.0.1, and a token of a trainer in all jobs.
class ClusterFiles {
 public:
  /// `ctl`: the path of c10ddctl. The folder exists, and only its owner may write there.
  ClusterFiles(const std::string& ctl, const std::string& folder) : folder_(folder) {
    const std::string ca = folder + "/ca";
    const std::string output = folder + "/c10ddctl.log";
    run_program({ctl, "ca", "init", ca, "--host", "127.0.0.1"}, output);
    run_program({ctl, "ca", "token", ca, "--name", "alice", "--jobs", "*", "--out", token()},
                output);
  }

  /// The folder for --tls; also a redis-server can use its tls.crt, tls.key and ca.crt.
  std::string daemon() const { return folder_ + "/ca/daemon"; }
  std::string ca() const { return folder_ + "/ca/ca.crt"; }
  std::string ca_key() const { return folder_ + "/ca/ca.key"; }
  std::string token() const { return folder_ + "/token"; }

 private:
  std::string folder_;
};

}  // namespace c10dd::test
