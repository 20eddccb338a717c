// SPDX-License-Identifier: Apache-2.0
// Reads the command line of c10drun and checks it before anything is started. Pure, except that a
// job that runs on one node gets a default name with the host's name and the process id.
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

// Exit codes with the same meaning as in a shell. protocol/exit_codes.h has the other exit codes.
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kSignalled = 128;  // plus the signal's number

/// An error quotes at most this many bytes of an argument.
inline constexpr std::size_t kQuotedBytes = 120;

/// An error that ends the launcher with a message and an exit code.
class Fatal : public std::runtime_error {
 public:
  Fatal(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// Returns 8 random characters.
std::string random_name();

/// Throws Fatal with exit_code::kUsage.
[[noreturn]] void refuse(const std::string& text);

struct Options {
  std::uint32_t nproc = 1;  ///< workers on this node
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t max_restarts = 0;
  std::uint32_t max_flaps = 10;
  std::int64_t node_rank = -1;  ///< -1: assigned by the daemon
  client::Url daemon;           ///< the addresses of the daemons, and the name of the job
  bool standalone = false;      ///< true: c10drun starts a daemon and puts its address in `daemon`
  std::string run;
  std::string log_dir;        ///< empty: no log files
  std::string local_address;  ///< address of this node for other nodes; empty: determined later
  bool prefix = true;
  bool console = true;
  std::set<std::uint32_t> console_ranks;  ///< local ranks whose lines are printed; empty for all
  std::string role = "default";
  bool store_in_rank0 = false;  ///< the workers' store is a server in rank 0, not the daemon
  Duration grace = std::chrono::seconds(15);
  Duration last_call = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::minutes(10);
  Duration connect_timeout = std::chrono::seconds(30);
  Duration exit_timeout = std::chrono::minutes(5);
  std::int64_t stdin_rank = -1;  ///< -1: the only worker, if standard input is a terminal
  std::map<std::string, std::string> labels;
  std::string domain;
  std::vector<std::string> command;  ///< for a script or module, the first word is the interpreter
  std::vector<std::string> from_variables;  ///< PET_* that have set options, as NAME=VALUE
  std::string script;  ///< the Python script in the command; empty if there is none
};

/// Parses a duration such as 500ms, 15s, 10m or 2h. A number without a unit means seconds. If the
/// text is not a valid duration, throws Fatal with an error text that names the option.
Duration parse_duration(const std::string& option, const std::string& text);

struct ParsedOptions {
  Options options;
  std::string reply;  ///< text of --help or --version; if not empty, print the text and exit
};

/// Reads the command line and the environment. Throws Fatal with exit_code::kUsage.
ParsedOptions parse_options(int argc, const char* const* argv,
                            const client::Environment& environment);

}  // namespace c10dd::run
