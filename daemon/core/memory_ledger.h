// SPDX-License-Identifier: Apache-2.0
// The ledger of a daemon's memory. Two kinds of memory share --max-bytes. What is stored (keys,
// queues, histories) may fill all of it. What is held for clients (sessions, blocked requests,
// arrivals, outcomes, reports, credentials) is charged to the account of its payer, and has half of
// what is left, at least limits::kHeldBytesMin.
//
// An account may hold a multiple of what is free at the moment. So one payer alone gets a large
// share, and some memory is left for the next payer, however many there are. This is the rule of
// dynamic thresholds: A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length Thresholds for
// Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6 (1998). When keys take the
// memory of which others hold a part, nothing is free: then who holds less than an equal part of
// all may still hold that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "protocol/error.h"
#include "protocol/types.h"

namespace c10dd::core {

/// Who pays: all sessions of one principal in one job; without authentication all of the job.
struct Payer {
  std::string principal = {};  ///< empty: nobody is authenticated
  bool observes = false;       ///< the sessions that may only read
  JobNumber job = 0;
  std::string job_name = {};  ///< for texts
};

/// Who pays for the jobs that a principal makes.
Payer new_jobs_of(const std::string& principal);

/// What a payer holds. Thread-safe, but for the counts, which belong to the thread of the job.
class Account {
 public:
  Account(Payer payer, std::shared_ptr<Account> parent)
      : payer_(std::move(payer)), parent_(std::move(parent)) {
    if (parent_) ++parent_->children_;
  }
  ~Account() {
    if (parent_) --parent_->children_;
  }
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  /// Adds `bytes` to what this account and the accounts above it hold.
  void add(std::int64_t bytes) {
    for (Account* one = this; one != nullptr; one = one->parent_.get()) {
      one->held_.fetch_add(bytes, std::memory_order_relaxed);
    }
  }
  std::uint64_t held() const {
    const std::int64_t held = held_.load(std::memory_order_relaxed);
    return held > 0 ? static_cast<std::uint64_t>(held) : 0;
  }
  const Payer& payer() const { return payer_; }
  const Account* parent() const { return parent_.get(); }
  /// Returns how many accounts are below this one.
  std::uint64_t children() const { return children_.load(std::memory_order_relaxed); }

  // How many of a bounded number of the job it has.
  std::size_t sessions = 0;
  std::size_t waits = 0;

 private:
  const Payer payer_;
  const std::shared_ptr<Account> parent_;
  std::atomic<std::int64_t> held_ = 0;
  std::atomic<std::uint64_t> children_ = 0;
};
using AccountRef = std::shared_ptr<Account>;

/// Memory that is held for a client, for as long as the charge lives. Without an account it counts
/// nowhere, for example in tests of one part.
class Charge {
 public:
  using Count = std::size_t Account::*;

  Charge() = default;
  /// `count` is a number of the account in which this one counts, too; null: none.
  Charge(AccountRef account, std::size_t bytes, Count count = nullptr)
      : account_(std::move(account)), count_(count) {
    if (account_ && count_ != nullptr) ++((*account_).*count_);
    set(bytes);
  }
  Charge(Charge&& other) noexcept
      : account_(std::move(other.account_)),
        bytes_(std::exchange(other.bytes_, 0)),
        count_(std::exchange(other.count_, nullptr)) {}
  Charge& operator=(Charge&& other) noexcept {
    Charge moved(std::move(other));
    std::swap(account_, moved.account_);
    std::swap(bytes_, moved.bytes_);
    std::swap(count_, moved.count_);
    return *this;
  }
  ~Charge() {
    set(0);
    if (account_ && count_ != nullptr) --((*account_).*count_);
  }

  /// Changes the size of what is held.
  void set(std::size_t bytes);
  std::size_t bytes() const { return bytes_; }
  const AccountRef& account() const { return account_; }

 private:
  AccountRef account_;
  std::size_t bytes_ = 0;
  Count count_ = nullptr;
};

class MemoryLedger;

/// How much the sender of a request may add. The ledger is asked only if the request must hold
/// something, which most requests need not.
struct Allowance {
  /// The state must not grow, for this reason; null: it may.
  const Failure* no_room = nullptr;
  std::uint64_t left = UINT64_MAX;  ///< bytes that its account may add to what it holds
  std::uint64_t held = 0;           ///< bytes that its account, or the one above it, holds
  const Payer* payer = nullptr;     ///< for texts
  /// If set, these say what is left when somebody asks.
  const MemoryLedger* ledger = nullptr;
  const Account* account = nullptr;

  Allowance(const Failure* why = nullptr) : no_room(why) {}
  Allowance(const MemoryLedger& of, const Account& whose) : ledger(&of), account(&whose) {}

  /// Fails with quota_exceeded, and both numbers, if `bytes` are too many. `what` is what would be
  /// held, for example "the session".
  std::optional<Failure> refuses(std::size_t bytes, std::string_view what) const;
};

/// Returns whether one more fits: `own` of `all` are those of one account, and `limit` is the most
/// of all. Sessions that may only read have an eighth of what is left, those of a principal four
/// times it; those of a daemon without authentication may have all.
std::optional<Failure> check_share(const Account* account, std::string_view what, std::size_t own,
                                   std::size_t all, std::size_t limit);

/// Thread-safe.
class MemoryLedger {
 public:
  explicit MemoryLedger(std::uint64_t max_bytes);

  /// Returns the account of a payer, which is made if it is new.
  AccountRef account(const Payer& payer) const;
  /// Returns what an account may add now.
  Allowance allowance(const Account& account) const;

  /// Adds `difference` to the bytes that are stored; negative if there are fewer.
  void add_stored(std::int64_t difference) { stored_ += difference; }
  std::uint64_t stored() const;
  /// Returns the bytes that are held for clients.
  std::uint64_t held() const { return root_->held(); }
  /// Returns the bytes that count against max_bytes(): all that is stored, and what is held beyond
  /// limits::kHeldBytesMin.
  std::uint64_t counted() const;
  std::uint64_t max_bytes() const { return max_bytes_; }

 private:
  using Key = std::tuple<std::string, bool, JobNumber>;

  AccountRef find_or_make(const Payer& payer, const std::shared_ptr<Account>& parent) const;

  const std::uint64_t max_bytes_;
  std::atomic<std::int64_t> stored_ = 0;
  const std::shared_ptr<Account> root_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::weak_ptr<Account>> accounts_;
  mutable std::size_t sweep_at_ =
      64;  ///< when there are so many, those that nobody uses are dropped
};

}  // namespace c10dd::core
