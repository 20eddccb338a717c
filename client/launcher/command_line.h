// SPDX-License-Identifier: Apache-2.0
// Splits the command line into the options of c10drun, with values as text, and the program. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/internal/launch_environment.h"
#include "client/launcher/option_table.h"

namespace c10dd::run {

class CommandLine {
 public:
  explicit CommandLine(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  /// Reads the options up to the program or `--`. If an option is repeated, the last one counts.
  /// Throws Fatal for an unknown option or an unsupported flag of torchrun. The error text suggests
  /// the nearest known option, or what to use instead of the flag.
  /// `environment` has torchrun's variables PET_NNODES, PET_RDZV_ID and so on, which set options
  /// that are not in the arguments.
  Words parse(const client::Environment& environment = {});
  /// Returns the program and its arguments. Must be called after parse().
  std::vector<std::string> rest() const;
  /// Returns whether `--` ended the options.
  bool has_separator() const { return separator_; }

 private:
  void take(const std::string& word, Words& words);
  static void take_variables(const client::Environment& environment, Words& words);

  std::vector<std::string> arguments_;
  std::size_t at_ = 0;
  bool separator_ = false;
};

}  // namespace c10dd::run
