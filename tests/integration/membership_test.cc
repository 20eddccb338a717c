// SPDX-License-Identifier: Apache-2.0
// Rendezvous and membership through the SDK, with the real daemon: deaths, restarts, silence.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "protocol/wording.h"
#include "tests/integration/canary.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/faulty_link.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using MembershipPtr = std::shared_ptr<Membership>;

/// Collects what a listener was told.
class Told {
 public:
  explicit Told(Membership& membership)
      : handle_(membership.on_change([this](const GroupState& state) {
          const std::lock_guard lock(mutex_);
          states_.push_back(state);
          changed_.notify_all();
        })) {}

  /// The first state that the condition holds of; fails after 20 s.
  GroupState wait(const std::function<bool(const GroupState&)>& condition) {
    std::unique_lock lock(mutex_);
    const auto found = [&] { return std::ranges::find_if(states_, condition); };
    const bool come = changed_.wait_for(lock, 20s, [&] { return found() != states_.end(); });
    if (!come) throw std::runtime_error("not told in 20 s");
    return *found();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<GroupState> states_;
  std::shared_ptr<void> handle_;  // last: gone first
};

class MembershipTest : public testing::Test {
 protected:
  void SetUp() override {
    daemon_.log_to(log());
    daemon_.start();
  }
  std::string log() const { return home_.path() + "/log"; }

  std::string url() const { return "c10dd://" + daemon_.address() + "/job"; }
  std::shared_ptr<Client> connect(const std::string& host = "") {
    ClientOptions options;
    options.host = host;
    return Client::connect(url(), options);
  }
  static RendezvousOptions size(std::uint32_t min, std::uint32_t max) {
    RendezvousOptions options;
    options.min = min;
    options.max = max;
    options.last_call = min == max ? 300ms : 1s;  // for the threads of a team that come last
    options.ttl = 30s;                            // longer than a machine stands still
    options.timeout = 30s;
    return options;
  }
  /// The same, of members that are lost when they were silent for this long.
  static RendezvousOptions with_ttl(std::chrono::milliseconds ttl, RendezvousOptions options) {
    options.ttl = ttl;
    return options;
  }
  /// `n` members of one generation, by rank.
  std::vector<MembershipPtr> team(std::uint32_t n, const RendezvousOptions& options) {
    std::vector<std::future<MembershipPtr>> joining;
    for (std::uint32_t i = 0; i < n; ++i) {
      joining.push_back(std::async(std::launch::async, [&, i] {
        return connect("host-" + std::to_string(i))->rendezvous(options);
      }));
    }
    std::vector<MembershipPtr> members(n);
    for (auto& one : joining) {
      const MembershipPtr member = one.get();
      members.at(member->rank()) = member;
    }
    return members;
  }
  /// A process that joins, says so through the pipe, and sleeps.
  pid_t member_process(const RendezvousOptions& options) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto membership = Client::connect(url())->rendezvous(options);
      EXPECT_EQ(::write(ready[1], "x", 1), 1);
      for (;;) ::pause();
    }
    ready_ = ready[0];
    return child;
  }
  void await_ready() const {
    char byte = 0;
    EXPECT_EQ(::read(ready_, &byte, 1), 1);
  }

  TemporaryDirectory home_;
  test::DaemonProcess daemon_{"rocksdb:" + home_.path() + "/state"};
  int ready_ = -1;
};

TEST_F(MembershipTest, EverybodyHasTheSameListAndItsOwnRank) {
  const auto members = team(4, size(4, 4));
  for (const MembershipPtr& member : members) {
    EXPECT_EQ(member->size(), 4u);
    EXPECT_EQ(member->generation().digest, members[0]->generation().digest);
    const std::vector<Member> list = member->members();
    ASSERT_EQ(list.size(), 4u);
    EXPECT_EQ(list[2].rank, 2u);
    EXPECT_EQ(list[2].host, members[0]->members()[2].host);
  }
  std::vector<std::future<std::vector<std::string>>> swaps;
  for (const MembershipPtr& member : members) {
    swaps.push_back(std::async(std::launch::async, [member] {
      member->barrier("ready", 10s);
      return member->exchange("names", {std::to_string(member->rank())});
    }));
  }
  for (auto& swap : swaps) EXPECT_EQ(swap.get(), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_THROW(members[0]->barrier("some", 1s, {1, 2}), InvalidArgument);
}

TEST_F(MembershipTest, AKilledMemberIsKnownAtOnceAndTheOthersGoOnWithoutIt) {
  const RendezvousOptions options = size(2, 3);
  const pid_t victim = member_process(options);
  const auto first = std::async(std::launch::async, [&] { return connect()->rendezvous(options); });
  const MembershipPtr one = connect()->rendezvous(options);
  first.wait();
  const MembershipPtr other = const_cast<std::future<MembershipPtr>&>(first).get();
  await_ready();
  ASSERT_EQ(one->size(), 3u);
  auto waits = std::async(std::launch::async, [&] { other->barrier("never", 30s); });
  std::this_thread::sleep_for(50ms);
  const test::Canary canary;
  const auto begin = Clock::now();
  ::kill(victim, SIGKILL);
  try {
    one->barrier("never", 30s);
    FAIL() << "released without the dead";
  } catch (const Aborted& error) {
    EXPECT_LT(Clock::now() - begin, 2s + canary.longest_gap());
    EXPECT_EQ(error.missing().at(0).cause, "dead") << error.what();
    EXPECT_NE(std::string(error.what()).find("is lost: its connection closed"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(waits.get(), Aborted);
  ::waitpid(victim, nullptr, 0);
  auto next = std::async(std::launch::async, [&] { return other->next(7); });
  const Generation now = one->next(7);
  EXPECT_EQ(now.size, 2u);
  EXPECT_EQ(now.number, 2u);
  EXPECT_EQ(next.get().digest, now.digest);
  EXPECT_EQ(one->members()[0].step, 7u);
  EXPECT_FALSE(one->state().ended(2));
}

TEST_F(MembershipTest, TheDaemonsDeathIsNobodysLoss) {
  const auto members = team(3, with_ttl(5s, size(3, 3)));
  auto meets = std::async(std::launch::async, [&] { members[0]->barrier("over", 30s); });
  auto too = std::async(std::launch::async, [&] { members[1]->barrier("over", 30s); });
  std::this_thread::sleep_for(100ms);
  daemon_.stop(SIGKILL);
  std::this_thread::sleep_for(5500ms);  // longer than a silent member may be
  for (const MembershipPtr& member : members) EXPECT_FALSE(member->state().fenced);
  daemon_.start();
  members[2]->barrier("over", 30s);
  meets.get();
  too.get();
  EXPECT_EQ(members[0]->generation().number, 1u);
  EXPECT_FALSE(members[0]->state().ended(1));
}

TEST_F(MembershipTest, WhoIsCutOffGivesItselfUpBeforeTheOthersDo) {
  const auto members = team(2, with_ttl(2500ms, size(1, 2)));
  Told told(*members[0]);
  const test::Canary canary;
  ::kill(daemon_.pid(), SIGSTOP);
  const auto begin = Clock::now();
  told.wait([](const GroupState& state) { return state.fenced; });
  const auto after = Clock::now() - begin;
  EXPECT_GT(after, 1s);
  EXPECT_LT(after, 2500ms + canary.longest_gap());
  EXPECT_TRUE(members[0]->state().ended(1));
  ::kill(daemon_.pid(), SIGCONT);
  auto other = std::async(std::launch::async, [&] { return members[1]->next(); });
  EXPECT_EQ(members[0]->next().size, 2u);
  other.get();
  EXPECT_FALSE(members[0]->state().fenced);
}

TEST_F(MembershipTest, LeaversFinishersAndFailuresAreToldApart) {
  const auto members = team(3, size(1, 3));
  Told told(*members[0]);
  members[1]->finish();
  const GroupState finished = told.wait([](const GroupState& s) { return !s.finished.empty(); });
  EXPECT_EQ(finished.finished, std::vector<std::uint32_t>{1});
  EXPECT_FALSE(finished.ended(1));
  members[2]->fail("out of memory");
  const GroupState failed =
      told.wait([](const GroupState& s) { return s.phase == GroupState::Phase::broken; });
  EXPECT_NE(failed.reason.find("has failed: out of memory"), std::string::npos) << failed.reason;
  EXPECT_EQ(failed.lost, std::vector<std::uint32_t>{2});
  const std::uint64_t before = members[0]->generation().number;
  EXPECT_EQ(members[0]->next().failures, 1u);
  EXPECT_THROW(members[0]->fail("told late", before), StaleGeneration);
  EXPECT_EQ(members[0]->state().phase, GroupState::Phase::formed);
}

TEST_F(MembershipTest, DrainsAreToldAndAcknowledged) {
  const auto members = team(2, size(1, 2));
  Told told(*members[1]);
  members[0]->notify({.preempt = true, .ranks = {1}, .left = 30s, .reason = "spot instance"});
  const GroupState state = told.wait([](const GroupState& s) { return !s.notices.empty(); });
  EXPECT_TRUE(state.notices[0].preempt);
  EXPECT_EQ(state.notices[0].ranks, std::vector<std::uint32_t>{1});
  EXPECT_GT(state.notices[0].left, 20s);
  members[1]->acknowledge(state.notices[0].number);
  members[1]->leave("preempted");
  EXPECT_EQ(members[0]->next().size, 1u);
}

TEST_F(MembershipTest, WhoBreaksItsPromiseOfProgressIsNamed) {
  const auto members = team(2, size(2, 2));
  Told told(*members[0]);
  members[1]->progress("backward", 12, 200ms);
  const GroupState state = told.wait([](const GroupState& s) { return !s.stalled.empty(); });
  EXPECT_EQ(state.stalled, std::vector<std::uint32_t>{1});
  members[1]->progress("forward", 13, 60s);
  told.wait([](const GroupState& s) {
    return s.stalled.empty() && s.phase == GroupState::Phase::formed;
  });
  EXPECT_FALSE(members[0]->state().ended(1));
}

/// What all but these two are told at a barrier.
std::vector<TimedOut> hold_back(const std::vector<MembershipPtr>& members, std::uint32_t one,
                                std::uint32_t other, const std::string& barrier) {
  std::vector<std::future<TimedOut>> waits;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    if (rank == one || rank == other) continue;
    waits.push_back(std::async(std::launch::async, [&, rank]() -> TimedOut {
      try {
        members[rank]->barrier(barrier, 5s);
      } catch (const TimedOut& error) {
        return error;
      }
      throw std::runtime_error("released");
    }));
  }
  std::vector<TimedOut> told;
  for (auto& wait : waits) told.push_back(wait.get());
  return told;
}

TEST_F(MembershipTest, TwoHeldBackOf512AreNamedToAllAndInTheLog) {
  const auto members = team(512, size(512, 512));
  std::vector<TimedOut> told;
  for (int round = 0; round < 5; ++round) {
    const test::Canary canary;
    told = hold_back(members, 17, 442, "epoch " + std::to_string(round));
    if (canary.longest_gap() < 500ms) break;  // else a client may have ended its wait by itself
  }
  const std::string first = told.at(0).what();
  EXPECT_NE(first.find("2 of 512 ranks missing: [17,442]; rank 17 on host-"), std::string::npos)
      << first;
  for (const TimedOut& error : told) {
    ASSERT_EQ(error.missing().size(), 2u) << error.what();
    EXPECT_EQ(error.missing()[0].host, members[0]->members()[17].host);
    EXPECT_EQ(error.missing()[1].rank, 442u);
    EXPECT_EQ(error.what(), first);
  }
  std::ifstream file(log());
  const std::string logged{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(logged.find("event=barrier_timed_out job=job detail=" + quoted_text(first)),
            std::string::npos);
}

TEST_F(MembershipTest, AStoppedMemberIsSilentAndComesBackAsALatecomer) {
  const RendezvousOptions options = with_ttl(2500ms, size(1, 2));
  const pid_t child = member_process(options);
  const MembershipPtr other = connect()->rendezvous(options);
  await_ready();
  Told told(*other);
  const test::Canary canary;
  const auto begin = Clock::now();
  ::kill(child, SIGSTOP);
  const GroupState state =
      told.wait([](const GroupState& s) { return s.phase == GroupState::Phase::broken; });
  const auto after = Clock::now() - begin;
  EXPECT_GT(after, 1s);
  EXPECT_LT(after, 3500ms + canary.longest_gap());
  EXPECT_NE(state.reason.find("is lost: silent for "), std::string::npos) << state.reason;
  EXPECT_EQ(other->next().size, 1u);
  ::kill(child, SIGCONT);
  std::this_thread::sleep_for(300ms);
  if (canary.longest_gap() < 500ms) {  // a longer one may have ended it
    EXPECT_FALSE(other->state().ended(2)) << "it is alive again, and no member";
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// Marin 7430: one lost connection of a follower ends nothing.
TEST_F(MembershipTest, ALostConnectionThatComesBackIsNoLoss) {
  test::FaultyLink link(daemon_.address());
  RendezvousOptions options = size(2, 2);
  options.grace = 3s;
  auto far = std::async(std::launch::async, [&] {
    return Client::connect("c10dd://" + link.address() + "/job")->rendezvous(options);
  });
  const MembershipPtr near = connect()->rendezvous(options);
  const MembershipPtr member = far.get();
  for (int round = 0; round < 3; ++round) {
    link.set(test::FaultyLink::Mode::cut);
    std::this_thread::sleep_for(100ms);
    link.set(test::FaultyLink::Mode::pass);
    auto meets = std::async(std::launch::async, [&] { near->barrier("still", 20s); });
    member->barrier("still", 20s);
    meets.get();
  }
  Told told(*member);
  near->finish();
  told.wait([](const GroupState& state) { return state.finished.size() == 1; });
  EXPECT_EQ(member->generation().number, 1u);
}

// A paused process is not a dead one, on either side of the line.
TEST_F(MembershipTest, APausedDaemonLosesNobody) {
  const auto members = team(3, with_ttl(2500ms, size(3, 3)));
  ::kill(daemon_.pid(), SIGSTOP);
  std::this_thread::sleep_for(6s);
  ::kill(daemon_.pid(), SIGCONT);
  std::this_thread::sleep_for(1s);
  std::vector<std::future<Generation>> next;
  for (const MembershipPtr& member : members) {
    EXPECT_TRUE(member->state().lost.empty()) << member->state().reason;
    EXPECT_TRUE(member->state().fenced) << "but it could not know";
    next.push_back(std::async(std::launch::async, [member] { return member->next(); }));
  }
  for (auto& one : next) EXPECT_EQ(one.get().size, 3u);
}

TEST_F(MembershipTest, AForkedChildMayLetGoOfIt) {
  auto member = connect()->rendezvous(size(1, 1));
  auto told = std::make_unique<Told>(*member);
  std::this_thread::sleep_for(200ms);  // its threads wait
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(10);
    told.reset();
    member.reset();  // the threads and the place are the parent's
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(member->next().size, 1u);
}

// PyTorch 118891: the coordinator dies while the members say that they are done.
TEST_F(MembershipTest, TheDaemonMayDieAtTheVeryEnd) {
  const auto members = team(2, size(2, 2));
  daemon_.stop(SIGKILL);
  auto one = std::async(std::launch::async, [&] { members[0]->finish(); });
  auto other = std::async(std::launch::async, [&] { members[1]->finish(); });
  std::this_thread::sleep_for(500ms);
  daemon_.start();
  one.get();
  other.get();
  Told told(*members[0]);
  told.wait([](const GroupState& state) { return state.phase == GroupState::Phase::finished; });
}

TEST_F(MembershipTest, BadOptionsAreRefused) {
  const auto client = connect();
  EXPECT_THROW(client->rendezvous(size(3, 2)), InvalidArgument);
  EXPECT_THROW(client->rendezvous(size(0, 2)), InvalidArgument);
  RendezvousOptions options = size(1, 1);
  options.labels["k"] = std::string(5000, 'x');
  EXPECT_THROW(client->rendezvous(options), Error);
}

TEST_F(MembershipTest, ARendezvousThatTimedOutSaysHowManyAreMissing) {
  RendezvousOptions options = size(3, 4);
  options.timeout = 200ms;
  try {
    connect()->rendezvous(options);
    FAIL() << "there are no others";
  } catch (const TimedOut& error) {
    ASSERT_EQ(error.missing().size(), 2u) << error.what();
    EXPECT_EQ(error.missing()[0].rank, 1u);
    EXPECT_EQ(error.missing()[1].cause, "never_connected");
  }
}

TEST_F(MembershipTest, TheLaunchersRankIsClaimedWhereTheGroupIsItsWorld) {
  const auto join = [&](std::int64_t rank, std::uint32_t min) {
    return std::async(std::launch::async, [=, this] {
      ClientOptions options;
      options.rank = rank;
      options.world_size = 3;
      options.host = "host-" + std::to_string(2 - rank);  // by host the ranks would be others
      return Client::connect(url(), options)->rendezvous(size(min, 3));
    });
  };
  std::vector<std::future<MembershipPtr>> joining;
  for (const std::int64_t rank : {2, 0, 1}) joining.push_back(join(rank, 3));
  for (auto& one : joining) {
    const MembershipPtr member = one.get();
    EXPECT_EQ(member->rank(), member->client()->rank());
    EXPECT_EQ(member->size(), 3u);
  }
}

}  // namespace
}  // namespace c10dd
