// SPDX-License-Identifier: Apache-2.0
// Opens the rows of a state directory under the recovery policy. RocksDB by itself opens a log
// that was cut, damaged or deleted as a shorter one; here that is a refusal which names what is
// there and what must be there, and leaves every file as it was.
#pragma once

#include <memory>
#include <string>

#include "store/rocks/high_water.h"

namespace rocksdb {
class DB;
}

namespace c10dd::store {

class RoomNeed;

/// Decides about state that is older than its high-water mark.
class Rollback {
 public:
  /// `accepted`: the operator goes on with what is left.
  Rollback(const HighWaterFile& high_water, std::string directory, bool accepted);

  /// What is there and what should be. Fails unless that was accepted, or the mark never promised
  /// more (HighWaterMark::holds).
  Result<void> found(const std::string& what);

  /// Tables that are damaged; only where rollback is accepted.
  void found_damage(std::string tables) { damage_ = std::move(tables); }

  bool accepted() const { return accepted_; }
  /// Why the state may be older than clients know; empty when it is not.
  const std::string& why() const { return why_; }
  const std::string& damage() const { return damage_; }

 private:
  std::string directory_;
  bool accepted_;
  bool promised_ = true;
  bool found_ = false;
  std::string why_;
  std::string damage_;
};

/// The rows, open, and how much room they need.
struct OpenRows {
  std::shared_ptr<rocksdb::DB> db;
  std::shared_ptr<const RoomNeed> need;
};

/// Opens, or creates what never held an acknowledged row. All that is at or below the mark is
/// there afterwards, or `rollback` knows why not. Fails as state_rolled_back or malformed when the
/// files must be looked at, unavailable when another try may help.
Result<OpenRows> open_rows(const std::string& directory, HighWaterFile& high_water,
                           Rollback& rollback, std::function<void(std::string_view)> warn);

/// Where logs begin that are still needed, for HighWaterMark::log_number.
std::uint64_t needed_log(rocksdb::DB& db);

/// A copy of the rows as they are now, and a mark that gives them a new incarnation when they are
/// opened. `path` appears complete or not at all. Beside any other use of the rows.
Result<void> write_checkpoint(rocksdb::DB& db, const HighWaterMark& mark,
                              const std::string& directory, const std::string& path);

}  // namespace c10dd::store
