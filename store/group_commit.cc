// SPDX-License-Identifier: Apache-2.0
// The commit thread takes queued batches in order, and passes several of them to the engine in one
// commit() and one confirm(). Limits on rows and bytes keep each commit short.
#include "store/group_commit.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace c10dd::store {
namespace {

// A commit that exceeds one of these limits takes no further batch.
constexpr std::size_t kGatherRows = 65'536;
constexpr std::size_t kGatherBytes = 32 * 1024 * 1024;

using Clock = std::chrono::steady_clock;

/// A batch with its callback, or a function to run between batches.
struct Item {
  CommitBatch batch;
  GroupCommit::OnDone on_done;
  std::function<void()> function;
  Clock::time_point submitted = Clock::now();
};

/// Collects batches for one commit_and_confirm(). Lists each job and epoch once in owners(). A job
/// that has a batch needs no confirmation: the outcome of the batch says whether it is owned.
class Gathered {
 public:
  bool full() const { return rows_ > kGatherRows || bytes_ > kGatherBytes; }
  std::size_t batches() const { return batches_; }
  std::span<const JobBatch> jobs() const { return jobs_; }
  std::span<const Ownership> owners() const { return owners_; }

  void add(CommitBatch& batch) {
    ++batches_;
    for (JobBatch& job : batch.jobs) {
      rows_ += job.rows.size();
      bytes_ += job.rows.bytes();
      newest_[{job.job, job.epoch}] = jobs_.size();
      jobs_.push_back(std::move(job));
    }
    for (const Ownership& owner : batch.confirms) asked_.push_back({owner.job, owner.epoch});
  }

  /// Lists the owners that have no batch. Called when all batches are added.
  void list_owners() {
    for (const Key& owner : asked_) {
      if (newest_.contains(owner)) continue;
      const bool added = index_.try_emplace(owner, owners_.size()).second;
      if (added) owners_.push_back({owner.first, owner.second});
    }
  }

  /// Returns the outcome of confirmation `n`. Confirmations are numbered from 0, across all
  /// batches.
  Outcome confirmation(std::size_t n, const Engine::Outcomes& outcomes) const {
    const auto batch = newest_.find(asked_[n]);
    if (batch != newest_.end()) return outcomes.commits[batch->second];
    return outcomes.confirms[index_.at(asked_[n])];
  }

 private:
  using Key = std::pair<JobNumber, Epoch>;

  std::size_t batches_ = 0;
  std::size_t rows_ = 0;
  std::size_t bytes_ = 0;
  std::vector<JobBatch> jobs_;
  std::vector<Key> asked_;  ///< one for each confirmation
  std::vector<Ownership> owners_;
  std::map<Key, std::size_t> newest_;  ///< index in jobs_ of the newest batch of an owner
  std::map<Key, std::size_t> index_;   ///< index in owners_
};

/// Returns whether the engine must be opened again.
bool any_unknown(const std::vector<Outcome>& outcomes) {
  for (const Outcome outcome : outcomes) {
    if (outcome != Outcome::durable && outcome != Outcome::fenced) return true;
  }
  return false;
}

}  // namespace

class GroupCommit::Impl {
 public:
  explicit Impl(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)), thread_([this] { work(); }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrived_.notify_one();
    thread_.join();
    if (checkpoint_.joinable()) checkpoint_.join();
  }

  void submit(Item item) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    arrived_.notify_one();
  }

  void post_steps(std::function<bool(Engine&)> f) {
    Item item;
    item.function = [this, f = std::move(f)]() mutable {
      if (f(*engine_)) post_steps(std::move(f));
    };
    submit(std::move(item));
  }

  void checkpoint(std::string path, std::function<void(Result<void>)> on_done) {
    std::unique_lock lock(mutex_);
    if (std::exchange(copying_, true)) {
      lock.unlock();
      on_done(failure(Code::unavailable,
                      "checkpoint {}: another checkpoint is being written; retry later", path));
      return;
    }
    // The previous checkpoint is complete, but the thread that made it may still be running. The
    // new thread joins it first.
    auto copy = [this, path = std::move(path), on_done = std::move(on_done),
                 before = std::move(checkpoint_)]() mutable {
      if (before.joinable()) before.join();
      Result<void> done = engine_->checkpoint(path);
      {
        const std::lock_guard ended(mutex_);
        copying_ = false;
      }
      on_done(std::move(done));
    };
    try {
      checkpoint_ = std::jthread(std::move(copy));
    } catch (const std::system_error&) {
      copying_ = false;
      throw;  // the system could not start a thread
    }
  }

  Duration oldest() const {
    const std::lock_guard lock(mutex_);
    if (begun_) return Clock::now() - *begun_;
    return queue_.empty() ? Duration{0} : Clock::now() - queue_.front().submitted;
  }

  Engine& engine() { return *engine_; }

 private:
  void work() {
    std::deque<Item> items;
    while (take(items)) {
      if (items.front().function) {
        items.front().function();
        items.pop_front();
      } else {
        commit(items);
      }
    }
  }

  /// Appends the items that were submitted since the last call. If `items` stays empty, waits for
  /// an item. Returns false if the object is stopping and all items are done.
  bool take(std::deque<Item>& items) {
    std::unique_lock lock(mutex_);
    begun_.reset();
    if (items.empty()) arrived_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    for (Item& item : queue_) items.push_back(std::move(item));
    queue_.clear();
    if (items.empty()) return false;  // stopping, and nothing is queued
    begun_ = items.front().submitted;
    return true;
  }

  void commit(std::deque<Item>& items) {
    std::vector<std::size_t> sizes;  // CommitBatch::jobs.size() of each batch taken
    Gathered gathered;
    while (gathered.batches() < items.size() && !gathered.full()) {
      Item& item = items[gathered.batches()];
      if (item.function) break;
      sizes.push_back(item.batch.jobs.size());
      gathered.add(item.batch);
    }
    gathered.list_owners();
    const auto start = Clock::now();
    const Engine::Outcomes outcomes = ask(gathered.jobs(), gathered.owners());
    const Duration took = Clock::now() - start;

    auto outcome = outcomes.commits.begin();
    std::size_t confirmation = 0;
    for (const std::size_t size : sizes) {
      Item item = std::move(items.front());
      items.pop_front();
      CommitResult result{item.batch.number,
                          {outcome, outcome + static_cast<std::ptrdiff_t>(size)},
                          {},
                          took,
                          outcomes.why};
      outcome += static_cast<std::ptrdiff_t>(size);
      for (std::size_t n = 0; n < item.batch.confirms.size(); ++n) {
        result.confirms.push_back(gathered.confirmation(confirmation++, outcomes));
      }
      item.on_done(std::move(result));
    }
  }

  /// Passes batches and owners to the engine. After any Outcome::unknown, no longer calls the
  /// engine, and returns Outcome::unknown for all.
  Engine::Outcomes ask(std::span<const JobBatch> batches, std::span<const Ownership> owners) {
    Engine::Outcomes unknown{std::vector<Outcome>(batches.size(), Outcome::unknown),
                             std::vector<Outcome>(owners.size(), Outcome::unknown)};
    if (lost_ || (batches.empty() && owners.empty())) return unknown;
    Engine::Outcomes outcomes;
    try {
      outcomes = engine_->commit_and_confirm(batches, owners);
    } catch (const std::bad_alloc&) {
      unknown.why = "out of memory";
      outcomes = std::move(unknown);
    }
    C10DD_ASSERT(outcomes.commits.size() == batches.size());
    C10DD_ASSERT(outcomes.confirms.size() == owners.size());
    lost_ = any_unknown(outcomes.commits) || any_unknown(outcomes.confirms);
    return outcomes;
  }

  std::unique_ptr<Engine> engine_;
  bool lost_ = false;  // whether an outcome was unknown; used only by the commit thread
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> queue_;
  std::optional<Clock::time_point> begun_;  ///< submission time of the oldest item in progress
  bool stopping_ = false;
  bool copying_ = false;
  std::jthread checkpoint_;
  std::thread thread_;  // last member, because the thread uses the other members
};

GroupCommit::GroupCommit(std::unique_ptr<Engine> engine)
    : impl_(std::make_unique<Impl>(std::move(engine))) {}

GroupCommit::~GroupCommit() = default;

void GroupCommit::submit(CommitBatch batch, OnDone on_done) {
  Item item;
  item.batch = std::move(batch);
  item.on_done = std::move(on_done);
  impl_->submit(std::move(item));
}

void GroupCommit::post(std::function<void(Engine&)> f) {
  Item item;
  item.function = [engine = &impl_->engine(), f = std::move(f)] { f(*engine); };
  impl_->submit(std::move(item));
}

void GroupCommit::post_steps(std::function<bool(Engine&)> f) { impl_->post_steps(std::move(f)); }

void GroupCommit::checkpoint(std::string path, std::function<void(Result<void>)> on_done) {
  impl_->checkpoint(std::move(path), std::move(on_done));
}

Duration GroupCommit::oldest() const { return impl_->oldest(); }

const Engine& GroupCommit::engine() const { return impl_->engine(); }

}  // namespace c10dd::store
