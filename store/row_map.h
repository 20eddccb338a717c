// SPDX-License-Identifier: Apache-2.0
// The rows of a job in memory, by key.
#pragma once

#include <map>

#include "protocol/rows.h"

namespace c10dd::store {

using RowMap = std::map<Bytes, Bytes, std::less<>>;

/// Makes the change that a row says: puts a row, or erases one or all with a prefix.
inline void apply(const RowView& row, RowMap& rows) {
  if (row.kind == Row::Kind::put) {
    rows.insert_or_assign(Bytes(row.key), Bytes(row.value));
    return;
  }
  auto at = rows.lower_bound(row.key);
  if (row.kind == Row::Kind::erase) {
    if (at != rows.end() && at->first == row.key) rows.erase(at);
    return;
  }
  while (at != rows.end() && at->first.starts_with(row.key)) at = rows.erase(at);
}

}  // namespace c10dd::store
