// SPDX-License-Identifier: Apache-2.0
// Finds intact records behind damage in a RocksDB log, where RocksDB itself does not read. With
// fsync, a commit is one record, and is synced before the next record is written. So if a change
// cannot be read, but a later record is intact, the change was on disk and was lost. The pages of
// an unsynced record may have reached the disk in any order; they do not look like an intact
// record. This file does not use RocksDB.
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
