// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/daemon.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLastWords = 2000;

/// A bound socket that never listens. It keeps the kernel from giving the port to somebody's
/// outgoing connection while the daemon is dead, which could then not have it back.
int reserve_port(std::string& address) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  return fd;
}

}  // namespace

Daemon::Daemon(const DaemonOptions& options) : log_(options.directory + "/daemon.log") {
  reserved_ = reserve_port(address_);
  std::string engine = options.engine;
  const std::size_t at = engine.find("DIR");
  if (at != std::string::npos) engine.replace(at, 3, options.directory + "/state");
  command_ = {options.program, "--listen",         address_,      "--engine", engine,
              "--durability",  options.durability, "--log-level", "warn"};
}

Daemon::~Daemon() {
  child_.reset();
  ::close(reserved_);
}

void Daemon::spawn() { child_ = std::make_unique<Child>(command_, log_); }

bool Daemon::ready(std::chrono::nanoseconds patience) {
  return child_->line(patience) == "listening on " + address_;
}

void Daemon::kill() {
  child_->signal(SIGKILL);
  if (!child_->wait(20s)) throw std::runtime_error("the daemon does not die");
}

std::optional<int> Daemon::terminate(std::chrono::nanoseconds patience) {
  child_->signal(SIGTERM);
  return child_->wait(patience);
}

std::string Daemon::last_words() const {
  std::ifstream file(log_);
  std::stringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  return text.substr(text.size() - std::min(text.size(), kLastWords));
}

}  // namespace c10dd::torture
