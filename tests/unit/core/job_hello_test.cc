// SPDX-License-Identifier: Apache-2.0
// How a hello is judged: the state that the client has seen against the state of the job.
#include <gtest/gtest.h>

#include "daemon/core/job/job.h"

namespace c10dd::core {
namespace {

constexpr std::uint64_t kIncarnation = 7;

/// A job that was claimed as epoch 6 with revision 100, and has made eleven changes since.
class JobHello : public testing::Test {
 protected:
  JobHello() {
    EXPECT_EQ(greet(1, {}), Code::ok);
    for (std::uint64_t n = 1; n <= 11; ++n) {
      job_.apply(from(1), {n, n, n, 0}, Set{"key" + std::to_string(n), "value"}, now_);
    }
    EXPECT_EQ(job_.revision(), 111u);
  }

  static Origin from(std::uint64_t session) {
    Origin origin;
    origin.session = {session, session};
    return origin;
  }
  Code greet(std::uint64_t session, const Stamp& seen) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {session, session};
    hello.seen = seen;
    const Effects effects = job_.apply(from(session), {}, hello, now_);
    const Reply& reply = effects.replies.at(0).result;
    return reply ? Code::ok : reply.error().code;
  }

  TimePoint now_{std::chrono::seconds(1)};
  Job job_{1, {kIncarnation, 6, 100}, {}};
};

TEST_F(JobHello, TakesWhoHasSeenWhatIsThere) {
  EXPECT_EQ(greet(2, {kIncarnation, 5, 100}), Code::ok);
  EXPECT_EQ(greet(3, {kIncarnation, 6, 111}), Code::ok);
}

TEST_F(JobHello, RefusesWhoHasSeenMore) {
  EXPECT_EQ(greet(2, {kIncarnation, 6, 112}), Code::state_rolled_back);
  EXPECT_EQ(greet(3, {kIncarnation, 7, 1}), Code::state_rolled_back);
  EXPECT_EQ(greet(4, {kIncarnation + 1, 6, 100}), Code::state_rolled_back);
}

TEST_F(JobHello, NoticesALossThatOthersHaveWrittenPast) {
  EXPECT_EQ(greet(2, {kIncarnation, 5, 101}), Code::state_rolled_back);
  EXPECT_EQ(greet(3, {kIncarnation, 5, 110}), Code::state_rolled_back);
}

TEST_F(JobHello, NoticesALossBeforeTheNewestClaim) {
  // Epoch 4 had come to revision 90 when epoch 5 began with 80: ten changes were lost.
  Job job(1, {kIncarnation, 6, 100}, {}, {{4, 50}, {5, 80}, {6, 100}});
  const auto greets = [&](const Stamp& seen) {
    Hello hello;
    hello.version_min = hello.version_max = kProtocolVersion;
    hello.session = {seen.revision, seen.epoch};
    hello.seen = seen;
    const Effects effects = job.apply(from(seen.revision), {}, hello, now_);
    const Reply& reply = effects.replies.at(0).result;
    return reply ? Code::ok : reply.error().code;
  };
  EXPECT_EQ(greets({kIncarnation, 4, 80}), Code::ok);
  EXPECT_EQ(greets({kIncarnation, 4, 90}), Code::state_rolled_back);
  EXPECT_EQ(greets({kIncarnation, 5, 100}), Code::ok);
  EXPECT_EQ(greets({kIncarnation, 3, 60}), Code::state_rolled_back);
  EXPECT_EQ(greets({kIncarnation, 2, 50}), Code::ok) << "the oldest beginning that is known";
}

}  // namespace
}  // namespace c10dd::core
