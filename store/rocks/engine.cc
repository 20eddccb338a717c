// SPDX-License-Identifier: Apache-2.0
// Keeps rows in RocksDB, in the folder rows/ of a state directory; rocks/layout.h has the keys. A
// commit() is one WriteBatch with rows and heads. The engine also keeps the heads in memory,
// because the directory has only one owner.
// Promised for each durability:
//  - `fsync`: changes that were reported durable survive the death of the process and power loss,
//    if the disk really writes what it reports as flushed. The log is synced once per commit(), and
//    at each claim and release;
//  - `os`: changes that were reported durable survive the death of the process. After a restart of
//    the machine, the engine opens with the changes that are left; if some are missing,
//    rolled_back() says so. The log is synced at each claim and release, but not per commit();
//  - `none`: commits and claims are not logged. A clean close writes all rows. After any other end,
//    the rows that were not written yet are lost, and rolled_back() says so after the next opening.
// The engine fails to open if the state has less than the high-water file promises (rocks/open.h).
// Damaged data makes the opening or a load fail; rows are never silently skipped. A torn tail of
// the log is cut off. After any error of a commit the engine stops, because the failed batch may or
// may not be in the log.
// Not promised: the engine does not notice that changes of the last 200 ms before a crash (the time
// between two marks) were lost, or that an older copy has replaced the directory. Clients notice
// both losses.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "protocol/format.h"
#include "protocol/parse.h"
#include "store/engines.h"
#include "store/job_head.h"
#include "store/rocks/layout.h"
#include "store/rocks/mark_writer.h"
#include "store/rocks/open.h"
#include "store/rocks/room.h"
#include "store/rocks/state_directory.h"

namespace c10dd::store {
namespace {

// What a WriteBatch needs for an entry besides its key and value, about: a prefix and lengths.
constexpr std::size_t kEntryBytes = 24;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

class RocksEngine final : public Engine {
 public:
  RocksEngine(StateDirectory directory, OpenRows rows, Durability durability, Rollback rollback)
      : directory_(std::move(directory)),
        guard_(std::move(rows.guard)),
        db_(std::move(rows.db)),
        need_(std::move(rows.need)),
        durability_(durability),
        rollback_(std::move(rollback)) {}

  /// Checks the format and reads the head row of each job. Compares the totals over all heads with
  /// the high-water mark. Must be called first.
  Result<void> start(HighWaterFile high_water) {
    if (Result<void> known = check_format(); !known) return known;
    const Bytes begin(1, kHeadTag);
    Result<void> read =
        scan(begin, [this](std::string_view key, std::string_view value) -> Result<void> {
          const Result<JobHead> head = wire::decode<JobHead>(value);
          if (key.size() != kTagBytes || value.size() < kHeadBytes || !head) {
            return damaged(format("the head of a job is malformed ({} bytes)", value.size()));
          }
          heads_[job_of(key)] = *head;
          revisions_ += head->revision;
          epochs_ += head->epoch;
          return {};
        });
    if (read) read = check_mark(high_water.mark());  // needs the totals from the scan
    if (read) read = check_rows_without_head();
    if (!read) return read;
    renewal_ = rollback_.why().empty() ? HighWaterMark::Renewal::none
                                       : HighWaterMark::Renewal::rolled_back;
    if (Result<void> marked = high_water.write(mark()); !marked) return marked;
    writer_.emplace(std::move(high_water),
                    [this](HighWaterMark& mark) { mark.log_number = needed_log(*db_); });
    keeper_.emplace(*db_, *guard_, directory_.path(), need_->unit());
    return {};
  }

  ~RocksEngine() override {
    keeper_.reset();
    if (!writer_ || lost_) return;
    rocksdb::Status status;
    if (durability_ == Durability::os) status = db_->SyncWAL();
    if (durability_ == Durability::none) {
      rocksdb::FlushOptions now;
      now.allow_write_stall = true;  // otherwise the flush may wait for a compaction
      status = db_->Flush(now);
    }
    if (!status.ok()) return;  // the mark on disk stays valid for as long as its `holds` says
    HighWaterMark last = mark();
    last.holds = HighWaterMark::Holds::always;
    writer_->close(last);
  }

  std::string_view name() const override { return "rocksdb"; }
  std::string_view durability() const override {
    if (durability_ == Durability::fsync) return "fsync";
    return durability_ == Durability::os ? "os" : "none";
  }
  bool shared() const override { return false; }

  Result<std::vector<JobNumber>> jobs() override {
    if (lost_) return lost();
    std::vector<JobNumber> numbers;
    for (const auto& [number, head] : heads_) numbers.push_back(number);
    return numbers;
  }

  using Engine::claim;
  /// Checks no terms: nobody else can change the state while this engine holds its lock.
  Result<ClaimReply> claim(JobNumber job, const ClaimTerms&) override {
    JobHead head = heads_[job];
    ++head.epoch;
    head.repeat_from = head.revision;  // the new owner has no earlier commit to repeat
    if (Result<void> raised = replace(job, head); !raised) return raised.error();
    return ClaimReply(Claim{head.epoch, head.revision, {{head.epoch, head.revision}}});
  }

  Result<void> renew(const Ownership& owner) override {
    if (lost_) return lost();
    if (owns(owner)) return {};
    return not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    if (Result<void> owned = renew(owner); !owned) return owned;
    JobHead head = heads_[owner.job];
    ++head.epoch;
    return replace(owner.job, head);
  }

  std::unique_ptr<RowReader> read(JobNumber job) override {
    return std::make_unique<Reader>(*this, job);
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    if (lost_) return std::vector<Outcome>(batches.size(), Outcome::unknown);
    std::size_t bytes = 0;
    for (const JobBatch& batch : batches)
      bytes += batch.rows.bytes() + kEntryBytes * (batch.rows.size() + 1);
    rocksdb::WriteBatch write(bytes);
    std::map<JobNumber, HeadCheck> checks;
    std::vector<Outcome> outcomes;
    bool changed = false;
    for (const JobBatch& batch : batches) {
      const auto found = heads_.find(batch.job);
      BatchCheck check = BatchCheck::absent;
      if (found != heads_.end()) {
        check = checks.try_emplace(batch.job, found->second).first->second.step(batch);
      }
      if (check == BatchCheck::apply) {
        append(batch, write);
        revisions_ += batch.to_rev - batch.from_rev;
        changed = true;  // a batch without rows may raise the revision, too
      }
      outcomes.push_back(outcome_of(check));
    }
    if (!changed) return outcomes;
    for (const auto& [job, unused] : checks) {
      write.Put(tagged(kHeadTag, job), wire::encode(heads_[job]));
    }
    if (!written(write, durability_ == Durability::fsync) || !noted()) {
      // Fenced batches were not in the write, so their outcome is known.
      for (Outcome& outcome : outcomes) {
        if (outcome == Outcome::durable) outcome = Outcome::unknown;
      }
    }
    return outcomes;
  }

  std::vector<Outcome> confirm(std::span<const Ownership> owners) override {
    if (lost_) return std::vector<Outcome>(owners.size(), Outcome::unknown);
    std::vector<Outcome> outcomes;
    for (const Ownership& owner : owners) {
      const Outcome refused = heads_.contains(owner.job) ? Outcome::fenced : Outcome::absent;
      outcomes.push_back(owns(owner) ? Outcome::durable : refused);
    }
    return outcomes;
  }

  bool relieve() override { return lost_ || keeper_->relieve(); }

  std::uint64_t room_to_tidy() const override { return need_->bytes(); }

  std::shared_ptr<const HighWaterMark> acknowledged() const override {
    return std::make_shared<const HighWaterMark>(writer_->noted());
  }

  std::string_view rolled_back() const override { return rollback_.why(); }

  std::string_view damage() const override { return rollback_.damage(); }

  void renewed() override {
    renewal_ = HighWaterMark::Renewal::none;
    writer_->note(mark());  // if note() fails, the next start makes a needless incarnation
  }

  Result<void> checkpoint(const std::string& path) const override {
    return write_checkpoint(*db_, writer_->noted(), directory_.path(), path);
  }

 private:
  /// Reads the rows in the state that they had at the first call of next().
  class Reader final : public RowReader {
   public:
    Reader(RocksEngine& engine, JobNumber job)
        : engine_(engine), job_(job), begin_(tagged(kRowTag, job)), end_(after(begin_)) {}

    Result<bool> next(std::vector<Row>& rows, std::size_t most) override {
      if (engine_.lost_) return engine_.lost();
      if (!at_ && !start()) return false;
      std::size_t bytes = 0;
      for (std::size_t n = 0; n < most && bytes < kPieceBytes && at_->Valid(); ++n, at_->Next()) {
        std::string_view key = at_->key().ToStringView();
        key.remove_prefix(kTagBytes);
        rows.push_back({Row::Kind::put, Bytes(key), at_->value().ToString()});
        bytes += key.size() + at_->value().size();
      }
      if (!at_->status().ok()) return engine_.damaged(at_->status().ToString());
      return at_->Valid();
    }

   private:
    /// Returns false if the job has no rows.
    bool start() {
      const auto known = engine_.heads_.find(job_);
      // Creating an iterator sorts the memtable, so a job without rows gets no iterator.
      if (known == engine_.heads_.end() || known->second.revision == 0) return false;
      rocksdb::ReadOptions how;
      how.fill_cache = false;
      how.iterate_upper_bound = &bound_;
      at_.reset(engine_.db_->NewIterator(how));
      at_->Seek(begin_);
      return true;
    }

    RocksEngine& engine_;
    const JobNumber job_;
    const Bytes begin_;
    const Bytes end_;
    const rocksdb::Slice bound_{end_};
    std::unique_ptr<rocksdb::Iterator> at_;
  };

  using Visit = std::function<Result<void>(std::string_view key, std::string_view value)>;

  bool owns(const Ownership& owner) const {
    const auto found = heads_.find(owner.job);
    return found != heads_.end() && found->second.epoch == owner.epoch;
  }

  Failure lost() const {
    return failure(
        Code::unavailable,
        "rocksdb: {}: a write failed and its outcome is unknown: {}; open the engine again",
        directory_.path(), cause_);
  }

  Failure damaged(const std::string& what) const {
    return failure(Code::malformed,
                   "rocksdb: {} is damaged: {}; keep all its files and restore a checkpoint",
                   directory_.path(), what);
  }

  Result<void> check_format() {
    std::string text;
    const rocksdb::Status status = db_->Get({}, slice(kFormatKey), &text);
    if (status.IsNotFound()) {
      Result<void> empty = scan({}, [&](std::string_view, std::string_view) -> Result<void> {
        return damaged("it has rows, but no format number");
      });
      if (!empty) return empty;
      rocksdb::WriteBatch write;
      write.Put(slice(kFormatKey), std::to_string(kStoredFormat));
      return written(write, true) ? Result<void>() : lost();
    }
    if (!status.ok()) return damaged(status.ToString());
    const auto found = parse_number<std::uint32_t>(text);
    if (!found) return damaged("the format is not a number");
    if (*found == kStoredFormat) return {};
    return failure(Code::version_unsupported,
                   "rocksdb: {} has format {}, this daemon knows format {}; {}", directory_.path(),
                   text, kStoredFormat,
                   *found > kStoredFormat ? "start the newer daemon that wrote it"
                                          : "a version before the first release wrote it: choose "
                                            "another directory");
  }

  /// Returns the mark of the current state, without log_number.
  HighWaterMark mark() const {
    HighWaterMark out;
    out.sequence = db_->GetLatestSequenceNumber();
    out.jobs = heads_.size();
    out.revisions = revisions_;
    out.epochs = epochs_;
    if (durability_ == Durability::os) out.holds = HighWaterMark::Holds::this_boot;
    if (durability_ == Durability::none) out.holds = HighWaterMark::Holds::never;
    out.boot = boot_;
    out.renewal = renewal_;
    return out;
  }

  /// Passes the mark of a commit to the mark writer. If marks can no longer be written, stops the
  /// engine and returns false: no mark would protect later commits.
  bool noted() {
    if (durability_ == Durability::none) return true;  // only a clean close makes changes durable
    const Result<void> written = writer_->note(mark());
    if (!written) {
      lost_ = true;
      cause_ = written.error().detail;
    }
    return !lost_;
  }

  /// If the state is behind the high-water mark, calls rollback_.found() and returns its result.
  Result<void> check_mark(const HighWaterMark& least) {
    const HighWaterMark now = mark();
    const auto compare = [this](const char* what, std::uint64_t found, std::uint64_t wanted) {
      if (found >= wanted) return Result<void>();
      return rollback_.found(
          format("the {} in rows/ is {}, but the high-water mark has {}", what, found, wanted));
    };
    Result<void> good = compare("newest change", now.sequence, least.sequence);
    if (good) good = compare("number of jobs", now.jobs, least.jobs);
    if (good) good = compare("sum of revisions", now.revisions, least.revisions);
    if (good) good = compare("sum of epochs", now.epochs, least.epochs);
    return good;
  }

  /// Calls rollback_.found() if a job has rows but no head. If found() succeeds, removes the rows,
  /// because they would appear in the next job with the same number.
  Result<void> check_rows_without_head() {
    rocksdb::WriteBatch purge;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}));
    at->Seek(Bytes(1, kRowTag));
    while (at->Valid() && at->key().starts_with(Bytes(1, kRowTag))) {
      const JobNumber job = job_of(at->key().ToStringView().substr(0, kTagBytes));
      const Bytes rows = tagged(kRowTag, job);
      if (!heads_.contains(job)) {
        const std::string what = format("job {} has rows, but no head", job);
        if (Result<void> good = rollback_.found(what); !good) return good;
        purge.DeleteRange(rows, after(rows));
      }
      at->Seek(after(rows));
    }
    if (!at->status().ok()) return damaged(at->status().ToString());
    return purge.Count() == 0 || written(purge, true) ? Result<void>() : lost();
  }

  /// Calls visit(key, value) for all keys that start with `prefix`, which may be empty. Fails if a
  /// key cannot be read, or as soon as `visit` fails.
  Result<void> scan(const Bytes& prefix, const Visit& visit) {
    const Bytes end = prefix.empty() ? Bytes() : after(prefix);
    const rocksdb::Slice bound = slice(end);
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    if (!prefix.empty()) read.iterate_upper_bound = &bound;
    const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(read));
    for (at->Seek(prefix); at->Valid(); at->Next()) {
      if (Result<void> seen = visit(at->key().ToStringView(), at->value().ToStringView()); !seen) {
        return seen;
      }
    }
    if (!at->status().ok()) return damaged(at->status().ToString());
    return {};
  }

  /// Appends the rows of a batch to `write`. RocksDB applies them in order.
  void append(const JobBatch& batch, rocksdb::WriteBatch& write) {
    const Bytes prefix = tagged(kRowTag, batch.job);
    for (const RowView row : batch.rows) {
      const rocksdb::Slice parts[] = {slice(prefix), slice(row.key)};
      const rocksdb::SliceParts key(parts, std::size(parts));
      const rocksdb::Slice value = slice(row.value);
      rocksdb::Status status;
      switch (row.kind) {
        case Row::Kind::put:
          status = write.Put(key, rocksdb::SliceParts(&value, 1));
          break;
        case Row::Kind::erase:
          keeper_->erased(1);
          status = write.Delete(key);
          break;
        case Row::Kind::erase_prefix: {
          keeper_->erased(RoomKeeper::kWorthCompacting);
          const Bytes first = tagged(kRowTag, batch.job, row.key);
          status = write.DeleteRange(first, after(first));
          break;
        }
      }
      C10DD_ASSERT(status.ok());  // RocksDB refuses only sizes far above the limits
    }
  }

  /// Writes the head of a job, for a claim or a release.
  Result<void> replace(JobNumber job, const JobHead& head) {
    if (lost_) return lost();
    rocksdb::WriteBatch write;
    write.Put(tagged(kHeadTag, job), wire::encode(head));
    if (!written(write, durability_ != Durability::none)) return lost();
    JobHead& held = heads_[job];
    epochs_ += head.epoch - held.epoch;
    held = head;
    return noted() ? Result<void>() : lost();
  }

  /// Writes a batch. If the write fails, returns false: the outcome is unknown and the engine has
  /// stopped.
  bool written(rocksdb::WriteBatch& write, bool sync) {
    rocksdb::WriteOptions how;
    how.sync = sync;
    how.disableWAL = durability_ == Durability::none && !sync;
    const rocksdb::Status status = db_->Write(how, &write);
    lost_ = !status.ok();
    cause_ = lost_ ? status.ToString() : "";
    return !lost_;
  }

  StateDirectory directory_;  // outlives db_
  std::shared_ptr<RoomGuard> guard_;
  std::shared_ptr<rocksdb::DB> db_;
  std::shared_ptr<const RoomNeed> need_;
  Durability durability_;
  Rollback rollback_;
  std::map<JobNumber, JobHead> heads_;
  std::uint64_t revisions_ = 0;  // sums over heads_
  std::uint64_t epochs_ = 0;
  const std::uint64_t boot_ = boot_number();
  HighWaterMark::Renewal renewal_ = HighWaterMark::Renewal::none;
  bool lost_ = false;
  std::string cause_;
  // The last members, because their threads use db_.
  std::optional<MarkWriter> writer_;
  std::optional<RoomKeeper> keeper_;
};

/// Fails if the state directory that this process has used before is gone. Must be called before
/// any file is created: the directory may come back, for example when its disk is mounted again,
/// and a new state must not take its place.
Result<void> still_there(const std::string& directory, const HighWaterMark& acknowledged) {
  const std::string file = HighWaterFile::path_in(directory);
  if (::access(file.c_str(), F_OK) == 0) return {};
  return failure(
      Code::state_rolled_back,
      "rocksdb: {} lacks acknowledged changes: {} is gone, but this process has acknowledged "
      "change {}; mount or restore the directory, or restart the daemon to go on with what is "
      "there",
      directory, file, acknowledged.sequence);
}

}  // namespace

Result<std::unique_ptr<Engine>> open_rocks_engine(std::string_view rest,
                                                  const OpenOptions& options) {
  if (options.acknowledged) {
    if (Result<void> there = still_there(std::string(rest), *options.acknowledged); !there) {
      return there.error();
    }
  }
  Result<StateDirectory> directory = StateDirectory::open(std::string(rest));
  if (!directory) return directory.error();
  Result<HighWaterFile> high_water = HighWaterFile::open(directory->path());
  if (!high_water) return high_water.error();
  if (options.acknowledged) high_water->expect(*options.acknowledged);
  Rollback rollback(*high_water, directory->path(), options.accept_rollback);
  Result<OpenRows> rows = open_rows(directory->path(), *high_water, rollback, options.warn);
  if (!rows) return rows.error();
  auto engine = std::make_unique<RocksEngine>(std::move(*directory), std::move(*rows),
                                              options.durability, std::move(rollback));
  if (Result<void> started = engine->start(std::move(*high_water)); !started) {
    return started.error();
  }
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace c10dd::store
