// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/memory_ledger.h"

#include <algorithm>

#include "daemon/core/planted.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

constexpr JobNumber kAllJobs = 0;  // the account of a principal, above those in jobs
constexpr JobNumber kNewJobs = ~JobNumber{0};

std::string named(const Payer& payer) {
  const std::string job = payer.job == kAllJobs ? std::string("all jobs")
                          : payer.job == kNewJobs
                              ? std::string("the jobs that it has made")
                              : format("job \"{}\"", printable(payer.job_name, limits::kNameShown));
  if (payer.principal.empty()) return "clients of " + job;
  return format("{} \"{}\" in {}", payer.observes ? "viewer" : "principal",
                printable(payer.principal, limits::kNameShown), job);
}

/// Returns how much an account may add if it may hold `multiple` / `of` times what is free.
std::uint64_t share(std::uint64_t free, std::uint64_t multiple, std::uint64_t of,
                    std::uint64_t held) {
  const std::uint64_t most = free / of * multiple;
  return most - std::min(most, held);
}

}  // namespace

Payer new_jobs_of(const std::string& principal) {
  return {.principal = principal, .observes = false, .job = kNewJobs, .job_name = {}};
}

void Charge::set(std::size_t bytes) {
  const bool less = bytes < bytes_;
  if (account_ && bytes != bytes_ && !(less && planted(Planted::charge_kept))) {
    account_->add(static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(bytes_));
  }
  bytes_ = bytes;
}

std::optional<Failure> Allowance::refuses(std::size_t bytes, std::string_view what) const {
  if (ledger != nullptr) return ledger->allowance(*account).refuses(bytes, what);
  if (bytes <= left || payer == nullptr) return std::nullopt;
  return failure(Code::quota_exceeded,
                 "{} needs {} bytes of the daemon's memory, but {} may hold {} now and holds {}; "
                 "ask for less, end sessions and waits that nobody needs, or raise --max-bytes",
                 what, bytes, named(*payer), held + left, held);
}

std::optional<Failure> check_share(const Account* account, std::string_view what, std::size_t own,
                                   std::size_t all, std::size_t limit) {
  if (all >= limit) {
    return failure(Code::quota_exceeded, "too many {} in the job: {} with this one, limit {}", what,
                   all + 1, limit);
  }
  if (account == nullptr) return std::nullopt;
  const Payer& payer = account->payer();
  if (payer.principal.empty() && !payer.observes) return std::nullopt;
  const std::size_t free = limit - all;
  const std::size_t most = payer.observes ? std::max<std::size_t>(free / 8, 1) : free * 4;
  if (own < most) return std::nullopt;
  return failure(Code::quota_exceeded, "too many {} of {}: {} with this one, limit {} now", what,
                 named(payer), own + 1, most);
}

MemoryLedger::MemoryLedger(std::uint64_t max_bytes)
    : max_bytes_(max_bytes), root_(std::make_shared<Account>(Payer{}, nullptr)) {}

std::uint64_t MemoryLedger::stored() const {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(stored_, 0));
}

std::uint64_t MemoryLedger::counted() const {
  const std::uint64_t held = this->held();
  return stored() + held - std::min<std::uint64_t>(held, limits::kHeldBytesMin);
}

AccountRef MemoryLedger::account(const Payer& payer) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Account> parent = root_;
  if (!payer.principal.empty()) {
    parent = find_or_make({payer.principal, payer.observes, kAllJobs, {}}, root_);
  }
  return find_or_make(payer, parent);
}

AccountRef MemoryLedger::find_or_make(const Payer& payer,
                                      const std::shared_ptr<Account>& parent) const {
  std::weak_ptr<Account>& known = accounts_[{payer.principal, payer.observes, payer.job}];
  AccountRef account = known.lock();
  if (account) return account;
  account = std::make_shared<Account>(payer, parent);
  known = account;
  if (accounts_.size() < sweep_at_) return account;
  std::erase_if(accounts_, [](const auto& entry) { return entry.second.expired(); });
  sweep_at_ = std::max<std::size_t>(64, accounts_.size() * 2);
  return account;
}

/// An account in a job may hold half of what the account above it may add; the account of a
/// principal as much as is free, that of a viewer a quarter of it. In any case a principal may hold
/// an equal part of a quarter, and an account in a job half of that.
Allowance MemoryLedger::allowance(const Account& account) const {
  const std::uint64_t stored = this->stored();
  const std::uint64_t most = std::max<std::uint64_t>(
      (max_bytes_ - std::min(max_bytes_, stored)) / 2, limits::kHeldBytesMin);
  const std::uint64_t held = root_->held();
  const std::uint64_t free = most - std::min(most, held);
  const std::uint64_t equal = most / 4 / (root_->children() + 1);
  const std::uint64_t part = account.payer().observes ? 4 : 1;
  const Account* const above = account.parent();
  const bool in_job = above != nullptr && above != root_.get();
  const Account& principal = in_job ? *above : account;
  const std::uint64_t left = share(free, 1, part, principal.held());
  Allowance allowance;
  allowance.payer = &account.payer();
  allowance.held = account.held();
  allowance.left = in_job ? std::min(left, share(left, 1, 2, account.held())) : left;
  const std::uint64_t least = share(equal, 1, part, principal.held());
  const std::uint64_t in_any_case =
      in_job ? std::min(least, share(equal, 1, 2 * part, account.held())) : least;
  allowance.left = std::max(allowance.left, in_any_case);
  return allowance;
}

}  // namespace c10dd::core
