// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

namespace c10dd::torture {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs in the child process, so only functions that are safe between fork and exec are called.
[[noreturn]] void become(std::vector<char*>& words, int in, int out, int error) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // an interrupt at the terminal is the parent's
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(error, STDERR_FILENO);
  ::execv(words[0], words.data());
  ::_exit(127);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::string& error_file) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipe");
  }
  const int error = ::open(error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (error < 0) throw std::runtime_error("cannot write " + error_file);
  pid_ = ::fork();
  if (pid_ == 0) become(words, in[0], out[1], error);
  ::close(in[0]);
  ::close(out[1]);
  ::close(error);
  in_ = in[1];
  out_ = out[0];
  if (pid_ < 0) throw std::runtime_error("no fork");
}

Child::~Child() {
  if (!ended()) {
    signal(SIGKILL);
    wait(std::chrono::seconds(10));
  }
  ::close(in_);
  ::close(out_);
}

void Child::send(const std::string& line) {
  const std::string text = line + "\n";
  // Errors are ignored: if the child has died, its reply will be missing.
  [[maybe_unused]] const ssize_t written = ::write(in_, text.data(), text.size());
}

std::optional<std::string> Child::line(std::chrono::nanoseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  for (;;) {
    const std::size_t end = read_.find('\n');
    if (end != std::string::npos) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return std::nullopt;
    pollfd ready{out_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t n = ::read(out_, buffer, sizeof buffer);
    if (n <= 0) return std::nullopt;
    read_.append(buffer, static_cast<std::size_t>(n));
  }
}

void Child::signal(int number) {
  if (!ended()) ::kill(pid_, number);
}

std::optional<int> Child::ended() {
  int status = 0;
  if (!status_ && pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_;
}

std::optional<int> Child::wait(std::chrono::nanoseconds patience) {
  const Clock::time_point deadline = Clock::now() + patience;
  while (!ended() && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return status_;
}

std::string describe_end(int status) {
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit " + std::to_string(WEXITSTATUS(status));
}

}  // namespace c10dd::torture
