// SPDX-License-Identifier: Apache-2.0
// The real daemon as a child process of a test: start, SIGKILL, start again on the same port.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/integration/reserved_port.h"
#include "tests/paths.h"

namespace c10dd::test {

class DaemonProcess {
 public:
  /// engine: a URL. The port is kept from one start to the next.
  explicit DaemonProcess(std::string engine) : engine_(std::move(engine)) {}
  ~DaemonProcess() { stop(SIGTERM); }
  DaemonProcess(const DaemonProcess&) = delete;

  void start() {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    std::vector<std::string> words = {binary(), "--listen",    address_, "--engine",
                                      engine_,  "--log-level", "warn"};
    if (open_) words.emplace_back("--allow-insecure-listen");
    if (!advertised_.empty()) words.insert(words.end(), {"--advertise", advertised_});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      if (!log_.empty()) {
        ::dup2(::open(log_.c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600), STDERR_FILENO);
      }
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(out[1]);
    FILE* lines = ::fdopen(out[0], "r");
    char line[256] = "";
    const bool said = std::fgets(line, sizeof line, lines) != nullptr;
    std::fclose(lines);
    const std::string text = line;
    const std::string lead = "listening on ";
    if (!said || text.compare(0, lead.size(), lead) != 0) {
      throw std::runtime_error("the daemon did not start: " + words[0]);
    }
    address_ = text.substr(lead.size(), text.find('\n') - lead.size());
  }

  void stop(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  /// From the next start on: host:port, whoever may reach that.
  void listen_openly_on(std::string address) {
    address_ = std::move(address);
    open_ = true;
  }

  /// From the next start on: the address at which clients are told to reach it.
  void advertise(std::string address) { advertised_ = std::move(address); }

  /// From the next start on: the file that gets what it logs.
  void log_to(std::string path) { log_ = std::move(path); }

  /// host:port
  const std::string& address() const { return address_; }

  /// To send it a signal that does not end it.
  pid_t pid() const { return pid_; }

 private:
  static std::string binary() { return test::bin_folder() + "/c10dd"; }

  std::string engine_;
  std::string log_;
  std::string advertised_;
  ReservedPort port_;
  std::string address_ = port_.address();
  bool open_ = false;
  pid_t pid_ = -1;
};

}  // namespace c10dd::test
