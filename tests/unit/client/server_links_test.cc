// SPDX-License-Identifier: Apache-2.0
// The connections of a store to its server: which call gets which, what is repeated, and that none
// is held that is of no use. The connections are fakes.
#include "client/stores/server_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <set>

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;

/// A connection that is as a test wants it.
struct ToyLink {
  ToyLink(int its_number, std::atomic<int>& all) : number(its_number), alive(all) { ++alive; }
  ~ToyLink() { --alive; }
  ToyLink(const ToyLink&) = delete;
  bool is_usable() const { return usable; }
  bool is_lost() const { return lost; }
  Failure lose(Code code, const std::string& why) {
    lost = true;
    usable = false;
    return failure(code, "{}", why);
  }

  const int number;
  std::atomic<int>& alive;
  bool usable = true;
  bool lost = false;
};

class ServerLinksTest : public testing::Test {
 protected:
  using Links = ServerLinks<ToyLink>;

  void TearDown() override {
    links_.reset();
    EXPECT_EQ(alive_, 0) << "a connection is left";
  }
  /// Opens the next connection, unless a test has listed a failure for that attempt.
  Result<std::unique_ptr<ToyLink>> open() {
    const std::lock_guard lock(mutex_);
    if (!failures_.empty()) {
      const Failure why = failures_.front();
      failures_.pop_front();
      return why;
    }
    return std::make_unique<ToyLink>(++opened_, alive_);
  }
  /// A call that returns the number of its connection.
  int number_of_read() {
    return links_->read(later(), [](ToyLink& link) { return Result<int>(link.number); }).value();
  }
  static Clock::time_point later() { return Clock::now() + 60s; }

  std::mutex mutex_;
  std::deque<Failure> failures_;
  int opened_ = 0;
  std::atomic<int> alive_ = 0;
  std::unique_ptr<Links> links_ = std::make_unique<Links>(
      "Toy at a:1", "start it", [this](Clock::time_point) { return open(); });
};

TEST_F(ServerLinksTest, ACallTakesWhatAnotherHasGivenBack) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(number_of_read(), 1);
  const auto both = links_->read(later(), [&](ToyLink& outer) {
    return links_->change(later(), [&](ToyLink& inner) {
      EXPECT_NE(outer.number, inner.number) << "each has its own";
      return Result<int>(outer.number + inner.number);
    });
  });
  EXPECT_EQ(both.value(), 3);
  EXPECT_EQ(alive_, 2);
  number_of_read();
  EXPECT_EQ(opened_, 2);
}

TEST_F(ServerLinksTest, TwoThreadsAtOnceHaveTwo) {
  std::latch both(2);
  const auto meet = [&](ToyLink& link) {
    both.arrive_and_wait();
    return Result<int>(link.number);
  };
  int one = 0;
  std::thread thread([&] { one = links_->read(later(), meet).value(); });
  const int two = links_->change(later(), meet).value();
  thread.join();
  EXPECT_EQ((std::set<int>{one, two}), (std::set<int>{1, 2}));
  EXPECT_EQ(alive_, 2);
}

TEST_F(ServerLinksTest, WhatIsOfNoUseIsNotKept) {
  const auto spoil = [](ToyLink& link) {
    link.usable = false;
    return Result<int>(link.number);
  };
  EXPECT_EQ(links_->read(later(), spoil).value(), 1) << "the result counts nevertheless";
  EXPECT_EQ(alive_, 0);
  std::vector<ToyLink*> idle;
  const auto keep = [&](ToyLink& outer) {
    idle.push_back(&outer);
    return links_->read(later(), [&](ToyLink& inner) {
      idle.push_back(&inner);
      return Result<int>(inner.number);
    });
  };
  EXPECT_EQ(links_->read(later(), keep).value(), 3);
  for (ToyLink* const link : idle) link->usable = false;  // the server has closed both meanwhile
  EXPECT_EQ(number_of_read(), 4);
  EXPECT_EQ(alive_, 1);
}

TEST_F(ServerLinksTest, AReadIsRepeatedOnAnotherConnection) {
  int attempts = 0;
  const auto third = links_->read(later(), [&](ToyLink& link) -> Result<int> {
    if (++attempts < 3) return link.lose(Code::unavailable, "it has ended");
    return link.number;
  });
  EXPECT_EQ(third.value(), 3);
  EXPECT_EQ(alive_, 1);
}

TEST_F(ServerLinksTest, AChangeIsRepeatedOnlyIfTheServerHasRefusedIt) {
  int attempts = 0;
  const auto refused = links_->change(later(), [&](ToyLink& link) -> Result<int> {
    if (++attempts == 1) return failure(Code::unavailable, "busy");
    return link.number;
  });
  EXPECT_EQ(refused.value(), 1) << "on the same connection";
  EXPECT_EQ(attempts, 2);
  for (const Code code : {Code::unavailable, Code::malformed}) {
    attempts = 0;
    const auto lost = links_->change(later(), [&](ToyLink& link) -> Result<int> {
      ++attempts;
      return link.lose(code, "it has ended");
    });
    EXPECT_EQ(attempts, 1);
    EXPECT_EQ(lost.error().code, Code::outcome_unknown);
    EXPECT_EQ(lost.error().detail,
              "Toy at a:1: it has ended; the change may or may not have been made: read the state "
              "before you repeat it");
  }
  EXPECT_EQ(alive_, 0);
}

TEST_F(ServerLinksTest, AnotherFailureIsGivenToTheCallerAtOnce) {
  int attempts = 0;
  const auto wrong = [&](ToyLink&) -> Result<int> {
    ++attempts;
    return failure(Code::wrong_type, "no counter");
  };
  for (const auto& result : {links_->read(later(), wrong), links_->change(later(), wrong)}) {
    EXPECT_EQ(result.error().code, Code::wrong_type);
    EXPECT_EQ(result.error().detail, "no counter");
  }
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(opened_, 1) << "the connection is still of use";
  for (const std::string text : {"lies", "Toy at a:1: lies"}) {
    const auto lies = links_->read(
        later(), [&](ToyLink& link) -> Result<int> { return link.lose(Code::malformed, text); });
    EXPECT_EQ(lies.error().code, Code::malformed);
    EXPECT_EQ(lies.error().detail, "Toy at a:1: lies");
  }
  EXPECT_EQ(alive_, 0);
}

TEST_F(ServerLinksTest, AServerThatIsNotThereYetIsTriedAgain) {
  failures_ = {failure(Code::not_found, "refused"), failure(Code::unavailable, "loading")};
  EXPECT_EQ(number_of_read(), 1);
  EXPECT_TRUE(failures_.empty());
  failures_ = {failure(Code::permission_denied, "login"), failure(Code::malformed, "no server")};
  const auto spoil = [](ToyLink& link) -> Result<int> {
    return link.lose(Code::unavailable, "it has ended");
  };
  const auto denied = links_->read(later(), spoil);
  EXPECT_EQ(denied.error().code, Code::permission_denied);
  EXPECT_EQ(denied.error().detail, "Toy at a:1: login");
  const auto changed = links_->change(later(), spoil);
  EXPECT_EQ(changed.error().code, Code::malformed) << "it was not reached: nothing was changed";
}

TEST_F(ServerLinksTest, ACallWhoseTimeIsOverIsTriedOnce) {
  const Clock::time_point past = Clock::now();
  EXPECT_EQ(links_->read(past, [](ToyLink& link) { return Result<int>(link.number); }).value(), 1);
  int attempts = 0;
  const auto busy = links_->change(past, [&](ToyLink&) -> Result<int> {
    ++attempts;
    return failure(Code::unavailable, "busy");
  });
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(busy.error().code, Code::timed_out);
  EXPECT_TRUE(busy.error().detail.starts_with("timed out after "));
  EXPECT_TRUE(busy.error().detail.ends_with(": Toy at a:1: busy; start it")) << busy.error().detail;
}

TEST_F(ServerLinksTest, AServerHasSomeTimeForAReplyWhateverTheLimit) {
  const Clock::time_point now = Clock::now();
  EXPECT_GE(reply_end(now - 1h), now + kReplyGrace);
  EXPECT_LT(reply_end(now - 1h), now + 1h);
  EXPECT_EQ(reply_end(now + 1h), now + 1h);
}

}  // namespace
}  // namespace c10dd::client
