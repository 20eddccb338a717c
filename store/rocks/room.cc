// SPDX-License-Identifier: Apache-2.0
#include "store/rocks/room.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/table_properties.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace c10dd::store {
namespace {

constexpr std::chrono::seconds kPauseMin{2};
constexpr std::chrono::seconds kPauseMax{8};
constexpr std::chrono::seconds kPauseUnchanged{60};
// After a successful compaction, wait for at least kShareOfTime times its duration before the next
// compaction, unless kWorthCompacting or more rows were erased since.
constexpr int kShareOfTime = 4;

class Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(std::shared_ptr<RoomNeed> need) : need_(std::move(need)) {}

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo&) override {
    need_->look(*db);
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo&) override {
    need_->look(*db);
  }

 private:
  const std::shared_ptr<RoomNeed> need_;
};

class Files final : public rocksdb::FileSystemWrapper {
 public:
  Files(const std::shared_ptr<rocksdb::FileSystem>& files,
        std::shared_ptr<const std::atomic<bool>> plenty)
      : FileSystemWrapper(files), plenty_(std::move(plenty)) {}

  const char* Name() const override { return "c10dd.room"; }

  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options,
                                 std::uint64_t* free, rocksdb::IODebugContext* context) override {
    if (!*plenty_) return target()->GetFreeSpace(path, options, free, context);
    *free = std::numeric_limits<std::uint64_t>::max();
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::shared_ptr<const std::atomic<bool>> plenty_;
};

}  // namespace

std::shared_ptr<rocksdb::EventListener> listener_of(std::shared_ptr<RoomNeed> need) {
  return std::make_shared<Listener>(std::move(need));
}

void RoomNeed::look(rocksdb::DB& db) {
  rocksdb::ColumnFamilyMetaData tables;
  db.GetColumnFamilyMetaData(&tables);
  std::uint64_t upper = 0;  // one compaction may take both upper levels as its input
  for (const rocksdb::LevelMetaData& level : tables.levels) {
    if (level.level <= 1) upper += level.size;
  }
  // 2 * unit_: the next table and the next log.
  bytes_ = std::min(tables.size, std::max(upper, compaction_)) + 2 * unit_;
}

RoomView::RoomView(const std::shared_ptr<rocksdb::FileSystem>& files)
    : env_(rocksdb::NewCompositeEnv(std::make_shared<Files>(files, plenty_))) {}

RoomView::~RoomView() = default;

RoomKeeper::RoomKeeper(rocksdb::DB& db, RoomView& view, std::string path, std::uint64_t unit)
    : db_(db),
      view_(view),
      path_(std::move(path)),
      unit_(unit),
      erased_(kWorthCompacting),  // an earlier process may have erased as many rows
      thread_([this] { work(); }) {}

RoomKeeper::~RoomKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  db_.DisableManualCompaction();
  thread_.join();
}

bool RoomKeeper::relieve() {
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_one();
  return !stuck_;
}

void RoomKeeper::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || asked_; });
    if (stopping_) return;
    lock.unlock();
    if (worth_it()) tidy();
    lock.lock();
    asked_ = false;
  }
}

bool RoomKeeper::worth_it() const {
  const Clock::duration since = Clock::now() - ended_;
  if (stuck_) return since >= pause_ || free_bytes() >= free_when_stuck_ + unit_;
  const std::size_t erased = erased_;
  if (erased >= kWorthCompacting) return true;
  if (erased == 0) {
    return follow_up_ && since >= std::max<Clock::duration>(kPauseMax, kShareOfTime * took_);
  }
  return since >= std::max<Clock::duration>(kPauseMin, kShareOfTime * took_);
}

void RoomKeeper::tidy() {
  const Clock::time_point begun = Clock::now();
  const std::size_t erased = erased_.exchange(0);
  const std::uint64_t free = free_bytes();
  std::uint64_t in_memory = 0;
  db_.GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory);
  // A compaction first writes the rows in memory to a table. If the disk has no room for that
  // table, the engine stops. If the disk has no room later, only the compaction fails. So check the
  // room before the compaction begins.
  bool done = free >= 2 * in_memory + unit_ / 2;
  if (done) {
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    how.allow_write_stall = true;  // otherwise CompactRange() may wait for other compactions
    how.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    // If nothing has changed since a compaction failed, it would only fill the disk and fail again.
    // Not every change shows here, so try again at times all the same.
    const bool changed = !failed_ || erased > failed_->erased || free >= failed_->free + unit_ ||
                         begun >= failed_->begun + kPauseUnchanged;
    view_.pretend(changed);
    done = db_.CompactRange(how, nullptr, nullptr).ok();
    view_.pretend(false);
    if (done) {
      failed_.reset();
    } else if (changed) {
      failed_ = {begun, erased, free};
    }
  }
  ended_ = Clock::now();
  took_ = ended_ - begun;
  // The compaction skips tables that RocksDB is compacting itself. In these tables, erased rows
  // still take up room.
  follow_up_ = done && has_deletions();
  if (done) {
    pause_ = {};
  } else {
    erased_ += erased;
    free_when_stuck_ = free;
    pause_ = std::clamp<Clock::duration>(2 * pause_, kPauseMin, kPauseMax);
  }
  stuck_ = !done;
}

bool RoomKeeper::has_deletions() const {
  using Properties = rocksdb::DB::Properties;
  for (const auto& name :
       {Properties::kNumDeletesActiveMemTable, Properties::kNumDeletesImmMemTables}) {
    std::uint64_t count = 0;
    if (db_.GetIntProperty(name, &count) && count > 0) return true;
  }
  rocksdb::TablePropertiesCollection tables;
  if (!db_.GetPropertiesOfAllTables(&tables).ok()) return false;
  return std::ranges::any_of(tables, [](const auto& table) {
    return table.second->num_deletions + table.second->num_range_deletions > 0;
  });
}

std::uint64_t RoomKeeper::free_bytes() const {
  struct statvfs disk {};
  if (::statvfs(path_.c_str(), &disk) != 0) return 0;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

}  // namespace c10dd::store
