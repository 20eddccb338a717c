// SPDX-License-Identifier: Apache-2.0
// The tables of all options of c10drun, and of all flags of torchrun that c10drun does not have. To
// add an option, add a field to Words, add a line to option_table.cc, and read the field in
// options.cc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace c10dd::run {

/// The values of the options as text from the command line, not checked yet.
struct Words {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string node_rank;
  std::string max_restarts = "0";
  std::string max_flaps = "10";
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
  std::string exit_timeout = "5m";
  std::string stdin_rank;
  std::vector<std::string> labels;
  std::string domain;
  std::string local_address;
  std::string role = "default";
  std::string store = "proxy";
  bool help = false;
  bool version = false;
  bool show = false;
  /// Which variable PET_* has set an option, and its value, by the option's first name.
  std::map<std::string, std::pair<std::string, std::string>> variables = {};
};

struct Option {
  std::vector<std::string_view> names;  ///< all spellings; users may write '_' for an inner '-'
  std::string_view value;     ///< placeholder of the value in the help; empty for a switch
  std::string_view sentence;  ///< help text; lines end with \n
  std::variant<bool Words::*, std::string Words::*, std::vector<std::string> Words::*> word;
};

const std::vector<Option>& all_options();

/// A flag that c10drun does not have, but at least one version of torchrun from 1.13 to 2.15 has.
struct TorchrunFlag {
  std::vector<std::string_view> names;
  bool has_value;
  std::vector<std::string_view> accepted;  ///< values that are accepted and ignored; "*" means all
  std::string_view instead;                ///< error text for other values; says what to use
};

const std::vector<TorchrunFlag>& torchrun_flags();

/// Returns the text of --help.
std::string help_text();

}  // namespace c10dd::run
