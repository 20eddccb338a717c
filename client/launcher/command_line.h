// SPDX-License-Identifier: Apache-2.0
// Splits the command line into the words of our options and the program. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/launcher/option_table.h"

namespace c10dd::run {

class CommandLine {
 public:
  explicit CommandLine(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  /// Up to the program or `--`; the last of several counts. Throws Fatal for a word that is no
  /// option, saying which was meant, or what to do instead of a flag of torchrun.
  Words parse();
  /// The program and its arguments.
  std::vector<std::string> rest() const;
  /// Whether `--` ended the options.
  bool marked() const { return marked_; }

 private:
  void take(const std::string& word, Words& words);

  std::vector<std::string> arguments_;
  std::size_t at_ = 0;
  bool marked_ = false;
};

}  // namespace c10dd::run
