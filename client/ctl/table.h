// SPDX-License-Identifier: Apache-2.0
// Lines of text in columns. Pure.
#pragma once

#include <string>
#include <vector>

namespace c10dd::ctl {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// Adds a row with as many cells as the header. An empty cell is shown as "-".
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Returns the rows, one line each, with columns as wide as their longest cell.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace c10dd::ctl
