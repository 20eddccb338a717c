// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/table.h"

#include <algorithm>

namespace c10dd::ctl {

std::string Table::text() const {
  std::vector<std::size_t> widths(rows_.front().size(), 1);
  for (const auto& row : rows_) {
    for (std::size_t n = 0; n < row.size(); ++n) widths[n] = std::max(widths[n], row[n].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t n = 0; n < row.size(); ++n) {
      const std::string& cell = row[n].empty() ? "-" : row[n];
      text += cell;
      if (n + 1 < row.size()) text.append(widths[n] + 2 - cell.size(), ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace c10dd::ctl
