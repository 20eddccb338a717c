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
#include <utility>

namespace c10dd::store {
namespace {

constexpr std::chrono::seconds kPauseMin{2};
constexpr std::chrono::seconds kPauseMax{8};
constexpr std::chrono::seconds kPauseUnchanged{20};
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
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    const bool compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
    if (compaction && error->IsNoSpace()) *error = rocksdb::Status::OK();
  }

 private:
  const std::shared_ptr<RoomNeed> need_;
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

class RoomGuard::Files final : public rocksdb::FileSystemWrapper {
 public:
  Files(const std::shared_ptr<rocksdb::FileSystem>& files, std::uint64_t floor)
      : FileSystemWrapper(files), floor_(floor) {}

  const char* Name() const override { return "c10dd.room"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = target()->NewWritableFile(path, options, file, context);
    if (status.ok() && path.ends_with(".sst")) {
      *file = std::make_unique<Table>(std::move(*file), *this, path);
    }
    return status;
  }

  void try_again(bool now) { try_again_ = now; }

 private:
  using Clock = std::chrono::steady_clock;

  class Table final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Table(std::unique_ptr<rocksdb::FSWritableFile> file, Files& files, std::string path)
        : FSWritableFileOwnerWrapper(std::move(file)), files_(files), path_(std::move(path)) {}

    void SetIOPriority(rocksdb::Env::IOPriority priority) override {
      of_compaction_ = priority != rocksdb::Env::IO_HIGH;  // which flushes have
      FSWritableFileOwnerWrapper::SetIOPriority(priority);
    }
    void PrepareWrite(std::size_t offset, std::size_t size, const rocksdb::IOOptions& options,
                      rocksdb::IODebugContext* context) override {
      // This would take the room of a whole table, even if the output is a few bytes.
      if (of_compaction_) return;
      FSWritableFileOwnerWrapper::PrepareWrite(offset, size, options, context);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      rocksdb::IOStatus room = check_room(data.size());
      return room.ok() ? FSWritableFileOwnerWrapper::Append(data, options, context) : room;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& sum,
                             rocksdb::IODebugContext* context) override {
      rocksdb::IOStatus room = check_room(data.size());
      return room.ok() ? FSWritableFileOwnerWrapper::Append(data, options, sum, context) : room;
    }

   private:
    // NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): RocksDB's status owns its text
    rocksdb::IOStatus check_room(std::size_t bytes) const {
      return of_compaction_ ? files_.check_room(path_, bytes) : rocksdb::IOStatus::OK();
    }
    // NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

    Files& files_;
    const std::string path_;
    bool of_compaction_ = false;
  };

  rocksdb::IOStatus check_room(const std::string& path, std::size_t bytes) {
    const Clock::time_point now = Clock::now();
    if (!try_again_ && now < failed_.load() + kPauseMax) {
      return rocksdb::IOStatus::NoSpace(kCompactionsPause);
    }
    std::uint64_t free = 0;
    if (!target()->GetFreeSpace(path, {}, &free, nullptr).ok() || free >= floor_ + bytes) {
      return rocksdb::IOStatus::OK();
    }
    failed_ = now;
    return rocksdb::IOStatus::NoSpace("too little disk space for a compaction", path);
  }

  const std::uint64_t floor_;
  std::atomic<bool> try_again_ = false;
  std::atomic<Clock::time_point> failed_ = Clock::time_point();
};

RoomGuard::RoomGuard(const std::shared_ptr<rocksdb::FileSystem>& files, std::uint64_t floor)
    : files_(std::make_shared<Files>(files, floor)), env_(rocksdb::NewCompositeEnv(files_)) {}

RoomGuard::~RoomGuard() = default;

void RoomGuard::try_again(bool now) { files_->try_again(now); }

RoomKeeper::RoomKeeper(rocksdb::DB& db, RoomGuard& guard, std::string path, std::uint64_t unit)
    : db_(db),
      guard_(guard),
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
    // If little has changed since a compaction failed, it would fail again. Not every change shows
    // here, so try again at times all the same.
    const bool changed = !failed_ || erased >= failed_->erased + kWorthCompacting / 2 ||
                         free >= failed_->free + unit_ || begun >= failed_->begun + kPauseUnchanged;
    guard_.try_again(changed);
    done = db_.CompactRange(how, nullptr, nullptr).ok();
    guard_.try_again(false);
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
