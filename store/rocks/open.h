// SPDX-License-Identifier: Apache-2.0
// Opens the rows of a state directory under the recovery policy. RocksDB itself opens a log that
// was cut, damaged or deleted as a shorter log. Here such a state fails to open, with a text that
// has what is there and what must be there; every file stays as it was.
#pragma once

#include <memory>
#include <string>

#include "store/rocks/high_water.h"

namespace rocksdb {
class DB;
}

namespace c10dd::store {

class RoomNeed;

/// Decides whether a state that is older than its high-water mark may be opened.
class Rollback {
 public:
  /// `accepted`: the operator accepts to go on with what is left.
  Rollback(const HighWaterFile& high_water, std::string directory, bool accepted);

  /// Records that something is missing; `what` says what is there and what should be. Fails with
  /// state_rolled_back, unless the loss is accepted or the mark never promised more
  /// (HighWaterMark::holds).
  Result<void> found(const std::string& what);

  /// Records damaged tables. Only if rollback is accepted.
  void found_damage(std::string tables) { damage_ = std::move(tables); }

  bool accepted() const { return accepted_; }
  /// Returns why the state may be older than clients have seen; empty if it is not.
  const std::string& why() const { return why_; }
  /// Returns the damaged tables; empty if no damage is known.
  const std::string& damage() const { return damage_; }

 private:
  std::string directory_;
  bool accepted_;
  bool promised_ = true;  // whether the mark is valid after the last stop
  bool found_ = false;
  std::string why_;
  std::string damage_;
};

/// The open rows, and how much room they need.
struct OpenRows {
  std::shared_ptr<rocksdb::DB> db;
  std::shared_ptr<const RoomNeed> need;
};

/// Opens the rows, or creates them if no row was ever acknowledged. Afterwards all changes up to
/// the mark are there, or rollback.why() says why not. Fails with state_rolled_back or malformed if
/// a person must look at the files, with unavailable if another try may help. `warn` gets the
/// warnings of RocksDB, on any thread.
Result<OpenRows> open_rows(const std::string& directory, HighWaterFile& high_water,
                           Rollback& rollback, std::function<void(std::string_view)> warn);

/// Returns the number of the first log that is still needed, for HighWaterMark::log_number.
std::uint64_t needed_log(rocksdb::DB& db);

/// Writes a copy of the rows as they are now, with a mark that gives them a new incarnation when
/// they are opened. `path` appears complete or not at all. `directory` is the state directory,
/// which must not contain `path`. May run at the same time as any other use of the rows.
Result<void> write_checkpoint(rocksdb::DB& db, const HighWaterMark& mark,
                              const std::string& directory, const std::string& path);

}  // namespace c10dd::store
