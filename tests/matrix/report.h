// SPDX-License-Identifier: Apache-2.0
// The page docs/backends.md: which backend runs which operation on elements of which type.
#pragma once

#include <string>
#include <vector>

#include "tests/matrix/worker.h"

namespace c10dd::matrix {

class Report {
 public:
  /// `pairs`: not all cells were run.
  explicit Report(bool pairs) : pairs_(pairs) {}

  void add(const Plan& plan, const Result& result);

  /// Returns the page, as Markdown.
  std::string text() const;

 private:
  std::string table(const Plan& plan, const Result& result) const;

  const bool pairs_;
  std::vector<std::string> sections_;
};

}  // namespace c10dd::matrix
