// SPDX-License-Identifier: Apache-2.0
#include "tests/torture/daemon.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace c10dd::torture {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLastWords = 2000;

}  // namespace

Daemon::Daemon(const DaemonOptions& options) : log_(options.directory + "/" + options.log) {
  std::string engine = options.engine;
  const std::size_t at = engine.find("DIR");
  if (at != std::string::npos) engine.replace(at, 3, options.directory + "/state");
  command_ = {options.program, "--listen",         address_,      "--engine", engine,
              "--durability",  options.durability, "--log-level", "warn"};
  command_.insert(command_.end(), options.further.begin(), options.further.end());
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
