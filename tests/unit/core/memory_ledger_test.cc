// SPDX-License-Identifier: Apache-2.0
// What a daemon holds for clients is charged to who makes it hold it, has a bound for each of them,
// and is given back to the last byte.
#include "daemon/core/memory_ledger.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/job/job.h"
#include "protocol/limits.h"
#include "protocol/metric_catalog.h"

namespace c10dd::core {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

Payer payer(std::string principal, JobNumber job = 1, bool observes = false) {
  return {std::move(principal), observes, job, "job-" + std::to_string(job)};
}

/// Charges to an account, 1 KiB at a time, until it may hold no more. Returns what it holds then.
std::uint64_t fill(const MemoryLedger& ledger, const AccountRef& account,
                   std::vector<Charge>& charges) {
  while (!ledger.allowance(*account).refuses(1024, "a test")) charges.emplace_back(account, 1024);
  return account->held();
}

TEST(MemoryLedger, LeavesAShareForTheNext) {
  const MemoryLedger ledger(180 * kMiB);
  std::vector<Charge> charges;
  std::vector<std::uint64_t> held;
  std::vector<AccountRef> accounts;
  for (const char* name : {"a", "b", "c", "d"}) {
    for (const JobNumber job : {1, 2}) {
      accounts.push_back(ledger.account(payer(name, job)));
      held.push_back(fill(ledger, accounts.back(), charges));
    }
  }
  EXPECT_NEAR(static_cast<double>(held[0]), 90.0 / 4 * kMiB, 64 * 1024) << "a quarter for one job";
  for (std::size_t i = 0; i < held.size(); ++i) EXPECT_GT(held[i], 512 * 1024U) << "account " << i;
  EXPECT_LT(ledger.held(), 90 * kMiB);
  charges.clear();
  EXPECT_EQ(ledger.held(), 0U);
  for (const AccountRef& account : accounts) EXPECT_EQ(account->held(), 0U);
}

TEST(MemoryLedger, GivesObserversLess) {
  const MemoryLedger ledger(180 * kMiB);
  std::vector<Charge> charges;
  const AccountRef viewer = ledger.account(payer("a", 1, true));
  const AccountRef trainer = ledger.account(payer("a", 1, false));
  EXPECT_NE(viewer, trainer);
  const std::uint64_t seen = fill(ledger, viewer, charges);
  const std::uint64_t used = fill(ledger, trainer, charges);
  EXPECT_LT(seen * 2, used);
  EXPECT_GT(used, 18 * kMiB);
}

TEST(MemoryLedger, WithoutPrincipalsAJobMayHoldHalf) {
  const MemoryLedger ledger(180 * kMiB);
  std::vector<Charge> charges;
  EXPECT_GT(fill(ledger, ledger.account(payer("", 1)), charges), 44 * kMiB);
  EXPECT_GT(fill(ledger, ledger.account(payer("", 2)), charges), 20 * kMiB);
}

TEST(MemoryLedger, KeepsTheLeastForClientsWhenKeysFillTheRest) {
  MemoryLedger ledger(180 * kMiB);
  ledger.add_stored(static_cast<std::int64_t>(180 * kMiB));
  EXPECT_EQ(ledger.counted(), 180 * kMiB);
  std::vector<Charge> charges;
  const std::uint64_t held = fill(ledger, ledger.account(payer("a")), charges);
  EXPECT_GT(held, limits::kHeldBytesMin / 5);
  EXPECT_LT(held, limits::kHeldBytesMin);
  EXPECT_EQ(ledger.counted(), 180 * kMiB) << "held below the least counts against no key";
}

TEST(MemoryLedger, AnEqualPartIsThereForThoseWhoHoldLessWhenNothingIsFree) {
  MemoryLedger ledger(180 * kMiB);
  std::vector<Charge> charges;
  const AccountRef first = ledger.account(payer("a"));
  const AccountRef second = ledger.account(payer("b"));
  const AccountRef viewer = ledger.account(payer("c", 1, true));
  charges.emplace_back(first, 20 * kMiB);
  ledger.add_stored(static_cast<std::int64_t>(180 * kMiB));
  EXPECT_TRUE(ledger.allowance(*first).refuses(1, "a test")) << "it holds more than its part";
  EXPECT_EQ(fill(ledger, second, charges), limits::kHeldBytesMin / 4 / (3 + 1) / 2);
  EXPECT_EQ(fill(ledger, viewer, charges), limits::kHeldBytesMin / 4 / (3 + 1) / 4 / 2);
}

TEST(MemoryLedger, TheRefusalHasBothNumbers) {
  const MemoryLedger ledger(64 * kMiB);
  const AccountRef account = ledger.account(payer("alice"));
  const auto refused = ledger.allowance(*account).refuses(1'000 * kMiB, "this wait");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::quota_exceeded);
  EXPECT_EQ(refused->detail,
            "this wait needs 1048576000 bytes of the daemon's memory, but principal \"alice\" in "
            "job \"job-1\" may hold 16777216 now and holds 0; ask for less, end sessions and waits "
            "that nobody needs, or raise --max-bytes");
}

TEST(Charge, MovesAndCountsOnce) {
  const MemoryLedger ledger(kMiB);
  const AccountRef account = ledger.account(payer("a"));
  Charge one(account, 100, &Account::waits);
  Charge two = std::move(one);
  EXPECT_EQ(account->held(), 100U);
  EXPECT_EQ(account->waits, 1U);
  two.set(40);
  EXPECT_EQ(ledger.held(), 40U);
  one = Charge(account, 7, &Account::waits);
  EXPECT_EQ(account->waits, 2U);
  one = {};
  two = {};
  EXPECT_EQ(account->held(), 0U);
  EXPECT_EQ(account->waits, 0U);
}

TEST(CheckShare, BoundsAPrincipalAndThoseWhoObserve) {
  const MemoryLedger ledger(kMiB);
  const auto most = [&](const Payer& who, std::size_t others) {
    const AccountRef account = ledger.account(who);
    std::size_t own = 0;
    while (!check_share(account.get(), "sessions", own, own + others, 1'000)) ++own;
    return own;
  };
  EXPECT_EQ(most(payer("trainer"), 0), 800U);
  EXPECT_EQ(most(payer("second"), 800), 160U);
  EXPECT_EQ(most(payer("viewer", 1, true), 0), 111U);
  EXPECT_EQ(most(payer(""), 0), 1'000U) << "without authentication all are one";
  EXPECT_EQ(most(payer("viewer", 1, true), 999), 1U);
}

/// A job whose sessions belong to principals.
class Charged : public testing::Test {
 protected:
  Effects ask(std::uint64_t session, const Request& request) {
    Origin from{.session = {1, session}, .connection = session};
    from.account = account(session);
    const Allowance allowance = limited_ ? *limited_ : Allowance(ledger_, *from.account);
    ++sequence_;
    const CallId call{.sequence = sequence_, .acked_below = acknowledges_ ? sequence_ : 0};
    return job_.apply(from, call, request, now_, allowance);
  }
  /// Returns the failure of the request; ok if it is blocked or has succeeded.
  Code code(std::uint64_t session, const Request& request) {
    const Effects effects = ask(session, request);
    for (const OutgoingReply& reply : effects.replies) {
      if (reply.to == SessionId{1, session} && !reply.result) return reply.result.error().code;
    }
    return Code::ok;
  }
  void open(std::uint64_t session) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {1, session};
    hello.host = "h";
    ASSERT_EQ(code(session, hello), Code::ok);
  }
  AccountRef account(std::uint64_t session) const {
    return ledger_.account(payer("p" + std::to_string(session), 1, false));
  }
  std::uint64_t held(std::uint64_t session) const { return account(session)->held(); }
  /// What the request makes the daemon hold for session 1.
  std::int64_t adds(const Request& request) {
    const std::uint64_t before = held(1);
    EXPECT_EQ(code(1, request), Code::ok);
    return static_cast<std::int64_t>(held(1)) - static_cast<std::int64_t>(before);
  }

  static Exchange exchange(const std::string& name, std::size_t bytes) {
    Exchange one;
    one.name = name;
    one.world_size = 2;
    one.parts = {Bytes(bytes, 'x')};
    one.timeout = std::chrono::minutes(1);
    return one;
  }
  static Join join(const std::string& group, std::size_t label_bytes) {
    Join one;
    one.group = group;
    one.policy.min = one.policy.max = 2;
    one.labels["l"] = std::string(label_bytes, 'x');
    one.timeout = std::chrono::minutes(1);
    return one;
  }
  static Activity opens(std::uint64_t group, std::uint32_t size) {
    Activity report;
    report.opened = {{.process_group = group, .name = "g", .kind = "dp", .size = size}};
    return report;
  }
  static Report totals(std::uint64_t number, int series) {
    Report report{.number = number, .collectives = {}};
    for (int i = 0; i < series; ++i) {
      CollectiveTotals one;
      one.process_group = "dp";
      one.collective = "op" + std::to_string(i);
      one.backend = "gloo";
      one.buckets.assign(metric::kCoarseBuckets, 0);
      report.collectives.push_back(one);
    }
    return report;
  }

  static constexpr auto kLong = std::chrono::minutes(1);

  MemoryLedger ledger_{1'000 * kMiB};
  Job job_{1, {1, 1, 0}};
  std::optional<Allowance> limited_;
  TimePoint now_ = TimePoint(std::chrono::seconds(1));
  std::uint64_t sequence_ = 0;
  bool acknowledges_ = false;  ///< all earlier replies
};

TEST_F(Charged, EachKindOfHeldMemoryAndGivesItBack) {
  open(1);
  EXPECT_EQ(held(1), Sessions::kSessionBytes);
  const Bytes key(8'000, 'k');
  EXPECT_GT(adds(Get{.key = Blob(key), .timeout = kLong}), 8'000);
  EXPECT_GT(adds(Wait{.keys = {key + "1", key + "2"}, .timeout = kLong}), 16'000);
  EXPECT_GT(adds(MultiGet{.keys = {key + "1", key + "2"}, .timeout = kLong}), 16'000);
  EXPECT_GT(adds(WaitCounter{.key = Blob(key), .at_least = 3, .timeout = kLong}), 16'000);
  EXPECT_GT(adds(QueuePop{.key = key, .timeout = kLong}), 8'000);
  EXPECT_GT(adds(Watch{.key = key, .timeout = kLong}), 16'000) << "also for the time after it";
  EXPECT_GT(adds(exchange("e", 5'000)), 5'000);
  EXPECT_GT(adds(join("g", 1'000)), 2'000);
  EXPECT_GT(adds(opens(7, 1'000)), 80'000);
  EXPECT_GT(adds(totals(1, 10)), 20'000);
  EXPECT_EQ(held(2), 0U);
  EXPECT_EQ(ledger_.held(), held(1));
  EXPECT_EQ(job_.charged(), held(1));
  EXPECT_EQ(account(1)->waits, 8U);
  EXPECT_EQ(account(1)->sessions, 1U);
  EXPECT_FALSE(job_.audit());
  ask(1, Goodbye{});
  for (int minutes = 0; minutes < 11; ++minutes) job_.tick(now_ += std::chrono::minutes(1));
  ASSERT_FALSE(job_.audit());
  EXPECT_EQ(ledger_.held(), 0U);
  EXPECT_EQ(account(1)->waits, 0U);
  EXPECT_EQ(account(1)->sessions, 0U);
}

TEST_F(Charged, RefusesEachKindWithoutRoomAndServesWhatHoldsNothing) {
  open(1);
  open(2);
  const Bytes key(100, 'k');
  ASSERT_EQ(code(1, Set{.key = Blob("there"), .value = Blob("v")}), Code::ok);
  const std::uint64_t before = ledger_.held();
  limited_ = Allowance();
  limited_->left = 10;
  const Payer who = payer("p1");
  limited_->payer = &who;
  const std::vector<Request> refused = {Get{.key = Blob(key), .timeout = kLong},
                                        Wait{.keys = {key}, .timeout = kLong},
                                        MultiGet{.keys = {key}, .timeout = kLong},
                                        WaitCounter{.key = Blob(key), .timeout = kLong},
                                        QueuePop{.key = key, .timeout = kLong},
                                        Watch{.key = key, .timeout = kLong},
                                        exchange("e", 10),
                                        join("g", 10),
                                        opens(7, 10),
                                        totals(1, 1)};
  for (const Request& request : refused) {
    EXPECT_EQ(code(1, request), Code::quota_exceeded) << info_of(request).name;
  }
  EXPECT_EQ(ledger_.held(), before) << "a refusal holds nothing";
  Hello hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.session = {1, 3};
  EXPECT_EQ(code(3, hello), Code::quota_exceeded);
  hello.session = {1, 1};
  EXPECT_EQ(code(1, hello), Code::ok) << "a session that is known opens again";
  EXPECT_EQ(code(1, Get{.key = Blob("there"), .timeout = kLong}), Code::ok);
  EXPECT_EQ(code(1, Set{.key = Blob("there"), .value = Blob("w")}), Code::ok);
  EXPECT_EQ(code(1, Remove{.key = "there"}), Code::ok);
  EXPECT_FALSE(job_.audit());
}

TEST_F(Charged, ARankThatAnOpenGroupDoesNotHaveIsRefused) {
  open(1);
  open(2);
  ASSERT_EQ(code(1, opens(7, 2)), Code::ok);
  Activity odd = opens(7, 100'000);
  odd.opened.front().rank = 99'999;
  EXPECT_EQ(code(2, odd), Code::size_mismatch);
  EXPECT_FALSE(job_.audit());
}

TEST_F(Charged, OutcomesAndUnacknowledgedReplies) {
  open(1);
  open(2);
  Exchange last = exchange("e", 4'000);
  last.rank = 1;
  ask(1, exchange("e", 4'000));
  ask(2, last);
  EXPECT_GT(held(1), Sessions::kSessionBytes + 8'000) << "the first rank pays for the outcome";
  EXPECT_EQ(held(2), Sessions::kSessionBytes);
  for (std::size_t i = 0; i < 2 * Sessions::kReplyBlock; ++i) {
    ask(2, Set{.key = Blob("k"), .value = Blob("v")});
  }
  EXPECT_EQ(held(2), Sessions::kSessionBytes + 2 * Sessions::kReplyBlock * Sessions::kReplyBytes);
  limited_ = Allowance();
  const Payer who = payer("p2");
  limited_->payer = &who;
  limited_->left = 0;
  Code code = Code::ok;
  for (std::size_t i = 0; i < Sessions::kReplyBlock && code == Code::ok; ++i) {
    code = this->code(2, Set{.key = Blob("k"), .value = Blob("v")});
  }
  EXPECT_EQ(code, Code::quota_exceeded);
}

TEST_F(Charged, OldOutcomesGiveWayWhenMemoryIsShort) {
  acknowledges_ = true;
  open(1);
  open(2);
  const auto pass = [&](std::uint64_t step) {
    Barrier barrier;
    barrier.name = "b";
    barrier.sequence = step;
    barrier.world_size = 2;
    barrier.timeout = kLong;
    const Code first = code(1, barrier);
    barrier.rank = 1;
    return first == Code::ok ? code(2, barrier) : first;
  };
  for (std::uint64_t step = 0; step < 1'000; ++step) ASSERT_EQ(pass(step), Code::ok);
  const std::uint64_t kept = held(1);
  ASSERT_GT(kept, 1'000 * 500U);
  // Keys fill the memory, of which others hold a part: session 1 holds more than it may.
  ledger_.add_stored(static_cast<std::int64_t>(ledger_.max_bytes()));
  const Charge others(ledger_.account(payer("greedy")), 16 * kMiB);
  std::vector<AccountRef> many;
  for (int i = 0; i < 5; ++i) many.push_back(ledger_.account(payer("q" + std::to_string(i))));
  ASSERT_TRUE(ledger_.allowance(*account(1)).refuses(512, "this arrival"));
  EXPECT_EQ(pass(1'000), Code::ok);
  EXPECT_LT(held(1), kept / 3);
  EXPECT_EQ(pass(1'000), Code::ok) << "the newest outcomes are kept";
  EXPECT_FALSE(job_.audit());
  EXPECT_EQ(job_.charged(), held(1) + held(2));
}

TEST_F(Charged, WhatIsRestoredIsPaidByTheJob) {
  Rows rows;
  Hello hello;
  hello.version_min = hello.version_max = kProtocolVersion;
  hello.session = {1, 1};
  hello.host = "h";
  rows.append(ask(1, hello).rows);
  rows.append(ask(1, exchange("e", 4'000)).rows);
  rows.append(ask(1, join("g", 500)).rows);
  const AccountRef own = ledger_.account(payer("", 1));
  Job again(1, {1, 2, job_.revision()}, {}, {}, own);
  for (const Row& row : rows) ASSERT_TRUE(again.restore(row));
  ASSERT_TRUE(again.resume(now_));
  EXPECT_GT(own->held(), 4'000 + memory_of_member(join("g", 500)));
}

}  // namespace
}  // namespace c10dd::core
