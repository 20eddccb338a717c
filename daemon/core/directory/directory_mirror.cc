// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/directory/directory_mirror.h"

#include <map>
#include <set>

namespace c10dd::core {
namespace {

/// Returns rows that erase `keys` and then put `puts`. In this order, what moves from one row to
/// another (a port, a number) is free before it is taken.
Rows in_order(const std::set<std::string_view>& keys,
              const std::map<std::string_view, std::string_view>& puts) {
  Rows rows;
  for (const std::string_view key : keys) rows.add(Row::Kind::erase, key, {});
  for (const auto& [key, value] : puts) rows.add(Row::Kind::put, key, value);
  return rows;
}

}  // namespace

void DirectoryMirror::begin(const Directory& directory) {
  rows_.clear();
  apply(directory.rows());
}

bool DirectoryMirror::has(const Row& row) const {
  const auto found = rows_.find(row.key);
  return found != rows_.end() && found->second == row.value;
}

void DirectoryMirror::apply(const Rows& change) {
  for (const RowView& row : change) store::apply(row, rows_);
}

Rows DirectoryMirror::undo(const Rows& change) const {
  std::set<std::string_view> keys;
  std::map<std::string_view, std::string_view> puts;
  for (const RowView& row : change) {
    const auto at = rows_.find(row.key);
    if (at == rows_.end()) {
      keys.insert(row.key);
    } else {
      puts[at->first] = at->second;
    }
  }
  return in_order(keys, puts);
}

Rows DirectoryMirror::difference(const Directory& newer) const {
  store::RowMap wanted;
  for (const RowView& row : newer.rows()) store::apply(row, wanted);
  std::set<std::string_view> keys;
  std::map<std::string_view, std::string_view> puts;
  for (const auto& [key, value] : rows_) {
    if (!wanted.contains(key)) keys.insert(key);
  }
  for (const auto& [key, value] : wanted) {
    const auto at = rows_.find(key);
    if (at == rows_.end() || at->second != value) puts[key] = value;
  }
  return in_order(keys, puts);
}

}  // namespace c10dd::core
