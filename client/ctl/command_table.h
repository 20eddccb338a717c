// SPDX-License-Identifier: Apache-2.0
// Types of the table of commands. arguments.cc and ca_arguments.cc fill the table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/ctl/arguments.h"

namespace c10dd::ctl {

/// The values of the options as text.
struct Words : CaArguments {
  std::string daemon;
  std::string timeout = "10";
  std::string output = "table";
  std::string endpoint = "main";
  std::string run;
  std::string world_size = "0";
  std::optional<std::string> idle;
  bool watch = false;
  bool help = false;
  bool version = false;
};

struct Option {
  std::string_view names;  ///< with commas between, as CLI11 takes them
  std::string_view value;  ///< placeholder of the value in the help
  std::string_view sentence;
  /// The third kind takes a value or none, and then holds an empty text. The fourth may be given
  /// several times.
  std::variant<std::string Words::*, bool Words::*, std::optional<std::string> Words::*,
               std::vector<std::string> Words::*>
      word;
};

/// A command. One of a group has the name of the group before its own, with a space between.
struct Command {
  std::string_view name;
  std::vector<std::string_view> operands;
  std::string_view sentence;
  std::vector<Option> options = {};
  /// It reads files, of which several may be given, and asks no daemon.
  bool reads_files = false;
  /// It asks no daemon.
  bool is_local = false;
};

/// Returns the commands of the group `ca`.
const std::vector<Command>& ca_commands();

}  // namespace c10dd::ctl
