// SPDX-License-Identifier: Apache-2.0
// Rows in RocksDB, in the folder rows/ of a state directory; rocks_layout.h has the keys.
// A commit() is one WriteBatch, rows and chains together, and one sync of the log; a claim is
// always synced. Chains are also in memory: the directory has one owner.
// Promised: with fsync, what was reported durable survives the death of the process and power
// loss, if the disk tells the truth about flushes; damage that RocksDB's checksums see is a
// failure at open or load, never a shorter list; a torn tail of the log is cut off. After any
// error of a commit the engine stops, for the failed batch may or may not be in the log.
// Not promised: noticing a log that lost whole records at its end or whole files, or a directory
// restored from a backup.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/memtablerep.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <charconv>
#include <map>
#include <string>

#include "store/chain.h"
#include "store/engines.h"
#include "store/rocks_layout.h"
#include "store/state_directory.h"

namespace c10dd::store {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

/// One writer, few rows in memory: everything that RocksDB would spend on more is turned down.
rocksdb::Options options() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(4 * kMiB, 0);
  table.format_version = 5;
  rocksdb::Options out;
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  out.create_if_missing = true;
  out.paranoid_checks = true;
  out.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  out.recycle_log_file_num = 0;  // a recycled log cannot tell a torn tail from old records
  out.write_buffer_size = 32 * kMiB;
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
  out.max_log_file_size = kMiB;
  out.keep_log_file_num = 2;
  return out;
}

class RocksEngine final : public Engine {
 public:
  RocksEngine(StateDirectory directory, std::unique_ptr<rocksdb::DB> db, Durability durability)
      : directory_(std::move(directory)), db_(std::move(db)), durability_(durability) {}

  /// Checks the format and reads the chains; before anything else.
  Result<void> start() {
    if (Result<void> known = check_format(); !known) return known;
    const Bytes begin(1, kChainTag);
    return scan(begin, [this](std::string_view key, std::string_view value) -> Result<void> {
      const Result<Chain> chain = wire::decode<Chain>(value);
      if (key.size() != kTagBytes || value.size() < kChainBytes || !chain) {
        return damaged("the chain of a job has " + std::to_string(value.size()) + " bytes");
      }
      chains_[job_of(key)] = *chain;
      return {};
    });
  }

  std::string_view name() const override { return "rocksdb"; }
  std::string_view durability() const override {
    return durability_ == Durability::fsync ? "fsync" : "os";
  }
  bool shared() const override { return false; }

  Result<std::vector<JobNumber>> jobs() override {
    if (lost_) return lost();
    std::vector<JobNumber> numbers;
    for (const auto& [number, chain] : chains_) numbers.push_back(number);
    return numbers;
  }

  Result<Claim> claim(JobNumber job) override {
    Chain chain = chains_[job];
    ++chain.epoch;
    chain.repeat_from = chain.revision;
    if (Result<void> raised = replace(job, chain); !raised) return raised.error();
    return Claim{chain.epoch, chain.revision};
  }

  Result<void> renew(const Ownership& owner) override {
    if (lost_) return lost();
    if (owns(owner)) return {};
    return not_owner(owner);
  }

  Result<void> release(const Ownership& owner) override {
    if (Result<void> owned = renew(owner); !owned) return owned;
    Chain chain = chains_[owner.job];
    ++chain.epoch;
    return replace(owner.job, chain);
  }

  Result<void> load(JobNumber job, const std::function<void(Row)>& each) override {
    if (lost_) return lost();
    const auto known = chains_.find(job);
    // Nothing to read in a new job: a scan would sort what the other jobs have written.
    if (known == chains_.end() || known->second.revision == 0) return {};
    return scan(tagged(kRowTag, job), [&](std::string_view key, std::string_view value) {
      each({Row::Kind::put, Bytes(key.substr(kTagBytes)), Bytes(value)});
      return Result<void>();
    });
  }

  std::vector<Outcome> commit(std::span<const JobBatch> batches) override {
    if (lost_) return std::vector<Outcome>(batches.size(), Outcome::unknown);
    rocksdb::WriteBatch write;
    std::map<JobNumber, ChainWalk> walks;
    std::vector<Outcome> outcomes;
    bool changed = false;
    for (const JobBatch& batch : batches) {
      const auto found = chains_.find(batch.job);
      Verdict verdict = Verdict::fenced;
      if (found != chains_.end()) {
        verdict = walks.try_emplace(batch.job, found->second).first->second.step(batch);
      }
      if (verdict == Verdict::apply) {
        append(batch, write);
        changed = true;  // also without rows: its chain is longer
      }
      outcomes.push_back(verdict == Verdict::fenced ? Outcome::fenced : Outcome::durable);
    }
    if (!changed) return outcomes;
    for (const auto& [job, walk] : walks) {
      write.Put(tagged(kChainTag, job), wire::encode(chains_[job]));
    }
    if (!written(write, durability_ == Durability::fsync)) {
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
      outcomes.push_back(owns(owner) ? Outcome::durable : Outcome::fenced);
    }
    return outcomes;
  }

 private:
  using Visit = std::function<Result<void>(std::string_view key, std::string_view value)>;

  bool owns(const Ownership& owner) const {
    const auto found = chains_.find(owner.job);
    return found != chains_.end() && found->second.epoch == owner.epoch;
  }

  Failure lost() const {
    return failure(Code::unavailable, "rocksdb: " + directory_.path() +
                                          ": a write failed and its outcome is unknown: " + cause_ +
                                          "; open the engine again");
  }

  Failure damaged(const std::string& what) const {
    return failure(Code::internal, "rocksdb: " + directory_.path() + " is damaged: " + what +
                                       "; keep all its files and restore a backup");
  }

  Result<void> check_format() {
    std::string text;
    const rocksdb::Status status = db_->Get({}, slice(kFormatKey), &text);
    if (status.IsNotFound()) {
      Result<void> empty = scan({}, [&](std::string_view, std::string_view) -> Result<void> {
        return damaged("rows without a format");
      });
      if (!empty) return empty;
      rocksdb::WriteBatch write;
      write.Put(slice(kFormatKey), std::to_string(kRocksFormat));
      return written(write, true) ? Result<void>() : lost();
    }
    if (!status.ok()) return damaged(status.ToString());
    std::uint32_t format = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), format);
    if (error != std::errc() || end != text.data() + text.size()) {
      return damaged("the format is no number");
    }
    if (format <= kRocksFormat) return {};
    return failure(Code::unsupported, "rocksdb: " + directory_.path() + " has format " + text +
                                          ", this daemon knows formats up to " +
                                          std::to_string(kRocksFormat) +
                                          "; start the newer daemon that wrote it");
  }

  /// Visits all that starts with `prefix`, or everything, and never ends early without a failure.
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

  /// Entries of a WriteBatch apply in order, range deletions too.
  static void append(const JobBatch& batch, rocksdb::WriteBatch& write) {
    for (const Row& row : batch.rows) {
      const Bytes key = tagged(kRowTag, batch.job, row.key);
      rocksdb::Status status;
      switch (row.kind) {
        case Row::Kind::put:
          status = write.Put(key, row.value);
          break;
        case Row::Kind::erase:
          status = write.Delete(key);
          break;
        case Row::Kind::erase_prefix:
          status = write.DeleteRange(key, after(key));
          break;
      }
      C10DD_ASSERT(status.ok());  // fails only for sizes far above the limits
    }
  }

  Result<void> replace(JobNumber job, const Chain& chain) {
    if (lost_) return lost();
    rocksdb::WriteBatch write;
    write.Put(tagged(kChainTag, job), wire::encode(chain));
    if (!written(write, true)) return lost();
    chains_[job] = chain;
    return {};
  }

  /// False: the outcome is unknown, and the engine has stopped.
  bool written(rocksdb::WriteBatch& write, bool sync) {
    rocksdb::WriteOptions how;
    how.sync = sync;
    const rocksdb::Status status = db_->Write(how, &write);
    lost_ = !status.ok();
    cause_ = lost_ ? status.ToString() : "";
    return !lost_;
  }

  StateDirectory directory_;  // outlives db_
  std::unique_ptr<rocksdb::DB> db_;
  Durability durability_;
  std::map<JobNumber, Chain> chains_;
  bool lost_ = false;
  std::string cause_;
};

}  // namespace

Result<std::unique_ptr<Engine>> open_rocks_engine(std::string_view rest, Durability durability) {
  Result<StateDirectory> directory = StateDirectory::open(std::string(rest));
  if (!directory) return directory.error();
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options(), directory->path() + "/rows", &opened);
  if (!status.ok()) {
    return failure(status.IsCorruption() ? Code::internal : Code::unavailable,
                   "rocksdb: " + directory->path() + " cannot be opened: " + status.ToString() +
                       "; keep all its files and look at rows/LOG");
  }
  auto engine = std::make_unique<RocksEngine>(std::move(*directory),
                                              std::unique_ptr<rocksdb::DB>(opened), durability);
  if (Result<void> started = engine->start(); !started) return started.error();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace c10dd::store
