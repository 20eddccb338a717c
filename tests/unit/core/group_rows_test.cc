// SPDX-License-Identifier: Apache-2.0
// Rows of a group that do not fit together: a restart refuses them and says which group it is.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>

#include "daemon/core/job/job.h"
#include "daemon/core/row_key.h"
#include "protocol/fields.h"

namespace c10dd::core {
namespace {

using RowMap = std::map<Bytes, Bytes>;
using Phase = GroupPhase;
using State = GroupMember::State;

Join join_of(std::uint32_t min, std::uint32_t max) {
  Join join;
  join.group = "dp/0";
  join.policy.min = min;
  join.policy.max = max;
  join.timeout = std::chrono::hours(1);
  return join;
}

/// A job that has a group, and what a restart finds of it.
class Story {
 public:
  explicit Story(std::uint64_t sessions) {
    for (std::uint64_t i = 1; i <= sessions; ++i) {
      Hello hello;
      hello.session = id(i);
      hello.host = "h" + std::to_string(i);
      take(job_->apply(from(i), {}, hello, TimePoint{}));
    }
  }

  static SessionId id(std::uint64_t i) { return {1, i}; }

  Story& ask(std::uint64_t i, const Request& request) {
    ++sequence_;
    take(job_->apply(from(i), {sequence_, sequence_, sequence_, 0}, request, TimePoint{}));
    return *this;
  }

  /// Changes the only, or the n-th, row of this kind: a GroupFacts, GroupMember or MemberList.
  template <class T, class F>
  Story& edit(char kind, F&& f, std::size_t n = 0) {
    Bytes& value = at(kind, n)->second;
    T row = wire::decode<T>(value).value();
    f(row);
    value = wire::encode(row);
    return *this;
  }
  template <class F>
  Story& facts(F&& f) {
    return edit<GroupFacts>('g', f);
  }
  template <class F>
  Story& member(F&& f, std::size_t n = 0) {
    return edit<GroupMember>('m', f, n);
  }
  template <class F>
  Story& list(F&& f) {
    return edit<MemberList>('l', f);
  }
  Story& drop(char kind, std::size_t n = 0) {
    rows_.erase(at(kind, n));
    return *this;
  }
  Story& add(const Bytes& key, const Bytes& value) {
    rows_[key] = value;
    return *this;
  }

  /// Returns why a restart refuses the rows; empty if it accepts them.
  std::string refusal() const {
    Job job(1, {1, 2, job_->revision()}, {});
    for (const auto& [key, value] : rows_) {
      const auto taken = job.restore({Row::Kind::put, key, value});
      if (!taken) return text(taken.error());
    }
    const auto resumed = job.resume(TimePoint{});
    return resumed ? "" : text(resumed.error());
  }

 private:
  static Origin from(std::uint64_t i) { return {id(i), i}; }
  static std::string text(const Failure& failure) {
    return (failure.code == Code::malformed ? "malformed: " : "another code: ") + failure.detail;
  }

  RowMap::iterator at(char kind, std::size_t n) {
    return std::next(rows_.lower_bound(Bytes(1, kind)), static_cast<std::ptrdiff_t>(n));
  }
  void take(const Effects& effects) {
    for (const RowView& row : effects.rows) {
      if (row.kind == Row::Kind::put) rows_[Bytes(row.key)] = row.value;
      if (row.kind == Row::Kind::erase) rows_.erase(Bytes(row.key));
    }
  }

  std::unique_ptr<Job> job_ = std::make_unique<Job>(1, Stamp{1, 1, 0});
  RowMap rows_;
  std::uint64_t sequence_ = 0;
};

/// Two members in the generation, a third that waits, and a notice that names the second.
Story formed() {
  Story story(3);
  story.ask(1, join_of(2, 2)).ask(2, join_of(2, 2)).ask(3, join_of(2, 2));
  story.ask(1, Notify{"dp/0", Notice::Kind::drain, {1}, "", std::chrono::seconds(9), "why"});
  return story;
}

/// Nobody has a place yet.
Story forming() { return std::move(Story(2).ask(1, join_of(3, 3)).ask(2, join_of(3, 3))); }

void expect_refused(const Story& story, const std::string& why) {
  const std::string text = story.refusal();
  EXPECT_EQ(text.find("malformed: "), 0U) << "[" << text << "] instead of: " << why;
  EXPECT_NE(text.find("group \"dp/0\""), text.npos) << text;
  EXPECT_NE(text.find(why), text.npos) << text;
}

TEST(GroupRowsTest, WhatItWroteIsTaken) {
  EXPECT_EQ(formed().refusal(), "");
  EXPECT_EQ(forming().refusal(), "");
  const Leave finish{"dp/0", 0, Leave::Kind::finish, ""};
  EXPECT_EQ(formed().ask(2, Acknowledge{"dp/0", 1}).refusal(), "");
  EXPECT_EQ(formed().ask(2, Leave{"dp/0", 0, Leave::Kind::fail, "nan"}).refusal(), "");
  EXPECT_EQ(formed().ask(1, finish).refusal(), "");
  EXPECT_EQ(formed().ask(1, finish).ask(1, join_of(2, 2)).refusal(), "");
  EXPECT_EQ(formed().ask(1, finish).ask(1, join_of(2, 2)).ask(2, finish).refusal(), "");
  EXPECT_EQ(forming().ask(1, finish).refusal(), "") << "it had no place";
}

/// A member that is alone may change the policy. Until the next round, the list has the old policy.
TEST(GroupRowsTest, AListMayBeOlderThanThePolicy) {
  const Leave finish{"dp/0", 0, Leave::Kind::finish, ""};
  for (const bool quorum : {false, true}) {
    Join alone = join_of(2, 2);
    alone.round = 1;
    alone.policy.quorum = quorum;
    Story story(3);
    for (const std::uint64_t i : {1, 2, 3}) story.ask(i, join_of(3, 3));
    EXPECT_EQ(story.ask(2, finish).ask(3, finish).ask(1, alone).refusal(), "");
  }
}

TEST(GroupRowsTest, ItsOwnRow) {
  const auto refused = [](const auto& edit, const char* why) {
    Story story = formed();
    expect_refused(story.facts(edit), why);
  };
  expect_refused(formed().drop('g'), "its own row is missing");
  refused([](GroupFacts& g) { g.policy.min = 0; }, "min must be from 1");
  refused([](GroupFacts& g) { g.policy.min = 3; }, "min must be from 1 to max");
  refused([](GroupFacts& g) { g.policy.max = limits::kWorldSize + 1; }, "max at most");
  refused([](GroupFacts& g) { g.policy.ttl = Duration(-1); }, "last_call, ttl and grace");
  refused([](GroupFacts& g) { g.policy.grace = limits::kTimeoutMax + Duration(1); }, "grace");
  refused([](GroupFacts& g) { g.phase = static_cast<Phase>(4); }, "unknown phase");
  refused([](GroupFacts& g) { g.last_call_left = Duration(-1); }, "an invalid last call");
  refused([](GroupFacts& g) { g.last_call_left = limits::kTimeoutMax + Duration(1); },
          "an invalid last call");
  refused([](GroupFacts& g) { g.status = 1'000; },
          "the status has revision 1000, but the job is at revision");
  refused([](GroupFacts& g) { g.generation = 2; }, "round 1, generation 2");
  refused([](GroupFacts& g) { g.failures = 2; }, "failures 2");
  refused([](GroupFacts& g) { g.policy.min = g.policy.max = 1; },
          "2 members, but min is 1 and max is 1");
  refused([](GroupFacts& g) { g.policy.min = g.policy.max = 3; },
          "2 members, but min is 3 and max is 3");
  refused([](GroupFacts& g) { g.phase = Phase::finished; }, "but a member has not");
  Story early = forming();
  expect_refused(early.facts([](GroupFacts& g) { g.phase = Phase::formed; }),
                 "a generation without members");
}

TEST(GroupRowsTest, ItsMembers) {
  const auto refused = [](const auto& edit, const char* why, std::size_t n = 0) {
    Story story = formed();
    expect_refused(story.member(edit, n), why);
  };
  const auto ended = [](GroupMember& m) {
    m.state = State::lost;
    m.asked = false;
  };
  refused([](GroupMember& m) { m.state = static_cast<State>(4); }, "malformed member row");
  refused([](GroupMember& m) { m.joined = 0; }, "malformed member row");
  refused([](GroupMember& m) { m.time_left = Duration(-1); }, "malformed member row");
  refused([](GroupMember& m) { m.asked = false; }, "malformed member row");
  refused([](GroupMember& m) { m.state = State::left; }, "malformed member row");
  refused([](GroupMember& m) { m.host.assign(256, 'h'); }, "malformed member row");
  refused([](GroupMember& m) { m.joined = 1'000; }, "a member joined at revision 1000");
  refused([](GroupMember& m) { m.asked_in = 2; }, "asked to join in round 2, but the newest is 1");
  refused([](GroupMember& m) { m.joined = 2; }, "two members have joined at the same revision");
  refused(ended, "the rank of a member that has ended is missing", 2);
  expect_refused(formed().drop('m'), "the member list has an unknown session");
  Story all = formed();
  all.facts([](GroupFacts& g) { g.notices.clear(); });
  expect_refused(all.member(ended).member(ended, 1),
                 "a formed generation has no member that is alive");
  const Bytes nobody = RowKey('m').text("dp/0").number(0).number(0).take();
  expect_refused(formed().add(nobody, wire::encode(GroupMember{})), "malformed member row");
}

TEST(GroupRowsTest, ClaimedRanks) {
  const auto request = [](std::int64_t rank) {
    return [rank](GroupMember& m) { m.requested_rank = rank; };
  };
  EXPECT_EQ(forming().member(request(1)).member(request(0), 1).refusal(), "");
  expect_refused(forming().member(request(1)), "only some members request a rank");
  expect_refused(forming().member(request(1)).member(request(1), 1),
                 "two members request the same rank");
  expect_refused(forming().member(request(3)), "a member requests rank 3, which");
  expect_refused(forming().member([](GroupMember& m) { m.requested_rank = m.spare = true; }),
                 "a member requests rank 1, which");
  Story wide = forming();
  expect_refused(wide.member(request(1)).facts([](GroupFacts& g) { g.policy.max = 4; }),
                 "a member requests rank 1, which");
}

TEST(GroupRowsTest, ItsList) {
  const auto refused = [](const auto& edit, const char* why) {
    Story story = formed();
    expect_refused(story.list(edit), why);
  };
  expect_refused(formed().drop('l'), "0 members, but the round is 1");
  refused([](MemberList& l) { l.sessions.pop_back(); }, "the member list cannot be read");
  refused([](MemberList& l) { l.offsets[0] = 1; }, "the member list cannot be read");
  refused([](MemberList& l) { l.offsets[1] = 0; }, "the member list cannot be read");
  refused([](MemberList& l) { l.offsets[1] += 1; }, "the member list cannot be read");
  refused([](MemberList& l) { l.offsets[1] = 1'000'000; }, "the member list cannot be read");
  refused([](MemberList& l) { l.encoded.pop_back(); }, "the member list cannot be read");
  refused([](MemberList& l) { l.encoded[4] = 1; }, "the member list cannot be read");
  refused([](MemberList& l) { l.sessions[1] = l.sessions[0]; }, "a member has two ranks");
  refused([](MemberList& l) { std::swap(l.sessions[0], l.sessions[1]); },
          "the member list does not match its digest");
  const auto stranger = [](MemberList& l) {
    l.sessions[1] = Story::id(9);
    l.digest = digest_of(l.sessions);
  };
  refused(stranger, "the member list has an unknown session");
  Story early = forming();
  expect_refused(
      early.add(group_key('l', "dp/0"), wire::encode(MemberList{{Story::id(1)}, {0}, 0, ""})),
      "the member list cannot be read");
}

TEST(GroupRowsTest, ItsNotices) {
  const auto refused = [](const auto& edit, const char* why) {
    Story story = formed();
    expect_refused(story.facts([&](GroupFacts& g) { edit(g.notices[0]); }), why);
  };
  const auto too_many = [](GroupFacts& g) {
    while (g.notices.size() <= limits::kNotices) {
      StoredNotice next;
      next.number = ++g.notices_made;
      g.notices.push_back(std::move(next));
    }
  };
  refused([](StoredNotice& n) { n.number = 0; }, "notice number 0 is invalid, 1 notices were made");
  refused([](StoredNotice& n) { n.number = 2; }, "notice number 2 is invalid");
  refused([](StoredNotice& n) { n.kind = static_cast<Notice::Kind>(2); },
          "notice 1 has an invalid kind");
  refused([](StoredNotice& n) { n.deadline = Duration(-1); }, "notice 1 has an invalid kind");
  refused([](StoredNotice& n) { n.time_left = Duration(-1); }, "notice 1 has an invalid kind");
  refused([](StoredNotice& n) { n.deadline = Duration::max(); }, "notice 1 has an invalid kind");
  const auto refused_of = [](std::size_t n, const auto& edit, const char* why) {
    Story story = formed();
    expect_refused(story.member([&](GroupMember& m) { edit(m); }, n), why);
  };
  constexpr std::size_t kNamed = 1;
  refused_of(
      kNamed, [](GroupMember& m) { m.notices.clear(); }, "notice 1 names no member");
  refused_of(
      kNamed, [](GroupMember& m) { m.notices.push_back(m.notices[0]); }, "or is out of order");
  refused_of(
      kNamed, [](GroupMember& m) { m.notices[0].number = 2; }, "notice 2, which does not exist");
  const auto ended = [](GroupMember& m) {
    m.state = State::lost;
    m.asked = false;
  };
  refused_of(kNamed, ended, "a notice names a member that has ended");
  expect_refused(formed().facts(too_many), "too many notices");
  expect_refused(formed().facts([](GroupFacts& g) {
    StoredNotice again;
    again.number = g.notices.back().number;
    g.notices.push_back(std::move(again));
    g.notices_made = 2;
  }),
                 "notice number 1 is invalid");
}

TEST(GroupRowsTest, BytesThatAreNoRow) {
  for (const char kind : {'g', 'm', 'l'}) {
    Bytes key = group_key(kind, "dp/0");
    if (kind == 'm') key = member_key("dp/0", Story::id(1));
    const std::string text = formed().add(key, Bytes(7, '\xFF')).refusal();
    EXPECT_EQ(text,
              "malformed: damaged row of kind '" + std::string(1, kind) + "' of group \"dp/0\"");
    EXPECT_NE(formed().add(key + "x", "").refusal(), "");
  }
  EXPECT_NE(formed().add(group_key('g', ""), wire::encode(GroupFacts{})).refusal(), "");
  EXPECT_NE(formed().add(group_key('g', std::string(256, 'g')), "").refusal(), "");
}

}  // namespace
}  // namespace c10dd::core
