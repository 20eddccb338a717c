// SPDX-License-Identifier: Apache-2.0
// Finds intact records after the damage in a RocksDB log, where RocksDB itself never looks. With
// fsync a commit is one record, and it is synced before the next record is written. So an intact
// record after the first change that cannot be read shows that this change had been on disk, and
// was lost. The pages of a record that was not synced may have reached the disk in any order; they
// do not form an intact record. Pure: no RocksDB here.
// Not promised: to distinguish a record from a copy of a record inside a value of a torn record.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace c10dd::store {

/// Finds the first intact record of a log that begins with a change above `missing`, by at most
/// `window`, and returns the number of that change. RocksDB must have read all changes below
/// `missing` without an error.
std::optional<std::uint64_t> record_behind(std::string_view log, std::uint64_t missing,
                                           std::uint64_t window);

}  // namespace c10dd::store
