// SPDX-License-Identifier: Apache-2.0
// Reads what lies behind the damage in a RocksDB log, which RocksDB itself never looks at. With
// fsync a commit is one record, and its sync is over before the next one is written: so a whole
// record behind the first change that cannot be read shows that this change had been on disk.
// Pages of one record that were not synced may have reached the disk in any order; they make no
// whole record. Pure: no RocksDB here.
// Not promised: to tell a record from a copy of one inside a value whose own record was torn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace c10dd::store {

/// The first whole record of a log that begins with a change after `missing`, by at most `window`.
/// What lies before `missing` was read without an error. The number of its first change.
std::optional<std::uint64_t> record_behind(std::string_view log, std::uint64_t missing,
                                           std::uint64_t window);

}  // namespace c10dd::store
