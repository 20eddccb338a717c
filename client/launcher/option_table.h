// SPDX-License-Identifier: Apache-2.0
// Every option of c10drun once, and every flag of torchrun that is none of them. Adding one is a
// line here and its meaning in options.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace c10dd::run {

/// What the command line says, before it is understood.
struct Words {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string node_rank;
  std::string max_restarts = "3";
  std::string daemon;
  bool standalone = false;
  std::string job;
  std::string run;
  bool module = false;
  bool no_python = false;
  std::string log_dir;
  bool no_prefix = false;
  bool no_console = false;
  std::string local_ranks;
  std::string grace = "15s";
  std::string last_call = "30s";
  std::string join_timeout = "10m";
  std::string connect_timeout = "30s";
  std::vector<std::string> labels;
  std::string domain;
  std::string local_address;
  std::string role = "default";
  bool help = false;
  bool version = false;
};

struct Option {
  std::vector<std::string_view> names;  ///< the first is its own; '_' may stand for each '-' inside
  std::string_view value;               ///< its form in the help; empty for a switch
  std::string_view sentence;            ///< lines of the help
  std::variant<bool Words::*, std::string Words::*, std::vector<std::string> Words::*> word;
};

const std::vector<Option>& all_options();

/// A flag of torchrun, of any version from 1.13 to 2.15, that has no option here.
struct TorchrunFlag {
  std::vector<std::string_view> names;
  bool has_value;
  std::vector<std::string_view> granted;  ///< values that are so anyway; "*": all of them
  std::string_view instead;               ///< what to do for any other value
};

const std::vector<TorchrunFlag>& torchrun_flags();

/// The text of --help.
std::string help_text();

}  // namespace c10dd::run
