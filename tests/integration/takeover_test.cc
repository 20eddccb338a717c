// SPDX-License-Identifier: Apache-2.0
// Members of a group whose daemon dies, ends, is paused or loses its way to Redis, while another
// daemon on the same Redis takes their job over: none is lost, none fences itself, and the
// generation stays. A member that reaches only the former daemon fences itself before it is given
// up; that takes 40 s, so it runs with C10DD_TAKEOVER_LONG=1 only. C10DD_MEMBERS sets how many
// members there are.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "client/store.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/store/redis_server.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using MembershipPtr = std::shared_ptr<Membership>;

std::uint32_t members_wanted() {
  const char* text = std::getenv("C10DD_MEMBERS");
  return text != nullptr ? static_cast<std::uint32_t>(std::stoul(text)) : 64;
}

class Takeover : public testing::Test {
 protected:
  void SetUp() override {
    if (!store::RedisServer::installed()) GTEST_SKIP() << "no redis-server in PATH";
    redis_ = std::make_unique<store::RedisServer>();
    const std::string redis = redis_->url().substr(std::string("redis://").size());
    for (int i = 0; i < 2; ++i) {
      links_.push_back(std::make_unique<test::FaultyLink>(redis));
      const std::string engine = "redis://" + links_.back()->address();
      daemons_.push_back(std::make_unique<test::DaemonProcess>(engine));
      daemons_.back()->start();
    }
  }

  void join(std::chrono::milliseconds ttl) {
    RendezvousOptions options;
    options.min = options.max = members_wanted();
    options.ttl = ttl;
    options.timeout = 60s;
    const std::string url =
        "c10dd://" + daemons_[0]->address() + "," + daemons_[1]->address() + "/job";
    std::vector<std::future<MembershipPtr>> joining;
    for (std::uint32_t i = 0; i < options.min; ++i) {
      joining.push_back(std::async(std::launch::async, [&url, &options] {
        return Client::connect(url)->rendezvous(options);
      }));
    }
    for (auto& one : joining) members_.push_back(one.get());
    generation_ = members_.front()->generation().number;
    members_.front()->client()->store()->set("before", "1");
  }

  /// Which daemon serves the job: after the first calls all clients are there.
  std::size_t owner_index() const {
    return members_.front()->client()->address() == daemons_[0]->address() ? 0 : 1;
  }
  test::DaemonProcess& owner() { return *daemons_[owner_index()]; }

  /// All members meet at a barrier of their generation, and nobody was lost or fenced.
  void expect_whole() {
    std::vector<std::future<void>> waiting;
    for (const MembershipPtr& member : members_) {
      waiting.push_back(
          std::async(std::launch::async, [&member] { member->barrier("after", 60s); }));
    }
    for (auto& one : waiting) EXPECT_NO_THROW(one.get());
    for (const MembershipPtr& member : members_) {
      const GroupState state = member->state();
      EXPECT_FALSE(state.fenced) << "rank " << member->rank() << ": " << state.reason;
      EXPECT_EQ(state.lost, std::vector<std::uint32_t>{}) << state.reason;
      EXPECT_EQ(state.generation, generation_) << state.reason;
      EXPECT_EQ(state.phase, GroupState::Phase::formed) << state.reason;
    }
    EXPECT_EQ(members_.back()->client()->store()->get("before"), "1");
  }

  std::unique_ptr<store::RedisServer> redis_;
  std::vector<std::unique_ptr<test::FaultyLink>> links_;  ///< of the daemons, to Redis
  std::vector<std::unique_ptr<test::DaemonProcess>> daemons_;
  std::vector<MembershipPtr> members_;
  std::uint64_t generation_ = 0;
};

TEST_F(Takeover, NoMemberIsLostWhenTheOwnerIsKilled) {
  join(2'500ms);
  owner().stop(SIGKILL);
  expect_whole();
}

TEST_F(Takeover, NoMemberIsLostWhenTheOwnerIsStopped) {
  join(2'500ms);
  owner().stop(SIGTERM);
  expect_whole();
}

TEST_F(Takeover, NoMemberIsLostWhenTheOwnerIsPaused) {
  join(5'000ms);
  const pid_t paused = owner().pid();
  ::kill(paused, SIGSTOP);
  expect_whole();
  ::kill(paused, SIGCONT);
  std::this_thread::sleep_for(2s);  // it must not take anybody back
  expect_whole();
}

TEST_F(Takeover, NoMemberIsLostWhenTheOwnerIsCutOffFromRedis) {
  join(5'000ms);
  const std::size_t former = owner_index();
  links_[former]->set(test::FaultyLink::Mode::cut);
  expect_whole();
  EXPECT_NE(owner_index(), former);
  links_[former]->set(test::FaultyLink::Mode::pass);
  std::this_thread::sleep_for(2s);
  expect_whole();
}

/// Waits until the condition holds of the member's group; how long that took.
std::chrono::nanoseconds time_until(const MembershipPtr& member,
                                    const std::function<bool(const GroupState&)>& holds) {
  const auto begin = std::chrono::steady_clock::now();
  while (!holds(member->state())) {
    if (std::chrono::steady_clock::now() > begin + 90s) throw std::runtime_error("not in 90 s");
    std::this_thread::sleep_for(5ms);
  }
  return std::chrono::steady_clock::now() - begin;
}

TEST_F(Takeover, AMemberThatReachesOnlyTheFormerOwnerIsFencedBeforeItIsGivenUp) {
  if (std::getenv("C10DD_TAKEOVER_LONG") == nullptr) {
    GTEST_SKIP() << "waits for the grace after a takeover, 30 s: C10DD_TAKEOVER_LONG=1 "
                    "build/tests/redis_integration_test --gtest_filter='Takeover*'";
  }
  // The second daemon tells clients an address that can be cut. The other members know its own.
  test::FaultyLink way(daemons_[1]->address());
  daemons_[1]->stop(SIGTERM);
  daemons_[1]->advertise(way.address());
  daemons_[1]->start();
  RendezvousOptions options;
  options.min = options.max = 3;
  options.ttl = 5s;
  const std::string first = "c10dd://" + daemons_[0]->address();
  const auto client = Client::connect(first + "/job");  // the first daemon now owns the job
  auto joining = std::async(std::launch::async, [&] { return client->rendezvous(options); });
  std::vector<std::future<MembershipPtr>> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(std::async(std::launch::async, [&] {
      return Client::connect(first + "," + daemons_[1]->address() + "/job")->rendezvous(options);
    }));
  }
  const MembershipPtr lonely = joining.get();
  for (auto& one : others) members_.push_back(one.get());
  ASSERT_EQ(owner_index(), 0u);

  way.set(test::FaultyLink::Mode::cut);
  links_[0]->set(test::FaultyLink::Mode::cut);
  auto fenced = std::async(std::launch::async, [&] {
    return time_until(lonely, [](const GroupState& state) { return state.fenced; });
  });
  auto given_up = std::async(std::launch::async, [&] {
    return time_until(members_[0], [](const GroupState& state) { return !state.lost.empty(); });
  });
  const auto fenced_after = fenced.get();
  EXPECT_LT(fenced_after, given_up.get());
  EXPECT_EQ(members_[1]->state().lost, std::vector<std::uint32_t>{lonely->rank()});
  EXPECT_FALSE(members_[0]->state().fenced);
  EXPECT_NE(members_[0]->client()->address(), daemons_[0]->address());
}

}  // namespace
}  // namespace c10dd
