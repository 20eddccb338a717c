// SPDX-License-Identifier: Apache-2.0
// The command line of c10drun, checked before anything is started. Pure but for the name and the id
// of this process, of which the name of a job on one node is made.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "client/internal/launch_environment.h"
#include "client/internal/url.h"
#include "protocol/types.h"

namespace c10dd::run {

inline constexpr std::uint32_t kWorkersPerNode = 1'024;
inline constexpr std::uint32_t kRestarts = 1'000'000;

// Exit codes beside those of protocol/exit_codes.h, as of a shell.
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  // and the signal's number

/// What ends the launcher with a sentence and a code.
class Fatal : public std::runtime_error {
 public:
  Fatal(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

struct Options {
  std::uint32_t nproc = 1;  ///< workers on this node
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 3;
  std::int64_t node_rank = -1;  ///< -1: any
  client::Url daemon;           ///< with the job
  bool standalone = false;      ///< the daemon's address is known when it has been started
  std::string run;
  std::string log_dir;        ///< empty: none
  std::string local_address;  ///< told to the other nodes; empty: found out
  bool prefix = true;
  bool console = true;
  std::set<std::uint32_t> console_ranks;  ///< local ranks whose lines are printed; empty: all
  std::string role = "default";
  Duration grace = std::chrono::seconds(15);
  Duration last_call = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::minutes(10);
  Duration connect_timeout = std::chrono::seconds(30);
  std::map<std::string, std::string> labels;
  std::string domain;
  std::vector<std::string> command;  ///< with the interpreter, if it is a script or a module
  std::string script;                ///< of Python, in the command; empty: none
};

/// 500ms, 15s, 10m, 2h; a number alone is seconds. Throws Fatal, naming the option.
Duration parse_duration(const std::string& option, const std::string& text);

struct ParsedOptions {
  Options options;
  std::string reply;  ///< not empty: print this (help, version) and be done
};

/// Throws Fatal with exit_code::kUsage.
ParsedOptions parse_options(int argc, const char* const* argv,
                            const client::Environment& environment);

}  // namespace c10dd::run
