// SPDX-License-Identifier: Apache-2.0
// Which waits of clients of TCPStore are reported when they are given up, and what is told of them.
#include "daemon/core/torch/given_up_waits.h"

#include <gtest/gtest.h>

#include "daemon/core/job/job.h"
#include "protocol/format.h"

namespace c10dd::core {
namespace {

using namespace std::chrono_literals;

constexpr const char* kKeyOfRank3 = "/pg/0//cpu//0/3";

class GivenUpWaitsTest : public testing::Test {
 protected:
  void open(std::uint64_t n, bool fleeting = true) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {1, n};
    hello.host = "10.0.0." + std::to_string(n);
    hello.pid = 100 + n;
    hello.fleeting = fleeting;
    hello.c10d = fleeting;
    ask(n, hello);
  }
  /// Returns the sequence of the request.
  std::uint64_t ask(std::uint64_t n, const Request& request) {
    const Origin from{.session = {1, n}, .connection = n};
    keep(job_.apply(from, {.sequence = ++sequence_, .acked_below = 0}, request, now_));
    return sequence_;
  }
  std::uint64_t wait(std::uint64_t n, const std::vector<Bytes>& keys) {
    return ask(n, Wait{.keys = keys, .timeout = Duration::max(), .each = true});
  }
  void disconnect(std::uint64_t n) { keep(job_.disconnect({1, n}, now_)); }
  void keep(const Effects& effects) {
    for (const Event& event : effects.events) {
      if (const auto* wait = std::get_if<WaitGivenUp>(&event)) found_.push_back(*wait);
    }
  }

  Job job_{7, {}};
  TimePoint now_{1h};
  std::uint64_t sequence_ = 0;
  std::vector<WaitGivenUp> found_;
};

TEST_F(GivenUpWaitsTest, NameTheClientAndWhatWasMissing) {
  for (std::uint64_t n = 1; n <= 3; ++n) open(n);
  const std::uint64_t call = wait(1, {"/other", kKeyOfRank3});
  wait(2, {kKeyOfRank3});
  wait(3, {kKeyOfRank3});
  ask(3, Set{.key = "/other", .value = "v"});
  now_ += 6s;
  ask(1, Cancel{call});
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].cause, "cancelled");
  EXPECT_EQ(found_[0].peer, "10.0.0.1");
  EXPECT_EQ(found_[0].pid, 101U);
  EXPECT_EQ(found_[0].blocked, 6s);
  EXPECT_EQ(found_[0].ranks, "[3]");
  EXPECT_EQ(found_[0].others, 2U);
  EXPECT_EQ(found_[0].folded, 0U);
  EXPECT_EQ(found_[0].detail, format("1 of 2 keys not found: {}", kKeyOfRank3));
}

TEST_F(GivenUpWaitsTest, AreReportedWhenTheConnectionEnds) {
  open(1);
  ask(1, WaitCounter{.key = "/barrier", .at_least = 8, .timeout = Duration::max()});
  now_ += 6s;
  disconnect(1);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].cause, "disconnected");
  EXPECT_EQ(found_[0].ranks, "[]");
  EXPECT_EQ(found_[0].detail, "key /barrier has not reached 8");
}

TEST_F(GivenUpWaitsTest, OfTheSameKeyAreFolded) {
  for (std::uint64_t n = 1; n <= 1'000; ++n) {
    open(n);
    wait(n, {kKeyOfRank3});
  }
  open(2'000);
  now_ += 6s;
  for (std::uint64_t n = 1; n <= 998; ++n) disconnect(n);
  ASSERT_EQ(found_.size(), 1U);
  EXPECT_EQ(found_[0].others, 999U);
  now_ += GivenUpWaits::kFolded;
  disconnect(999);
  ASSERT_EQ(found_.size(), 2U);
  EXPECT_EQ(found_[1].others, 1U);
  EXPECT_EQ(found_[1].folded, 997U);
  wait(2'000, {"/another"});
  now_ += 6s;
  disconnect(2'000);
  EXPECT_EQ(found_.size(), 3U) << "another key is not folded";
}

TEST_F(GivenUpWaitsTest, AreNotReportedIfTheyWereShortOrNative) {
  open(1);
  open(2, false);
  const std::uint64_t brief = wait(1, {kKeyOfRank3});
  now_ += GivenUpWaits::kLong;
  ask(1, Cancel{brief});
  const std::uint64_t native = ask(2, Wait{.keys = {kKeyOfRank3}, .timeout = 600s, .each = false});
  wait(1, {kKeyOfRank3});
  now_ += 1min;
  ask(2, Cancel{native});
  ask(2, Set{.key = kKeyOfRank3, .value = "v"});
  disconnect(1);
  EXPECT_TRUE(found_.empty());
}

}  // namespace
}  // namespace c10dd::core
