// SPDX-License-Identifier: Apache-2.0
// Members of a group whose daemon dies, ends or is paused, while another daemon on the same Redis
// takes their job over: none is lost, none fences itself, and the generation stays. C10DD_MEMBERS
// sets how many members there are.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "client/store.h"
#include "tests/integration/daemon_process.h"
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
    for (int i = 0; i < 2; ++i) {
      daemons_.push_back(std::make_unique<test::DaemonProcess>(redis_->url()));
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

  /// The daemon that serves the job: after the first calls all clients are there.
  test::DaemonProcess& owner() {
    const std::string address = members_.front()->client()->address();
    return address == daemons_[0]->address() ? *daemons_[0] : *daemons_[1];
  }

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

}  // namespace
}  // namespace c10dd
