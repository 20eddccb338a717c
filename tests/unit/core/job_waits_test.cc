// SPDX-License-Identifier: Apache-2.0
// What blocked requests may hold of a job's memory, and that a wait which leads to a pop keeps its
// item.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "daemon/core/job/job.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kQuota = 10;

/// A job where key0 to key99 are set, with a quota of 10 keys to wait for.
class JobWaits : public testing::Test {
 protected:
  JobWaits() {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = from_.session;
    job_.apply(from_, {}, hello, now_);
    MultiSet all;
    for (const Bytes& key : keys(100)) {
      all.keys.push_back(key);
      all.values.push_back("value");
    }
    EXPECT_EQ(ask(all), Code::ok);
  }

  static std::vector<Bytes> keys(std::size_t count, const Bytes& prefix = "key") {
    std::vector<Bytes> all;
    for (std::size_t n = 0; n < count; ++n) all.push_back(prefix + std::to_string(n));
    return all;
  }
  /// Waits for these keys and for one that is missing.
  Code wait(std::vector<Bytes> keys) {
    keys.push_back("missing");
    return ask(Wait{std::move(keys), std::chrono::seconds(60)});
  }
  /// blocked counts as ok.
  Code ask(const Request& request) {
    ++sequence_;
    const Effects effects = job_.apply(from_, {sequence_, sequence_, sequence_, 0}, request, now_);
    if (effects.replies.empty() || effects.replies[0].result) return Code::ok;
    return effects.replies[0].result.error().code;
  }

  static Quotas quotas() {
    Quotas quotas;
    quotas.waited_keys = kQuota;
    return quotas;
  }

  TimePoint now_{std::chrono::seconds(1)};
  Origin from_ = {{1, 1}, 1};
  std::uint64_t sequence_ = 0;
  Job job_{1, {7, 1, 0}, quotas()};
};

TEST_F(JobWaits, CountWhatIsMissingInFull) {
  EXPECT_EQ(ask(Wait{keys(kQuota, "none"), std::chrono::seconds(60)}), Code::ok);
  EXPECT_EQ(wait({}), Code::quota_exceeded);
}

TEST_F(JobWaits, CountWhatIsOnlyNamedToo) {
  EXPECT_EQ(wait(keys(42)), Code::ok) << "43 / 4 = 10";
  EXPECT_EQ(wait({}), Code::quota_exceeded);
}

TEST_F(JobWaits, CountLongKeysAsSeveral) {
  const Bytes key(64 * 50, 'k');
  EXPECT_EQ(ask(Set{key, "value"}), Code::ok);
  EXPECT_EQ(wait({key}), Code::quota_exceeded) << "53 / 4 = 13";
}

/// Clients that wait for a queue, then pop, in a random order: each item is popped once, and
/// nobody finds the queue empty.
TEST(FleetingConsumers, NeverFindTheQueueEmpty) {
  constexpr std::uint64_t kConsumers = 8;
  constexpr int kItems = 1'000;
  Job job{1, {7, 1, 0}};
  const TimePoint now{std::chrono::seconds(1)};
  std::uint64_t sequence = 0;
  std::map<SessionId, bool> told;  // whose wait has ended
  const auto ask = [&](const SessionId& session, const Request& request) {
    const Effects effects = job.apply({session, session.low}, {++sequence, 0, 0, 0}, request, now);
    std::optional<Reply> own;
    for (const OutgoingReply& reply : effects.replies) {
      if (reply.to == session && reply.sequence == sequence) own = reply.result;
      if (reply.op == Wait::op.code) told[reply.to] = true;
    }
    EXPECT_EQ(effects.blocked, !own);
    return own;
  };
  for (std::uint64_t n = 0; n <= kConsumers; ++n) {
    Hello hello;
    hello.session = {1, 1 + n};
    hello.fleeting = true;
    hello.c10d = true;
    ask(hello.session, hello);
  }
  std::mt19937_64 random(3);
  std::set<SessionId> waiting;
  int pushed = 0;
  std::set<Bytes> popped;
  while (popped.size() < kItems) {
    const SessionId who{1, 1 + random() % (kConsumers + 1)};
    if (who.low > kConsumers) {
      if (pushed < kItems) ask(who, QueuePush{"q", std::to_string(++pushed)});
    } else if (told[who]) {
      const auto item = ask(who, QueuePop{"q", {}});
      ASSERT_TRUE(item && *item) << "the queue is empty";
      EXPECT_TRUE(popped.insert(std::get<Popped>(**item).value).second);
      told[who] = false;
      waiting.erase(who);
    } else if (waiting.insert(who).second) {
      ask(who, Wait{{"q"}, Duration::max()});
    }
  }
  EXPECT_EQ(pushed, kItems);
  EXPECT_EQ(job.stats().queue_items, 0U);
  EXPECT_EQ(job.audit(), std::nullopt);
}

}  // namespace
}  // namespace c10dd::core
