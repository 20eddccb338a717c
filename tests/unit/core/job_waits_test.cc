// SPDX-License-Identifier: Apache-2.0
// What blocked requests may hold of a job's memory.
#include <gtest/gtest.h>

#include "daemon/core/job.h"

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
  Origin from_ = {{1, 1}, {}, Access::admin, 0, 1};
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

}  // namespace
}  // namespace c10dd::core
