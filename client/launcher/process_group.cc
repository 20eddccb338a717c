// SPDX-License-Identifier: Apache-2.0
#include "client/launcher/process_group.h"

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
