// SPDX-License-Identifier: Apache-2.0
// Tests a membership over a daemon that refuses, is silent, tells old news or lies about the
// members.
#include "client/membership.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "protocol/fields.h"
#include "protocol/group_ops.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/comes_true.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeReply;

constexpr auto kPatience = 60s;

/// A daemon with one group, in which this process is rank 1 of 2.
class FakeGroup {
 public:
  /// How the daemon treats the requests of an operation.
  enum class Treats : std::uint8_t { well, refuses, ignores };

  std::string url() const { return "c10dd://" + daemon_.address() + "/job"; }

  void treat(std::uint8_t op, Treats how) {
    const std::lock_guard lock(mutex_);
    how_[op] = how;
  }
  int asked(std::uint8_t op) const {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(op);
    return found == asked_.end() ? 0 : found->second;
  }
  Leave newest_leave() const {
    const std::lock_guard lock(mutex_);
    return leave_;
  }
  /// Tells this status to the watch that waits now, or to the next one.
  void tell(GroupStatus status) {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(status));
  }
  /// The member list is cut into pages of so many members, of which the last byte is missing if
  /// `damaged`.
  void pages_of(std::uint32_t members, bool damaged = false) {
    const std::lock_guard lock(mutex_);
    page_ = members;
    damaged_ = damaged;
  }

 private:
  std::optional<FakeReply> reply(const Sent& asked) {
    const std::lock_guard lock(mutex_);
    const std::uint8_t op = asked.header.op;
    ++asked_[op];
    std::string before;  // the reply to a watch, which comes with the next reply
    if (watch_ && !news_.empty() && op != Hello::op.code) {
      before = reply_to(*watch_, ReplyBody(news_.front()));
      news_.erase(news_.begin());
      watch_.reset();
    }
    const Treats how = how_[op];
    if (how == Treats::ignores) return FakeReply{before};
    if (how == Treats::refuses) {
      return FakeReply{before + reply_to(asked, failure(Code::invalid_argument, "refused"))};
    }
    if (op == WatchGroup::op.code) {
      watch_.emplace(asked);
      return FakeReply{before};
    }
    if (op == Join::op.code) return FakeReply{before + reply_to(asked, ReplyBody(joined()))};
    if (op == ReadMembers::op.code) {
      return FakeReply{before +
                       reply_to(asked, ReplyBody(page(std::get<ReadMembers>(asked.request))))};
    }
    if (op == Leave::op.code) leave_ = std::get<Leave>(asked.request);
    if (op == Hello::op.code) return std::nullopt;
    return FakeReply{before + reply_to(asked, ReplyBody(Done{}))};
  }

  Joined joined() {
    Joined joined;
    joined.round = joined.generation = ++round_;
    joined.rank = 1;
    joined.size = 2;
    joined.status = 10 * round_;
    joined.reason = "the members have come";
    return joined;
  }

  MemberPage page(const ReadMembers& asked) const {
    MemberPage page;
    page.size = 2;
    page.first = asked.first;
    Bytes list;
    for (Rank rank = asked.first; rank < std::min<Rank>(asked.first + page_, 2); ++rank) {
      MemberInfo member;
      member.rank = rank;
      member.host = "node" + std::to_string(rank);
      const Bytes encoded = wire::encode(member);
      wire::Writer writer(list);
      writer.put(static_cast<std::uint32_t>(encoded.size()));
      list += encoded;
      ++page.count;
    }
    if (damaged_ && !list.empty()) list.pop_back();
    const std::size_t size = list.size();
    page.list = {std::make_shared<const Bytes>(std::move(list)), 0, size};
    return page;
  }

  mutable std::mutex mutex_;
  std::map<std::uint8_t, Treats> how_;
  std::map<std::uint8_t, int> asked_;
  std::vector<GroupStatus> news_;
  std::optional<Sent> watch_;
  Leave leave_;
  std::uint64_t round_ = 0;
  std::uint32_t page_ = 2;
  bool damaged_ = false;
  FakeDaemon daemon_{[this](const Sent& asked) { return reply(asked); }};
};

using Treats = FakeGroup::Treats;

class MembershipOverFakes : public testing::Test {
 protected:
  std::shared_ptr<Membership> join(std::chrono::nanoseconds timeout = kPatience,
                                   std::chrono::nanoseconds ttl = 30s) {
    RendezvousOptions options;
    options.min = options.max = 2;
    options.ttl = ttl;
    options.timeout = timeout;
    return client_->rendezvous(options);
  }
  /// Sends requests, each of which brings a status, until the member knows this one.
  static bool hears(Membership& member, const std::string& reason) {
    return comes_true([&] {
      member.progress("train", 1);
      return member.state().reason == reason;
    });
  }
  static GroupStatus status(std::uint64_t number, GroupPhase phase, const std::string& reason) {
    GroupStatus status;
    status.number = number;
    status.round = status.generation = 1;
    status.size = 2;
    status.phase = phase;
    status.reason = reason;
    return status;
  }

  FakeGroup group_;
  std::shared_ptr<Client> client_ = Client::connect(group_.url());
};

TEST_F(MembershipOverFakes, LeavesWhenItIsDestroyedUnlessItHasLeft) {
  join().reset();
  EXPECT_EQ(group_.asked(Leave::op.code), 1);
  const auto member = join();
  member->finish("done");
  EXPECT_EQ(group_.newest_leave().kind, Leave::Kind::finish);
  EXPECT_EQ(group_.newest_leave().detail, "done");
  EXPECT_EQ(group_.asked(Leave::op.code), 2);
}

TEST_F(MembershipOverFakes, ALeaveThatWasRefusedHasNotLeft) {
  auto member = join();
  group_.treat(Leave::op.code, Treats::refuses);
  EXPECT_THROW(member->leave("maintenance"), InvalidArgument);
  group_.treat(Leave::op.code, Treats::well);
  member.reset();
  EXPECT_EQ(group_.asked(Leave::op.code), 2) << "it leaves at its end";
}

TEST_F(MembershipOverFakes, AJoinIsWithdrawnIfItsReplyHasNotComeAndOnlyThen) {
  group_.treat(Join::op.code, Treats::refuses);
  EXPECT_THROW(join(), InvalidArgument);
  EXPECT_EQ(group_.asked(Leave::op.code), 0);
  group_.treat(Join::op.code, Treats::ignores);
  EXPECT_THROW(join(1ms), TimedOut);
  EXPECT_TRUE(comes_true([&] { return group_.asked(Leave::op.code) == 1; }));
  group_.treat(Join::op.code, Treats::well);
  EXPECT_EQ(join()->rank(), 1u);
}

TEST_F(MembershipOverFakes, TellsEachNewStatusOnceAndNoOldOne) {
  const auto member = join();
  std::mutex mutex;
  std::vector<std::string> heard;
  auto listening = member->on_change([&](const GroupState& state) {
    const std::lock_guard lock(mutex);
    heard.push_back(state.reason);
  });
  group_.tell(status(9, GroupPhase::broken, "old"));
  group_.tell(status(11, GroupPhase::formed, "a newcomer"));
  group_.tell(status(11, GroupPhase::formed, "the same"));
  group_.tell(status(12, GroupPhase::broken, "rank 0 is lost"));
  EXPECT_TRUE(hears(*member, "rank 0 is lost"));
  EXPECT_TRUE(member->state().ended(1));
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(heard,
              (std::vector<std::string>{"the members have come", "a newcomer", "rank 0 is lost"}));
  }
  listening.reset();
  group_.tell(status(13, GroupPhase::formed, "after its end"));
  EXPECT_TRUE(hears(*member, "after its end"));
  EXPECT_EQ(heard.size(), 3u);
}

TEST_F(MembershipOverFakes, ShowsEachNoticeAsTheDaemonHasIt) {
  const auto member = join();
  GroupStatus warned = status(11, GroupPhase::formed, "two notices");
  warned.notices = {{.number = 4,
                     .kind = Notice::Kind::preempt,
                     .ranks = {{0, 1}},
                     .left = 30s,
                     .reason = "spot",
                     .acknowledged = {}},
                    {.number = 5,
                     .kind = Notice::Kind::drain,
                     .ranks = {{1, 1}},
                     .left = 0s,
                     .reason = "upgrade",
                     .acknowledged = {}}};
  group_.tell(warned);
  ASSERT_TRUE(hears(*member, "two notices"));
  const auto notices = member->state().notices;
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].number, 4U);
  EXPECT_TRUE(notices[0].preempt);
  EXPECT_EQ(notices[0].ranks, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(notices[0].left, 30s);
  EXPECT_EQ(notices[0].reason, "spot");
  EXPECT_FALSE(notices[1].preempt);
  EXPECT_EQ(notices[1].ranks, std::vector<std::uint32_t>{1});
}

TEST_F(MembershipOverFakes, WatchesAgainAfterAWatchThatWasRefused) {
  group_.treat(WatchGroup::op.code, Treats::refuses);
  const auto member = join();
  EXPECT_TRUE(comes_true([&] { return group_.asked(WatchGroup::op.code) >= 3; }));
  group_.treat(WatchGroup::op.code, Treats::well);
  group_.tell(status(11, GroupPhase::broken, "rank 0 is lost"));
  EXPECT_TRUE(hears(*member, "rank 0 is lost"));
}

TEST_F(MembershipOverFakes, ReadsTheMembersOnceForEachGeneration) {
  group_.pages_of(1);
  const auto member = join();
  const std::vector<Member> members = member->members();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[1].host, "node1");
  EXPECT_EQ(group_.asked(ReadMembers::op.code), 2) << "two pages";
  EXPECT_EQ(member->members().size(), 2u);
  EXPECT_EQ(group_.asked(ReadMembers::op.code), 2);
  EXPECT_EQ(member->next().number, 2u);
  member->members();
  EXPECT_EQ(group_.asked(ReadMembers::op.code), 4);
}

TEST_F(MembershipOverFakes, RefusesAPageOfMembersThatIsDamagedOrEmpty) {
  const auto member = join();
  group_.pages_of(2, true);
  EXPECT_EQ(test::error_of([&] { member->members(); }).first, Code::malformed);
  group_.pages_of(0);
  EXPECT_EQ(test::error_of([&] { member->members(); }).first, Code::malformed);
  group_.pages_of(2);
  EXPECT_EQ(member->members().size(), 2u);
}

TEST_F(MembershipOverFakes, IsFencedWhileTheDaemonDoesNotReplyUntilItHasJoinedAgain) {
  const auto member = join(kPatience, 500ms);
  std::atomic<int> fences = 0;
  const auto listening =
      member->on_change([&](const GroupState& state) { fences += state.fenced; });
  for (int round = 1; round <= 2; ++round) {
    group_.treat(Ping::op.code, Treats::ignores);
    ASSERT_TRUE(comes_true([&] { return member->state().fenced; }));
    EXPECT_TRUE(member->state().ended(member->generation().number));
    EXPECT_NE(member->state().reason.find("the daemon has not replied for"), std::string::npos);
    group_.treat(Ping::op.code, Treats::well);
    ASSERT_TRUE(comes_true([&] { return group_.asked(Ping::op.code) > 0; }));
    EXPECT_TRUE(member->state().fenced) << "only a join ends it";
    member->next();
    EXPECT_FALSE(member->state().fenced);
    EXPECT_GE(fences, round);  // a machine that stands still fences it, too
  }
}

TEST_F(MembershipOverFakes, IsNotFencedOnceItHasLeft) {
  const auto member = join(kPatience, 500ms);
  member->leave("maintenance");
  group_.treat(Ping::op.code, Treats::ignores);
  const auto end = std::chrono::steady_clock::now() + 1s;
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_FALSE(member->state().fenced);
}

TEST_F(MembershipOverFakes, TwoThreadsJoinOneAfterTheOther) {
  const auto member = join();
  group_.treat(Join::op.code, Treats::ignores);
  auto first = std::async(std::launch::async, [&] { EXPECT_THROW(member->next(), Error); });
  EXPECT_TRUE(comes_true([&] { return group_.asked(Join::op.code) == 2; }));
  auto second = std::async(std::launch::async, [&] { EXPECT_THROW(member->next(), Error); });
  EXPECT_EQ(second.wait_for(200ms), std::future_status::timeout);
  EXPECT_EQ(group_.asked(Join::op.code), 2) << "the second waits for the first";
  client_->close();
  ASSERT_EQ(first.wait_for(kPatience), std::future_status::ready);
  ASSERT_EQ(second.wait_for(kPatience), std::future_status::ready);
}

}  // namespace
}  // namespace c10dd::client
