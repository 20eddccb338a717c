// SPDX-License-Identifier: Apache-2.0
// Opens the rows of a state directory, and fails if changes were lost. If a log was cut, damaged or
// deleted, RocksDB itself opens it as a shorter log. Here, such a state fails to open, with a text
// that says what was found and what was expected. Every file stays as it was.
#pragma once

#include <memory>
#include <string>

#include "store/rocks/high_water.h"

namespace rocksdb {
class DB;
}

namespace c10dd::store {

class RoomNeed;
class RoomGuard;

/// Decides whether a state that is older than its high-water mark may be opened.
class Rollback {
 public:
  /// If `accepted` is true, the operator has agreed to open a state that lacks changes.
  Rollback(const HighWaterFile& high_water, std::string directory, bool accepted);

  /// Records a loss. `what` is a text that says what was found and what was expected. Fails
  /// with state_rolled_back, unless the loss is accepted or the mark is no longer valid
  /// (HighWaterMark::holds).
  Result<void> found(const std::string& what);

  /// Records which tables are damaged. Must be called only if accepted() is true.
  void found_damage(std::string tables) { damage_ = std::move(tables); }

  bool accepted() const { return accepted_; }
  /// Returns why the state may lack changes that clients have seen; empty if no loss is suspected.
  const std::string& why() const { return why_; }
  /// Returns a text that names the damaged tables; empty if no damage is known.
  const std::string& damage() const { return damage_; }

 private:
  std::string directory_;
  bool accepted_;
  bool promised_ = true;  // whether the mark is still valid (HighWaterMark::holds)
  bool found_ = false;
  std::string why_;
  std::string damage_;
};

/// The opened RocksDB database, the limit of its compactions, and the free disk space that they
/// need.
struct OpenRows {
  std::shared_ptr<RoomGuard> guard;
  std::shared_ptr<rocksdb::DB> db;
  std::shared_ptr<const RoomNeed> need;
};

/// Opens the rows, or creates them if no row was ever acknowledged. On success, all changes up to
/// the mark are there, or rollback.why() says why some are missing. Fails with state_rolled_back or
/// malformed if a person must look at the files. Fails with unavailable if another try may help.
/// Passes the warnings of RocksDB to `warn`, on any thread.
Result<OpenRows> open_rows(const std::string& directory, HighWaterFile& high_water,
                           Rollback& rollback, std::function<void(std::string_view)> warn);

/// Returns the number of the first log that is still needed, for HighWaterMark::log_number.
std::uint64_t needed_log(rocksdb::DB& db);

/// Writes a copy of the current rows to `path`. The mark of the copy is `mark` with
/// Renewal::restored, so the copy gets a new incarnation when it is opened. `path` appears complete
/// or not at all. `directory` is the state directory, which must not contain `path`. May run at the
/// same time as any other use of the rows.
Result<void> write_checkpoint(rocksdb::DB& db, const HighWaterMark& mark,
                              const std::string& directory, const std::string& path);

}  // namespace c10dd::store
