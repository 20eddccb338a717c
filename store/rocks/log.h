// SPDX-License-Identifier: Apache-2.0
// Finds intact records behind damage in a RocksDB log. RocksDB itself stops reading at the damage.
// With fsync, a commit is one record, and is synced before the next record is written. So if a
// change cannot be read, but a later record is intact, the change was on disk and was lost. An
// unsynced record may have reached the disk in part, and its pages in any order; such a record does
// not look intact. This file does not use RocksDB.
// Not promised: if a value of a torn record contains a copy of a record, the search may mistake the
// copy for a record.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace c10dd::store {

/// Finds the first intact record whose first change has a number from `missing` + 1 to `missing` +
/// `window`. Returns the number of that change. RocksDB must have read all changes below `missing`
/// without an error.
std::optional<std::uint64_t> record_behind(std::string_view log, std::uint64_t missing,
                                           std::uint64_t window);

}  // namespace c10dd::store
