// SPDX-License-Identifier: Apache-2.0
// Requests that an outage cuts off: what the daemon did before the cut is done once, and the caller
// gets its reply afterwards.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Joining = std::future<std::shared_ptr<Membership>>;

class OutageTest : public testing::Test {
 protected:
  void SetUp() override { daemon_.start(); }

  static std::shared_ptr<Client> connect(const std::string& address) {
    return Client::connect("c10dd://" + address + "/job");
  }
  static RendezvousOptions size(std::uint32_t min, std::uint32_t max) {
    RendezvousOptions options;
    options.min = min;
    options.max = max;
    options.last_call = 300ms;
    options.ttl = 30s;
    options.grace = 20s;
    options.timeout = 60s;
    return options;
  }
  static Joining join(const std::shared_ptr<Client>& client, const RendezvousOptions& options) {
    return std::async(std::launch::async,
                      [client, options] { return client->rendezvous(options); });
  }
  void expect_no_ghost(test::FaultyLink::Mode then);
  static void end_outage(test::FaultyLink& link) {
    link.set(test::FaultyLink::Mode::cut);
    std::this_thread::sleep_for(100ms);
    link.set(test::FaultyLink::Mode::pass);
  }

  TemporaryDirectory home_;
  test::DaemonProcess daemon_{"rocksdb:" + home_.path() + "/state"};
};

TEST_F(OutageTest, JoinWhoseReplyIsLostJoinsOnce) {
  test::FaultyLink link(daemon_.address());
  const auto far = connect(link.address());
  link.set(test::FaultyLink::Mode::lose_replies);
  Joining joining = join(far, size(2, 2));
  const auto near = connect(daemon_.address())->rendezvous(size(2, 2));
  EXPECT_EQ(joining.wait_for(200ms), std::future_status::timeout);
  end_outage(link);
  const auto member = joining.get();
  EXPECT_EQ(member->generation().number, 1u);
  EXPECT_EQ(near->generation().number, 1u);
  EXPECT_EQ(member->rank() + near->rank(), 1u);
  auto meets = std::async(std::launch::async, [&] { near->barrier("after", 20s); });
  member->barrier("after", 20s);
  meets.get();
  EXPECT_FALSE(near->state().ended(1)) << near->state().reason;
}

/// Lets a join get its place while its replies are lost, until its caller has given up. Then the
/// place must be free, although its session lives on.
void OutageTest::expect_no_ghost(test::FaultyLink::Mode then) {
  test::FaultyLink link(daemon_.address());
  const auto far = connect(link.address());
  link.set(test::FaultyLink::Mode::lose_replies);
  RendezvousOptions options = size(2, 2);
  options.timeout = 500ms;
  Joining joining = join(far, options);
  const auto near = connect(daemon_.address())->rendezvous(size(2, 2));
  link.set(then);
  EXPECT_THROW(joining.get(), TimedOut);
  end_outage(link);
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!near->state().ended(1) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(near->state().ended(1)) << "the member that has given up keeps its place";
  EXPECT_NE(near->state().reason.find("has left"), std::string::npos) << near->state().reason;
  EXPECT_NO_THROW(far->store()->set("alive", "yes"));
}

TEST_F(OutageTest, AJoinThatTimedOutWhileTheDaemonWasAwayHasNoPlace) {
  expect_no_ghost(test::FaultyLink::Mode::cut);
}

TEST_F(OutageTest, AJoinThatTimedOutWhileTheDaemonWasSilentHasNoPlace) {
  expect_no_ghost(test::FaultyLink::Mode::lose_replies);
}

TEST_F(OutageTest, JoinThatIsCutOffWhileItWaitsIsTakenUpAgain) {
  test::FaultyLink link(daemon_.address());
  Joining joining = join(connect(link.address()), size(2, 2));
  for (int cut = 0; cut < 3; ++cut) {
    EXPECT_EQ(joining.wait_for(150ms), std::future_status::timeout);
    end_outage(link);
  }
  const auto near = connect(daemon_.address())->rendezvous(size(2, 2));
  const auto member = joining.get();
  EXPECT_EQ(member->generation().number, near->generation().number);
  EXPECT_EQ(member->rank() + near->rank(), 1u);
}

TEST_F(OutageTest, JoinsOutliveADaemonThatIsKilledInTheMiddle) {
  std::vector<Joining> joining;
  for (int i = 0; i < 2; ++i) joining.push_back(join(connect(daemon_.address()), size(3, 3)));
  EXPECT_EQ(joining[1].wait_for(300ms), std::future_status::timeout);
  daemon_.stop(SIGKILL);
  std::this_thread::sleep_for(300ms);
  daemon_.start();
  joining.push_back(join(connect(daemon_.address()), size(3, 3)));
  std::uint32_t ranks = 0;
  for (Joining& one : joining) {
    const auto member = one.get();
    EXPECT_EQ(member->size(), 3u);
    EXPECT_EQ(member->generation().number, 1u);
    ranks |= 1u << member->rank();
  }
  EXPECT_EQ(ranks, 7u);
}

TEST_F(OutageTest, MemberThatLeavesDuringAnOutageHasLeftAndIsNotLost) {
  test::FaultyLink link(daemon_.address());
  RendezvousOptions options = size(1, 2);
  options.last_call = 2s;
  Joining joining = join(connect(link.address()), options);
  const auto near = connect(daemon_.address())->rendezvous(options);
  const auto member = joining.get();
  ASSERT_EQ(near->size(), 2u);
  link.set(test::FaultyLink::Mode::lose_replies);
  auto leaves = std::async(std::launch::async, [&] { member->leave("maintenance"); });
  EXPECT_EQ(near->next().size, 1u);
  end_outage(link);
  leaves.get();
  EXPECT_EQ(near->generation().failures, 0u);
  EXPECT_TRUE(near->state().lost.empty()) << near->state().reason;
}

TEST_F(OutageTest, CallsThatOneOutageCutsOffAreDoneOnce) {
  test::FaultyLink link(daemon_.address());
  const auto far = connect(link.address());
  const auto near = connect(daemon_.address());
  link.set(test::FaultyLink::Mode::lose_replies);
  std::vector<std::future<std::int64_t>> sums;
  for (int i = 0; i < 8; ++i) {
    sums.push_back(
        std::async(std::launch::async, [store = far->store()] { return store->add("n", 1); }));
  }
  while (near->store()->add("n", 0) < 8) std::this_thread::sleep_for(10ms);
  end_outage(link);
  std::int64_t total = 0;
  for (auto& sum : sums) total += sum.get();
  EXPECT_EQ(total, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 8);
  EXPECT_EQ(near->store()->add("n", 0), 8);
  EXPECT_EQ(far->stats().failures, 0u);
  EXPECT_EQ(far->stats().reissued, 8u);
}

}  // namespace
}  // namespace c10dd
