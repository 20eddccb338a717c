// SPDX-License-Identifier: Apache-2.0
// The command line of c10ddctl. Pure. To add a command, add a line to the table in arguments.cc
// or, of the group `ca`, in ca_arguments.cc, and a function in commands.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/internal/launch_environment.h"
#include "client/internal/url.h"
#include "protocol/error.h"

namespace c10dd::ctl {

/// The options of the group `ca`, as they were given; an option that was not given is empty.
struct CaArguments {
  std::vector<std::string> hosts = {};  ///< each may be a list with commas
  std::vector<std::string> jobs = {};
  std::string name = {};
  std::string role = "trainer";
  std::string ttl = {};
  std::string out = {};
  bool finish = false;
};

struct Arguments {
  /// In the order in which they are asked; empty for `flight` and the group `ca`.
  std::vector<client::HostPort> daemons = {};
  std::chrono::milliseconds timeout{10'000};  ///< for the reply of one daemon
  bool json = false;
  std::string command = {};  ///< of a group with its name: "ca init"
  /// As many as the command needs; of `flight` one or more.
  std::vector<std::string> operands = {};
  /// Of rm: removes all jobs that nobody has used for so long.
  std::optional<Duration> idle = {};
  bool watch = false;    ///< of diagnose
  std::string run = {};  ///< of diagnose, where empty means all runs, and of lease
  // of lease
  std::string endpoint = "main";
  std::uint32_t world_size = 0;
  CaArguments ca = {};
};

struct Parsed {
  Arguments arguments;
  std::string reply;  ///< text of --help or --version; if not empty, print the text and exit
};

/// Reads the command line, and the addresses of the daemons from it or from the environment
/// (C10DD_URL, C10DD_ADDR). Fails with invalid_argument.
Result<Parsed> parse(const std::vector<std::string>& words, const client::Environment& environment);

}  // namespace c10dd::ctl
