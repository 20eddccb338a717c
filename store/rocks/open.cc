// SPDX-License-Identifier: Apache-2.0
// Opens the rows in two steps.
// First, before anything is written, a read-only probe follows the changes in the logs, which must
// continue the changes in the tables without a gap. The probe ends at the first record that is
// missing or damaged. The changes before this end must reach the high-water mark. If
// HighWaterMark::holds is `always`, as with fsync, an intact record after the end proves a loss
// (rocks/log.h). Then the rows are opened with exactly the changes before the end. Later changes
// were never acknowledged, or their loss was accepted.
// The probe also checks two facts of RocksDB's manifest: the sizes of closed logs, and the number
// of the first needed log. If this number is lower than the one in the high-water mark, the
// manifest has lost its end. In a small state, the probe checks the checksums of all tables. In a
// larger state, load() verifies each block that it reads, before anything in the block is served.
#include "store/rocks/open.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/file_system.h>
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

#include "protocol/format.h"
#include "store/rocks/log.h"
#include "store/rocks/room.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::uint64_t kVerifyAtOpen = 256 * kMiB;  // load() verifies a larger state
constexpr std::size_t kTableMax = 32 * kMiB;

/// Returns the size of a table in bytes, which is also the size of the logs that RocksDB allocates.
/// The size depends on the disk: even a small disk must have room for several logs and tables.
std::size_t table_bytes(const std::string& directory) {
  std::error_code failed;
  const std::uintmax_t disk = std::filesystem::space(directory, failed).capacity;
  if (failed) return kTableMax;
  return static_cast<std::size_t>(std::clamp<std::uintmax_t>(disk / 32, kMiB, kTableMax));
}

/// Returns options of RocksDB. They fit a database with one writer, and keep few rows in memory.
rocksdb::Options rows_options(const std::string& directory) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(4 * kMiB, 0);
  table.format_version = 5;
  rocksdb::Options out;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  out.paranoid_checks = true;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  out.recycle_log_file_num = 0;  // in a recycled log, old records may follow a torn tail
  out.track_and_verify_wals_in_manifest = true;
  const std::size_t unit = table_bytes(directory);
  out.write_buffer_size = unit;
  out.target_file_size_base = unit;
  out.max_bytes_for_level_base = 4 * unit;
  out.max_compaction_bytes = 8 * unit;  // a compaction needs this much free room for its output
  out.ignore_max_compaction_bytes_for_input = false;
  // A commit must not wait for a compaction, because a compaction may wait for room on the disk. So
  // the upper levels may grow. RoomNeed computes the free room that their compaction needs.
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
  // Rows are read only when a job is loaded, so they are sorted only when a table is written. With
  // a sorted memtable, `set` requests took twice as much processor time.
  out.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  out.allow_concurrent_memtable_write = false;
  out.enable_write_thread_adaptive_yield = false;
  out.stats_dump_period_sec = 0;
  out.stats_persist_period_sec = 0;
  out.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  return out;
}

/// A logger that writes nothing, because the probe must leave a damaged directory as it is.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

/// Parts of warnings that are not passed on.
constexpr const char* kHarmless[] = {
    // The failure that began the pause was passed on.
    kCompactionsPause,
    // Each checkpoint keeps RocksDB from removing files twice, one call inside the other. RocksDB
    // counts the calls, and warns of the second one, and when the first one goes on.
    "File Deletions Disabled, but already disabled",
    "File Deletions Enable, but not really enabled",
};

/// Passes RocksDB's warnings to `warn`. RocksDB's own logger is not used, because it writes to
/// disk. If the disk is full, and assertions are compiled in, that logger can end the process.
class Warnings final : public rocksdb::Logger {
 public:
  explicit Warnings(std::function<void(std::string_view)> warn)
      : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), warn_(std::move(warn)) {}

  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 1024> line;
    std::vsnprintf(line.data(), line.size(), format, arguments);
    const auto is_harmless = [&](const char* part) {
      return std::strstr(line.data(), part) != nullptr;
    };
    if (warn_ && !std::ranges::any_of(kHarmless, is_harmless)) warn_(line.data());
  }

 private:
  std::function<void(std::string_view)> warn_;
};

/// Checks that the numbers of the changes in the logs are consecutive. After a call of replay(),
/// lets RocksDB apply the changes up to a limit.
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
      gap_ = format(" ({} begins at change {})", name, sequence);
      return WalProcessingOption::kStopReplay;
    }
    if (file_.empty()) first_ = format("{} begins at change {}", name, sequence);
    next_ += static_cast<std::uint64_t>(batch.Count());
    file_ = name;
    return WalProcessingOption::kIgnoreCurrentRecord;
  }

  /// Returns the number of the last change before the first missing change. The tables must have
  /// all changes up to `base`.
  std::uint64_t reach(std::uint64_t base) const {
    return next_ != 0 && begin_ <= base + 1 ? std::max(base, next_ - 1) : base;
  }
  /// Returns the number of the first needed log, according to the manifest.
  std::uint64_t first_log() const { return first_log_; }

  /// Returns a text that says where the changes end. `oldest` is the name of the oldest log.
  std::string end(const std::string& path, const std::string& oldest, std::uint64_t base) const {
    const std::uint64_t last = reach(base);
    if (next_ == 0) {
      return format("{0} ends at change {1} (no record is intact in {0}/{2} or later logs)", path,
                    last, oldest);
    }
    if (begin_ > base + 1) {
      return format("{} ends at change {} (the oldest log {}: log files are missing)", path, last,
                    first_);
    }
    return format("{}/{} ends at change {}{}", path, file_, last, gap_);
  }

  /// Lets the next opening replay the changes in the logs up to `limit`, which must not be 0.
  void replay(std::uint64_t limit) { limit_ = limit; }

 private:
  std::uint64_t first_log_ = 0;
  std::uint64_t begin_ = 0;  ///< number of the first change in the logs
  std::uint64_t next_ = 0;   ///< expected number of the next change; 0: no record yet
  std::uint64_t limit_ = 0;  ///< 0: only follows
  std::string first_;        ///< for people: name of the first log, and number of its first change
  std::string file_;         ///< name of the log that has the change next_ - 1
  std::string gap_;          ///< for people: the first record after a gap; empty if there is no gap
};

/// Returns the failure to open the rows. RocksDB has no codes for most system errors, so the
/// function looks for the texts of some system errors in the text of the status.
Failure refused(const std::string& directory, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  const auto says = [&](int error) { return text.find(std::strerror(error)) != std::string::npos; };
  const std::string what = format("rocksdb: {} cannot be opened: {}", directory, text);
  if (says(EACCES)) return failure(Code::permission_denied, what + "; check its owner and mode");
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

/// Returns the file name of the oldest log; empty if there is none.
std::string oldest_log(const std::string& path) {
  std::string oldest;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".log") && (oldest.empty() || name < oldest)) oldest = name;
  }
  return oldest;
}

/// Looks for proof that the change after `reach` was on disk, although it cannot be read. With
/// fsync, an intact record of a later change is the proof. Returns a text for people that describes
/// the proof, or an empty text if there is no proof.
std::string written_after(const std::string& path, std::uint64_t first_log, std::uint64_t reach) {
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
    return format(
        "{} ends at change {}, but log {} has the intact change {}, which was written only after "
        "change {} was on disk",
        path, reach, number, *later, reach + 1);
  }
  return {};
}

/// Returns a text for people: the path of each damaged table, and the error found in this table.
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

/// Returns the number of the last change that can be read before a gap or damage begins. Changes no
/// file. Fails if the rows cannot be opened. Also fails if changes are lost or damaged, unless
/// `rollback` allows it.
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
    good = rollback.found(
        format("{} has no log file: those from number {} on are missing; it ends at change {}, "
               "but the high-water mark is at {}",
               path, std::max(mark.log_number, needed_log(*db)), reach, mark.sequence));
  } else if (order.first_log() < mark.log_number) {
    good =
        rollback.found(format("{}/MANIFEST-* has lost its end: its first needed log is {}, but the "
                              "high-water mark has {}",
                              path, order.first_log(), mark.log_number));
  } else if (reach < mark.sequence) {
    good = rollback.found(format("{}, but the high-water mark is at {}",
                                 order.end(path, oldest, base), mark.sequence));
  } else if (mark.holds == HighWaterMark::Holds::always) {
    const std::string later = written_after(path, order.first_log(), reach);
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
    why_ = "durability is none and the daemon did not stop cleanly";
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
                 "rocksdb: {} lacks acknowledged changes: {}; no row was removed: restore a "
                 "checkpoint, or start once with --accept-rollback to go on with what is left",
                 directory_, what);
}

Result<OpenRows> open_rows(const std::string& directory, HighWaterFile& high_water,
                           Rollback& rollback, std::function<void(std::string_view)> warn) {
  using Found = HighWaterFile::Found;
  const std::string path = directory + "/rows";
  const bool empty = !has_files(path);
  Result<void> good;
  if (empty && high_water.found() == Found::nothing) {
    // Write a mark before the rows exist, because rows without a mark mean that the mark was lost.
    good = high_water.write(HighWaterMark{});
  } else if (high_water.found() != Found::mark) {
    const bool damaged = high_water.found() == Found::damage;
    good = rollback.found(high_water.path() + (damaged ? " is damaged in both of its slots"
                                                       : " is missing beside " + path));
  } else if (empty && high_water.mark().sequence > 0) {
    good = rollback.found(format("{} is empty, but the high-water mark is at change {}", path,
                                 high_water.mark().sequence));
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
  std::error_code ignored;  // if create_directory() fails, DB::Open() fails, too
  if (empty) {
    std::filesystem::create_directory(path, ignored);  // otherwise RocksDB would log an error
    if (!sync_directory(directory)) {
      return failure(Code::unavailable, "rocksdb: {} cannot be synced: {}", directory,
                     std::strerror(errno));
    }
  }
  const auto need = std::make_shared<RoomNeed>(how.write_buffer_size, how.max_compaction_bytes);
  how.listeners = {listener_of(need)};
  // Half a table, as RoomKeeper leaves before it begins.
  const auto guard = std::make_shared<RoomGuard>(rocksdb::FileSystem::Default(), need->unit() / 2);
  how.env = guard->env();
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(how, path, &opened);
  if (!status.ok()) return refused(directory, status);
  // RocksDB keeps plain pointers to `order` and to the environment, so the deleter of the rows owns
  // both.
  OpenRows rows{guard, {opened, [order, guard](rocksdb::DB* db) { delete db; }}, need};
  need->look(*opened);
  return rows;
}

std::uint64_t needed_log(rocksdb::DB& db) {
  std::uint64_t number = 0;
  db.GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &number);
  return number;
}

}  // namespace c10dd::store
