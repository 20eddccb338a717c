// SPDX-License-Identifier: Apache-2.0
// What a call asks its caller while it waits, and what the SDK says on standard error.
#include "client/internal/caller.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "client/internal/announcer.h"
#include "tests/unit/client/process_tools.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;

// ---- callers -----------------------------------------------------------------------------------

TEST(CallerTest, TheInnermostScopeOfTheThreadCounts) {
  EXPECT_EQ(call_limit(5s), 5s);
  EXPECT_EQ(until_asked(5s), 5s);
  const Caller outer{.limit = 3s};
  {
    const CallerScope scope(outer);
    EXPECT_EQ(call_limit(5s), 3s);
    EXPECT_EQ(until_asked(5s), 5s) << "there is nobody to ask";
    {
      const Caller inner{.go_on = [] { return true; }};
      const CallerScope inside(inner);
      EXPECT_EQ(call_limit(5s), 5s);
      EXPECT_EQ(until_asked(5s), kAskCaller);
      EXPECT_EQ(until_asked(1ms), 1ms);
    }
    EXPECT_EQ(call_limit(5s), 3s);
    EXPECT_EQ(std::async(std::launch::async, [] { return call_limit(5s); }).get(), 5s);
  }
  EXPECT_EQ(call_limit(5s), 5s);
}

class CallerWaitTest : public testing::Test {
 protected:
  Waited wait(Duration patience) {
    std::unique_lock lock(mutex_);
    const Waited why = wait_until(lock, changed_, boot_time() + patience, [&] { return ready_; });
    EXPECT_TRUE(lock.owns_lock());
    return why;
  }
  void make_ready() {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
};

TEST_F(CallerWaitTest, EndsWhenItIsReadyAlsoAfterTheEnd) {
  auto waited = std::async(std::launch::async, [&] { return wait(1h); });
  EXPECT_EQ(waited.wait_for(20ms), std::future_status::timeout);
  make_ready();
  ASSERT_EQ(waited.wait_for(60s), std::future_status::ready);
  EXPECT_EQ(waited.get(), Waited::ready);
  EXPECT_EQ(wait(-1s), Waited::ready);
}

TEST_F(CallerWaitTest, IsLateWithAndWithoutACaller) {
  EXPECT_EQ(wait(1ms), Waited::late);
  EXPECT_EQ(wait(-1s), Waited::late);
  const Caller patient{.go_on = [] { return true; }};
  const CallerScope scope(patient);
  EXPECT_EQ(wait(1ms), Waited::late);
}

TEST_F(CallerWaitTest, AsksTheCallerWithoutTheLockUntilItEndsTheCall) {
  int asked = 0;
  const Caller caller{.go_on = [&] {
    const std::lock_guard lock(mutex_);  // would block for ever
    return ++asked < 2;
  }};
  const CallerScope scope(caller);
  EXPECT_EQ(wait(1h), Waited::ended_by_caller);
  EXPECT_EQ(asked, 2);
}

TEST_F(CallerWaitTest, WhatIsReadyCountsMoreThanTheCaller) {
  const Caller caller{.go_on = [&] {
    make_ready();
    return true;
  }};
  const CallerScope scope(caller);
  EXPECT_EQ(wait(1h), Waited::ready);
  const Caller impatient{.go_on = [] { return false; }};
  const CallerScope inner(impatient);
  EXPECT_EQ(wait(1h), Waited::ready) << "nobody is asked";
}

TEST(CallerTest, ItsFailureIsKnownFromOthers) {
  EXPECT_TRUE(is_ended_by_caller(ended_by_caller()));
  EXPECT_EQ(ended_by_caller().code, Code::aborted);
  EXPECT_FALSE(is_ended_by_caller(failure(Code::aborted, "the watch has ended")));
  EXPECT_FALSE(is_ended_by_caller(failure(Code::closed, ended_by_caller().detail)));
}

// ---- standard error ----------------------------------------------------------------------------

Environment log_is(const char* value) {
  return [value](const char* name) { return std::string(name) == "C10DD_LOG" ? value : nullptr; };
}

TEST(AnnouncerTest, SaysOnlyWhatIsForPeopleAndTellsTheProgramAll) {
  for (const char* log : {static_cast<const char*>(nullptr), "on", "off"}) {
    test::Pipe error;
    std::vector<ConnectionChange> told;
    {
      const test::ReplacedStream replaced(STDERR_FILENO, error.in());
      const auto announce =
          announcer(log_is(log), [&](const ConnectionChange& change) { told.push_back(change); });
      announce({false, false, 0s}, "a:1", "the daemon at a:1 has gone");
      announce({false, true, 2s}, "a:1", "the daemon at a:1 has been away for 2 s");
      announce({true, false, 1s}, "b:2", "");
      announce({true, true, 3s}, "b:2", "");
    }
    const bool off = log != nullptr && std::string(log) == "off";
    EXPECT_EQ(says_on_stderr(log_is(log)), !off);
    EXPECT_EQ(error.rest(),
              off ? ""
                  : "c10dd: the daemon at a:1 has been away for 2 s; still trying (C10DD_LOG=off "
                    "silences this)\nc10dd: connected to the daemon at b:2 after 3 s\n");
    ASSERT_EQ(told.size(), 4u);
    EXPECT_FALSE(told[1].connected);
    EXPECT_EQ(told[1].daemon, "a:1");
    EXPECT_EQ(told[1].reason, "the daemon at a:1 has been away for 2 s");
    EXPECT_EQ(told[1].away, 2s);
    EXPECT_TRUE(told[3].connected);
    EXPECT_EQ(told[3].daemon, "b:2");
  }
}

TEST(AnnouncerTest, NeedsNeitherAProgramThatListensNorAnOpenStream) {
  const auto announce = announcer(log_is(nullptr), nullptr);
  test::Pipe error;
  const client::Descriptor reading(fcntl(error.out(), F_DUPFD_CLOEXEC, 0));
  {
    const test::ReplacedStream replaced(STDERR_FILENO, reading.get());  // cannot be written
    announce({true, true, 1s}, "a:1", "");
  }
  EXPECT_EQ(error.rest(), "");
}

}  // namespace
}  // namespace c10dd::client
