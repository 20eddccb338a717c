// SPDX-License-Identifier: Apache-2.0
// JobPattern: the form in which tokens and grants name jobs.
#pragma once

#include <string>
#include <string_view>

#include "protocol/error.h"

namespace c10dd {

/// A set of jobs: one name, or with * at the end all names that begin so.
class JobPattern {
 public:
  /// Fails with invalid_argument if the text is empty, too long, or has a * elsewhere.
  static Result<JobPattern> of(std::string_view text);

  bool fits(std::string_view job) const;
  /// Returns whether it stands for all jobs.
  bool is_everything() const { return is_prefix_ && text_.empty(); }

 private:
  JobPattern(std::string_view text, bool is_prefix) : text_(text), is_prefix_(is_prefix) {}

  std::string text_;  // without the *
  bool is_prefix_;
};

}  // namespace c10dd
