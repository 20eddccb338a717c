// SPDX-License-Identifier: Apache-2.0
// Before anything may write, the rows are opened read-only and the order of the changes in the
// logs is followed: from the newest change that the tables hold, without a gap, to the first
// record that is missing or damaged. That point is held against the high-water mark, and with fsync
// nothing that was written after it may be there (rocks_log.h). Then the rows
// are opened up to exactly there: what lies behind it was never acknowledged, or was accepted as
// lost.
// Beside that: tracked sizes of closed logs (RocksDB's manifest), the number of the first needed
// log (a manifest that lost its end), checksums of all tables where that takes no time. Larger
// state is verified block by block as load() reads it, before anything of it is served.
#include "store/rocks/open.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/table.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "store/rocks/log.h"
#include "store/rocks/room.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::uint64_t kVerifyAtOpen = 256 * kMiB;
constexpr std::size_t kTableMax = 32 * kMiB;

/// A log of so many bytes is allocated in advance, and written out as a table beside it: a small
/// disk must have room for both several times.
std::size_t table_bytes(const std::string& directory) {
  std::error_code failed;
  const std::uintmax_t disk = std::filesystem::space(directory, failed).capacity;
  if (failed) return kTableMax;
  return static_cast<std::size_t>(std::clamp<std::uintmax_t>(disk / 32, kMiB, kTableMax));
}

/// One writer, few rows in memory: everything that RocksDB would spend on more is turned down.
rocksdb::Options rows_options(const std::string& directory) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(4 * kMiB, 0);
  table.format_version = 5;
  rocksdb::Options out;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  out.paranoid_checks = true;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  out.recycle_log_file_num = 0;  // a recycled log cannot tell a torn tail from old records
  out.track_and_verify_wals_in_manifest = true;
  const std::size_t unit = table_bytes(directory);
  out.write_buffer_size = unit;
  out.target_file_size_base = unit;
  out.max_bytes_for_level_base = 4 * unit;
  out.max_compaction_bytes = 8 * unit;  // a compaction needs as much room beside its input
  out.ignore_max_compaction_bytes_for_input = false;
  // A commit never waits for a compaction, which waits for room on the disk. What that lets the
  // upper levels grow to is kept free beside them (RoomNeed), for their compaction.
  out.level0_slowdown_writes_trigger = std::numeric_limits<int>::max();
  out.level0_stop_writes_trigger = std::numeric_limits<int>::max();
  out.soft_pending_compaction_bytes_limit = std::numeric_limits<std::uint64_t>::max();
  out.hard_pending_compaction_bytes_limit = std::numeric_limits<std::uint64_t>::max();
  out.max_write_buffer_number = 2;
  out.compression = rocksdb::kNoCompression;
  out.max_open_files = 128;
  out.max_file_opening_threads = 1;
  out.max_background_jobs = 2;
  out.max_manifest_file_size = 16 * kMiB;
  // Rows are read when a job is loaded, never else: sorting them once, when the table is written
  // out, costs about half of keeping them sorted (measured as processor time of a set).
  out.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  out.allow_concurrent_memtable_write = false;
  out.enable_write_thread_adaptive_yield = false;
  out.stats_dump_period_sec = 0;
  out.stats_persist_period_sec = 0;
  out.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  return out;
}

/// The probe leaves no log of its own in a directory that may be evidence.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

/// Hands warnings on. RocksDB's own log is a file on the disk that may be full, and an unfinished
/// line in it ends the process where assertions are compiled in.
class Warnings final : public rocksdb::Logger {
 public:
  explicit Warnings(std::function<void(std::string_view)> warn)
      : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), warn_(std::move(warn)) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line;
    std::vsnprintf(line.data(), line.size(), format, arguments);
    if (warn_) warn_(line.data());
  }

 private:
  std::function<void(std::string_view)> warn_;
};

/// Follows the changes in the logs, which are numbered one by one.
class LogOrder final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "c10dd.order"; }

  void ColumnFamilyLogNumberMap(const std::map<std::uint32_t, std::uint64_t>& numbers,
                                const std::map<std::string, std::uint32_t>&) override {
    for (const auto& [family, number] : numbers) first_log_ = number;
  }

  WalProcessingOption LogRecordFound(unsigned long long, const std::string& file,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    std::uint64_t sequence = 0;  // a batch begins with the number of its first change
    C10DD_ASSERT(batch.Data().size() >= sizeof sequence);
    std::memcpy(&sequence, batch.Data().data(), sizeof sequence);
    if (limit_ != 0) {
      return sequence <= limit_ ? WalProcessingOption::kContinueProcessing
                                : WalProcessingOption::kStopReplay;
    }
    const std::string name = std::filesystem::path(file).filename();
    if (next_ == 0) begin_ = next_ = sequence;
    if (sequence != next_) {
      gap_ = name + " begins at change " + std::to_string(sequence);
      return WalProcessingOption::kStopReplay;
    }
    if (file_.empty()) first_ = name + " begins at change " + std::to_string(sequence);
    next_ += static_cast<std::uint64_t>(batch.Count());
    file_ = name;
    return WalProcessingOption::kIgnoreCurrentRecord;
  }

  /// The newest change without a gap, when the tables hold all up to `base`.
  std::uint64_t reach(std::uint64_t base) const {
    return next_ != 0 && begin_ <= base + 1 ? std::max(base, next_ - 1) : base;
  }
  /// Where the needed logs begin, as the list of tables has it.
  std::uint64_t first_log() const { return first_log_; }

  /// Where order ends, for people.
  std::string end(const std::string& path, const std::string& oldest, std::uint64_t base) const {
    const std::string change = " ends at change " + std::to_string(reach(base));
    if (next_ == 0) {
      return path + change + ", no record is whole from " + path + "/" + oldest + " on";
    }
    if (begin_ > base + 1) {
      return path + change + " before its logs, the oldest that is there, " + first_ +
             ": log files are missing";
    }
    return path + "/" + file_ + change + (gap_.empty() ? "" : ", " + gap_);
  }

  /// From now on replays what the logs have up to this change, which is not 0.
  void replay(std::uint64_t limit) { limit_ = limit; }

 private:
  std::uint64_t first_log_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t next_ = 0;  ///< the number expected; 0: no record yet
  std::uint64_t limit_ = 0;
  std::string first_;  ///< log, for people
  std::string file_;   ///< the last that has a change in order
  std::string gap_;    ///< behind it, for people
};

Failure refused(const std::string& directory, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const auto says = [&](int error) { return text.find(std::strerror(error)) != std::string::npos; };
  const std::string what = "rocksdb: " + directory + " cannot be opened: " + text;
  if (says(EACCES)) return failure(Code::permission_denied, what + "; look at owner and mode");
  for (const int error : {EMFILE, ENFILE, ENOMEM, ENOSPC}) {
    if (says(error)) return failure(Code::unavailable, what);
  }
  return failure(Code::malformed, what + "; no row was removed: restore a checkpoint");
}

bool has_files(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator files(path, error);
  return !error && files != std::filesystem::directory_iterator();
}

/// Empty when there is none.
std::string oldest_log(const std::string& path) {
  std::string oldest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".log") && (oldest.empty() || name < oldest)) oldest = name;
  }
  return oldest;
}

/// With fsync: what shows that the change behind `reach`, which cannot be read, was on disk; for
/// people. Empty: nothing does.
std::string written_behind(const std::string& path, std::uint64_t first_log, std::uint64_t reach) {
  std::map<std::uint64_t, Bytes> logs;
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    std::uint64_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (std::string_view(read.ptr) != ".log" || number < first_log) continue;
    Bytes& log = logs[number];
    log.resize(entry.file_size(error));
    std::ifstream file(entry.path(), std::ios::binary);
    file.read(log.data(), static_cast<std::streamsize>(log.size()));
    log.resize(static_cast<std::size_t>(file.gcount()));
    bytes += log.size();
  }
  for (const auto& [number, log] : logs) {
    const std::optional<std::uint64_t> later = record_behind(log, reach + 1, bytes);
    if (!later) continue;
    return path + " ends at change " + std::to_string(reach) + ", and a log, number " +
           std::to_string(number) + ", has change " + std::to_string(*later) +
           " whole behind that, which was written when change " + std::to_string(reach + 1) +
           " was on disk";
  }
  return {};
}

/// Each damaged table with what is wrong.
std::string damaged_tables(rocksdb::DB& db, const rocksdb::Options& how) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db.GetLiveFilesMetaData(&tables);
  std::string all;
  for (const rocksdb::LiveFileMetaData& table : tables) {
    rocksdb::SstFileReader reader(how);
    rocksdb::Status sums = reader.Open(table.db_path + table.name);
    if (sums.ok()) sums = reader.VerifyChecksum();
    if (sums.ok()) continue;
    all += (all.empty() ? "" : "; ") + table.db_path + table.name + ": " + sums.ToString();
  }
  return all;
}

/// How far intact state goes, without a change to any file; fails for less than the mark.
Result<std::uint64_t> probe(const std::string& directory, const HighWaterMark& mark,
                            Rollback& rollback, rocksdb::Options how, LogOrder& order) {
  const std::string path = directory + "/rows";
  how.info_log = std::make_shared<NoLog>();
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(how, path, &opened);
  if (!status.ok()) return refused(directory, status);
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::uint64_t bytes = 0;
  db->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
  if (bytes <= kVerifyAtOpen) {
    const rocksdb::Status sums = db->VerifyChecksum();
    if (!sums.ok() && !rollback.accepted()) return refused(directory, sums);
    if (!sums.ok()) rollback.found_damage(damaged_tables(*db, how));
  }
  const std::uint64_t base = db->GetLatestSequenceNumber();
  const std::uint64_t reach = order.reach(base);
  Result<void> good;
  const bool less = order.first_log() < mark.log_number || reach < mark.sequence;
  const std::string oldest = oldest_log(path);
  if (less && oldest.empty()) {
    good = rollback.found(path + " has no log file: without those from number " +
                          std::to_string(std::max(mark.log_number, needed_log(*db))) +
                          " on it ends at change " + std::to_string(reach) + ", the mark is at " +
                          std::to_string(mark.sequence));
  } else if (order.first_log() < mark.log_number) {
    good = rollback.found(path + "/MANIFEST-* has lost its end: it needs logs from " +
                          std::to_string(order.first_log()) + ", the mark knows " +
                          std::to_string(mark.log_number));
  } else if (reach < mark.sequence) {
    good = rollback.found(order.end(path, oldest, base) + ", the mark is at " +
                          std::to_string(mark.sequence));
  } else if (mark.holds == HighWaterMark::Holds::always) {
    const std::string later = written_behind(path, order.first_log(), reach);
    if (!later.empty()) good = rollback.found(later);
  }
  if (!good) return good.error();
  return reach;
}

}  // namespace

Rollback::Rollback(const HighWaterFile& high_water, std::string directory, bool accepted)
    : directory_(std::move(directory)), accepted_(accepted) {
  const HighWaterMark& mark = high_water.mark();
  if (mark.holds == HighWaterMark::Holds::this_boot) promised_ = mark.boot == boot_number();
  if (mark.holds == HighWaterMark::Holds::never) {
    promised_ = false;
    why_ = "with durability none the daemon did not stop cleanly";
  }
  if (mark.renewal == HighWaterMark::Renewal::restored) why_ = "it was restored from a checkpoint";
  if (mark.renewal == HighWaterMark::Renewal::rolled_back)
    why_ = "an earlier start found it rolled back";
}

Result<void> Rollback::found(const std::string& what) {
  if (accepted_ || !promised_) {
    if (!std::exchange(found_, true)) why_ = what;
    return {};
  }
  return failure(Code::state_rolled_back,
                 "rocksdb: " + directory_ + " has less than was acknowledged: " + what +
                     "; no row was removed: restore a checkpoint, or start once with "
                     "--accept-rollback to go on with what is left");
}

Result<OpenRows> open_rows(const std::string& directory, HighWaterFile& high_water,
                           Rollback& rollback, std::function<void(std::string_view)> warn) {
  using Found = HighWaterFile::Found;
  const std::string path = directory + "/rows";
  const bool empty = !has_files(path);
  Result<void> good;
  if (empty && high_water.found() == Found::nothing) {
    // Before the rows: rows without a mark are never a first start.
    good = high_water.write(HighWaterMark{});
  } else if (high_water.found() != Found::mark) {
    good = rollback.found(high_water.path() + (high_water.found() == Found::damage
                                                   ? " is damaged in both of its slots"
                                                   : " is missing beside " + path));
  } else if (empty && high_water.mark().sequence > 0) {
    good = rollback.found(path + " is empty, the mark is at change " +
                          std::to_string(high_water.mark().sequence));
  }
  if (!good) return good.error();

  const HighWaterMark& mark = high_water.mark();
  rocksdb::Options how = rows_options(directory);
  how.create_if_missing = empty || (high_water.found() == Found::mark && mark.sequence == 0);
  how.track_and_verify_wals_in_manifest = !rollback.accepted();
  how.info_log = std::make_shared<Warnings>(std::move(warn));
  const auto order = std::make_shared<LogOrder>();
  if (!how.create_if_missing) {
    how.wal_filter = order.get();
    const Result<std::uint64_t> reach = probe(directory, mark, rollback, how, *order);
    if (!reach) return reach.error();
    order->replay(std::max<std::uint64_t>(*reach, 1));
  }
  std::error_code ignored;  // what cannot be made, RocksDB cannot open
  if (empty) {
    std::filesystem::create_directory(path, ignored);  // it would log an error
    if (!sync_directory(directory)) {
      return failure(Code::unavailable,
                     "rocksdb: " + directory + " cannot be synced: " + std::strerror(errno));
    }
  }
  const auto need = std::make_shared<RoomNeed>(how.write_buffer_size, how.max_compaction_bytes);
  how.listeners = {listener_of(need)};
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(how, path, &opened);
  if (!status.ok()) return refused(directory, status);
  // The options keep a pointer to the filter.
  OpenRows rows{{opened, [order](rocksdb::DB* db) { delete db; }}, need};
  need->look(*opened);
  return rows;
}

std::uint64_t needed_log(rocksdb::DB& db) {
  std::uint64_t number = 0;
  db.GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &number);
  return number;
}

}  // namespace c10dd::store
