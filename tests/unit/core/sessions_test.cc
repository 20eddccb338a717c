// SPDX-License-Identifier: Apache-2.0
// Sessions at_ms their bounds, and their rows, which scripts do not see.
#include "daemon/core/sessions/sessions.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "daemon/core/row_key.h"
#include "protocol/fields.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

TimePoint at_ms(std::uint64_t ms) {
  return TimePoint(std::chrono::milliseconds(static_cast<std::int64_t>(ms)));
}

Hello hello(std::uint64_t n, std::int64_t rank = -1) {
  Hello h;
  h.session = {3, n};
  h.rank = rank;
  h.host = "host-" + std::to_string(n);
  return h;
}

StoredReply stored(Revision revision) { return {Set::op.code, 5, "body", revision}; }
Delivery delivery(Revision revision) { return {"queue", revision - 1, 2, 5, revision}; }

class World {
 public:
  explicit World(const Quotas& quotas = {}) : sessions(quotas) {}

  void open(const Hello& hello, std::uint64_t ms) {
    ASSERT_TRUE(sessions.check_open(hello));
    if (const auto surplus = sessions.surplus(hello)) close(*surplus, true);
    sessions.open(hello, {{}, hello.session.low}, 0, at_ms(ms), rows);
  }
  void close(const SessionId& id, bool remembered) {
    sessions.close(id, Ending::expired, remembered, 9, TimePoint{}, rows);
  }
  /// Keeps a reply, and appends the rows as a batch of their own.
  void keep(const SessionId& id, std::uint64_t sequence, auto what) {
    sessions.keep(id, *sessions.find(id), sequence, std::move(what), rows);
    sessions.append_reply_rows(rows);
  }
  std::vector<Delivery> acknowledge(const SessionId& id, std::uint64_t below) {
    return sessions.acknowledge(id, *sessions.find(id), below);
  }

  /// Restores the rows as the next daemon would do.
  std::unique_ptr<Sessions> restart(const Quotas& quotas = {}) {
    std::map<Bytes, Bytes> table;
    for (const Row& row : rows) {
      table.erase(row.key);
      if (row.kind == Row::Kind::put) table[row.key] = row.value;
    }
    auto next = std::make_unique<Sessions>(quotas);
    for (const auto& [key, value] : table) {
      EXPECT_TRUE(Sessions::owns({Row::Kind::put, key, value}));
      EXPECT_TRUE(next->restore({Row::Kind::put, key, value}));
    }
    EXPECT_TRUE(next->drop_ended());
    next->resume(at_ms(0));
    return next;
  }

  const Session* of_rank(Rank rank) const {
    const SessionId* id = sessions.id_of_rank(rank);
    return id == nullptr ? nullptr : sessions.find(*id);
  }

  Sessions sessions;
  Rows rows;
};

TEST(Sessions, GiveUpTheOneThatWouldEndNextToMakeRoom) {
  Quotas quotas;
  quotas.sessions = 3;
  World world(quotas);
  for (std::uint64_t i = 1; i <= 3; ++i) world.open(hello(i), 0);
  EXPECT_EQ(world.sessions.check_open(hello(9)).error().code, Code::quota_exceeded);
  EXPECT_TRUE(world.sessions.check_open(hello(2)));
  world.sessions.disconnect({3, 1}, at_ms(30));
  world.sessions.disconnect({3, 2}, at_ms(20));
  EXPECT_EQ(world.sessions.surplus(hello(1)), std::nullopt);
  EXPECT_EQ(world.sessions.surplus(hello(9)), (SessionId{3, 2}));
  world.open(hello(9), 40);
  EXPECT_EQ(world.sessions.find({3, 2}), nullptr);
  world.open(hello(1), 50);
  EXPECT_EQ(world.sessions.check_open(hello(10)).error().code, Code::quota_exceeded);
  EXPECT_EQ(world.sessions.connected(), 3u);
}

TEST(Sessions, EndAfterTheirTimeWithoutAConnection) {
  World world;
  Hello brief = hello(1);
  brief.expiry = std::chrono::seconds(2);
  world.open(brief, 0);
  world.open(hello(2), 0);
  EXPECT_EQ(world.sessions.next_deadline(), std::nullopt);
  world.sessions.disconnect({3, 2}, at_ms(0));
  world.sessions.disconnect({3, 1}, at_ms(500));
  world.sessions.disconnect({3, 1}, at_ms(900));  // it is away already
  EXPECT_EQ(world.sessions.next_deadline(), at_ms(2'500));
  EXPECT_TRUE(world.sessions.due(at_ms(2'499), 10).empty());
  EXPECT_EQ(world.sessions.due(at_ms(2'500), 10), (std::vector<SessionId>{{3, 1}}));
  EXPECT_EQ(world.sessions.due(at_ms(1'000'000), 1), (std::vector<SessionId>{{3, 1}}));
  world.open(brief, 2'400);
  EXPECT_EQ(world.sessions.due(at_ms(1'000'000), 10), (std::vector<SessionId>{{3, 2}}));
  world.close({3, 2}, false);
  EXPECT_EQ(world.sessions.next_deadline(), std::nullopt);
}

TEST(Sessions, KnowWhoIsWhichRankNow) {
  World world;
  world.open(hello(1, 4), 0);
  EXPECT_EQ(world.of_rank(4)->host, "host-1");
  world.open(hello(1, 5), 0);
  EXPECT_EQ(world.of_rank(4), nullptr);
  EXPECT_EQ(world.of_rank(5)->host, "host-1");
  world.open(hello(2, 5), 0);
  EXPECT_EQ(world.of_rank(5)->host, "host-2");
  world.close({3, 1}, false);
  EXPECT_EQ(world.of_rank(5)->host, "host-2");
  world.close({3, 2}, false);
  EXPECT_EQ(world.of_rank(5), nullptr);
  EXPECT_EQ(world.sessions.connected(), 0u);
}

TEST(Sessions, EraseTheRowsOfWhatWasAcknowledged) {
  World world;
  const SessionId id{3, 1};
  world.open(hello(1), 0);
  for (std::uint64_t n = 1; n <= 4; ++n) world.keep(id, n, stored(n));
  world.keep(id, 5, delivery(5));
  world.keep(id, 6, delivery(6));
  EXPECT_TRUE(world.acknowledge(id, 3).empty());
  EXPECT_EQ(world.sessions.garbage(), 2u);
  Rows garbage;
  world.sessions.take_garbage(garbage);
  EXPECT_EQ(garbage[0].key, world.rows[1].key);  // the first row is the session's
  EXPECT_EQ(garbage[1].key, world.rows[2].key);
  EXPECT_TRUE(world.acknowledge(id, 2).empty());
  EXPECT_EQ(world.sessions.find(id)->acked_below, 3u);
  const std::vector<Delivery> acked = world.acknowledge(id, 6);
  ASSERT_EQ(acked.size(), 1u);
  EXPECT_EQ(acked[0].item(), (ItemId{4, 2}));
  EXPECT_EQ(world.sessions.garbage(), 3u);
  EXPECT_EQ(world.sessions.find(id)->replies.size(), 0u);
  EXPECT_EQ(world.sessions.find(id)->deliveries.size(), 1u);
}

TEST(Sessions, ShareARowForTheRepliesOfABatch) {
  World world;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    world.open(hello(n), 0);
    world.sessions.keep({3, n}, *world.sessions.find({3, n}), 7, stored(n), world.rows);
  }
  world.sessions.append_reply_rows(world.rows);
  ASSERT_EQ(world.rows.size(), 4u);  // three sessions, one row of replies
  world.acknowledge({3, 1}, 8);
  world.close({3, 2}, false);
  EXPECT_EQ(world.sessions.garbage(), 0u);
  auto next = world.restart();
  EXPECT_EQ(next->find({3, 1})->replies.size(), 1u) << "until it is acknowledged again";
  EXPECT_EQ(next->find({3, 2}), nullptr) << "it had ended";
  EXPECT_EQ(next->find({3, 3})->replies.find(7)->second.revision, 3u);
  world.acknowledge({3, 3}, 8);
  Rows garbage;
  world.sessions.take_garbage(garbage);
  ASSERT_EQ(garbage.size(), 1u);
  EXPECT_EQ(garbage[0].key, world.rows[3].key);
}

TEST(Sessions, WriteNoRowForRepliesThatWereAcknowledgedInTheSameBatch) {
  World world;
  const SessionId id{3, 1};
  world.open(hello(1), 0);
  world.keep(id, 1, stored(1));
  const std::size_t before = world.rows.size();
  for (std::uint64_t n = 2; n <= 3; ++n) {
    world.sessions.keep(id, *world.sessions.find(id), n, stored(n), world.rows);
  }
  world.acknowledge(id, 4);
  world.sessions.append_reply_rows(world.rows);
  EXPECT_EQ(world.rows.size(), before);
  EXPECT_EQ(world.sessions.garbage(), 1u) << "the row of the first batch";
}

TEST(Sessions, LeaveNoRowOfALargeBatchThatWasAcknowledgedAtOnce) {
  World world;
  const SessionId id{3, 1};
  world.open(hello(1), 0);
  StoredReply large = stored(0);
  large.body = Bytes(limits::kStoredReplyBytes, 'x');
  for (std::uint64_t n = 1; n <= 600; ++n) {
    large.revision = n;
    world.sessions.keep(id, *world.sessions.find(id), n, StoredReply(large), world.rows);
  }
  world.acknowledge(id, 601);
  world.sessions.take_garbage(world.rows);
  world.sessions.append_reply_rows(world.rows);
  std::set<Bytes> left;
  std::size_t written = 0;
  for (const Row& row : world.rows) {
    if (row.key[0] != 'r') continue;
    written += row.kind == Row::Kind::put ? 1 : 0;
    if (row.kind == Row::Kind::put) left.insert(row.key);
    if (row.kind == Row::Kind::erase) left.erase(row.key);
  }
  EXPECT_GT(written, 1U) << "the batch was too small";
  EXPECT_TRUE(left.empty()) << left.size() << " rows are never erased";
}

TEST(Sessions, AreNotFoundAfterTheirEnd) {
  World world;
  world.open(hello(1), 0);
  ASSERT_NE(world.sessions.find({3, 1}), nullptr);
  world.close({3, 1}, false);
  EXPECT_EQ(world.sessions.find({3, 1}), nullptr);
  world.open(hello(2), 0);
  EXPECT_EQ(world.sessions.find({3, 1}), nullptr);
}

TEST(Sessions, HaveNothingOfAnEarlierOneWithTheSameId) {
  World world;
  for (std::uint64_t n = 1; n <= 2; ++n) world.open(hello(n), 0);
  for (std::uint64_t n = 1; n <= 2; ++n) {
    world.sessions.keep({3, n}, *world.sessions.find({3, n}), 7, stored(n), world.rows);
  }
  world.sessions.append_reply_rows(world.rows);
  world.close({3, 1}, false);
  world.open(hello(1), 1);
  world.keep({3, 1}, 8, stored(5));
  EXPECT_FALSE(world.restart()->find({3, 1})->replies.contains(7));
  world.keep({3, 1}, 7, stored(6));
  EXPECT_EQ(world.restart()->find({3, 1})->replies.find(7)->second.revision, 6u);
}

TEST(Sessions, LeaveNoRowBehind) {
  World world;
  Hello own = hello(1);
  own.expiry = std::chrono::seconds(5);
  world.open(own, 0);
  for (std::uint64_t n = 1; n <= 3; ++n) world.keep({3, 1}, n, stored(n));
  world.keep({3, 1}, 4, delivery(4));
  world.acknowledge({3, 1}, 2);
  own.expiry = std::chrono::seconds(0);
  world.open(own, 1);
  EXPECT_TRUE(world.sessions.withdraw({3, 1}, *world.sessions.find({3, 1}), 4, world.rows));
  EXPECT_FALSE(world.sessions.withdraw({3, 1}, *world.sessions.find({3, 1}), 4, world.rows));
  EXPECT_FALSE(world.sessions.withdraw({3, 1}, *world.sessions.find({3, 1}), 3, world.rows));
  world.close({3, 1}, false);
  EXPECT_EQ(world.sessions.garbage(), 0u);
  EXPECT_EQ(world.restart()->size(), 0u);
}

TEST(Sessions, ComeBackWithWhatWasKept) {
  World world;
  Hello own = hello(1);
  own.expiry = std::chrono::seconds(5);
  world.open(own, 0);
  world.keep({3, 1}, 7, stored(9));
  world.keep({3, 1}, 8, delivery(10));
  world.open(hello(2), 0);
  world.keep({3, 2}, 1, stored(11));
  Quotas shorter;
  shorter.session_expiry = std::chrono::seconds(3);
  const auto next = world.restart(shorter);
  EXPECT_EQ(next->connected(), 0u);
  EXPECT_EQ(next->find({3, 1})->replies.find(7)->second.revision, 9u);
  EXPECT_EQ(next->find({3, 1})->deliveries.at(8).item(), (ItemId{9, 2}));
  EXPECT_EQ(next->due(at_ms(3'000), 10), (std::vector<SessionId>{{3, 2}}));
  EXPECT_EQ(next->due(at_ms(5'000), 10), (std::vector<SessionId>{{3, 2}, {3, 1}}));
}

TEST(Sessions, ChangeTheirTimeForTheNextDaemonToo) {
  World world;
  Hello own = hello(1);
  own.expiry = std::chrono::seconds(5);
  world.open(own, 0);
  EXPECT_TRUE(world.rows.empty());  // no row yet: the session has nothing to keep
  world.keep({3, 1}, 1, stored(1));
  own.expiry = std::chrono::seconds(50);
  world.open(own, 1);
  EXPECT_EQ(world.restart()->next_deadline(), at_ms(50'000));
  own.expiry = std::chrono::seconds(0);
  world.open(own, 2);
  EXPECT_EQ(world.restart()->next_deadline(), TimePoint(limits::kSessionExpiry));
}

TEST(Sessions, RememberTheNewestThatHaveEnded) {
  World world;
  world.open(hello(1), 0);
  world.sessions.close({3, 1}, Ending::expired, true, 1, at_ms(0), world.rows);
  EXPECT_EQ(world.sessions.check_open(hello(1)).error().code, Code::session_expired);
  EXPECT_EQ(world.restart()->check_open(hello(1)).error().code, Code::session_expired);
  for (std::uint64_t i = 2; i <= limits::kExpiredKept + 1; ++i) {
    world.sessions.open(hello(i), {{}, i}, 0, at_ms(0), world.rows);
    world.sessions.close({3, i}, Ending::expired, true, i, at_ms(0), world.rows);
  }
  const std::unique_ptr<const Sessions> next = world.restart();
  for (const Sessions* sessions : {std::as_const(next).get(), &std::as_const(world.sessions)}) {
    EXPECT_TRUE(sessions->check_open(hello(1)));
    EXPECT_FALSE(sessions->check_open(hello(2)));
    EXPECT_FALSE(sessions->check_open(hello(limits::kExpiredKept + 1)));
  }
}

TEST(Sessions, RememberABoundedNumberOfRanksThatHaveLeft) {
  World world;
  const auto of_rank = [](std::uint64_t id, std::int64_t rank) {
    Hello one = hello(id);
    one.host = "host";
    one.rank = rank;
    return one;
  };
  world.open(of_rank(1, 9'999), 0);  // the launch goes on
  for (std::uint64_t i = 0; i <= limits::kDepartedKept; ++i) {
    world.open(of_rank(i + 2, static_cast<std::int64_t>(i)), 0);
    world.sessions.close({3, i + 2}, Ending::goodbye, false, i + 1, at_ms(0), world.rows);
  }
  const std::unique_ptr<const Sessions> next = world.restart();
  for (const Sessions* sessions : {std::as_const(next).get(), &std::as_const(world.sessions)}) {
    EXPECT_EQ(sessions->departed(0), nullptr) << "the oldest";
    ASSERT_NE(sessions->departed(1), nullptr);
    EXPECT_EQ(sessions->departed(1)->host, "host");
  }
  EXPECT_FALSE(next->departed(1)->at) << "rows hold no instants";
  // A replaced session has left nobody: its rank is there. Nor has an older session of a rank.
  world.open(of_rank(5'000, 1), 0);
  EXPECT_EQ(world.sessions.departed(1), nullptr);
  world.open(of_rank(5'001, 1), 0);
  world.sessions.close({3, 5'000}, Ending::goodbye, false, 5'000, at_ms(0), world.rows);
  EXPECT_EQ(world.sessions.departed(1), nullptr);
  EXPECT_EQ(world.restart()->departed(1), nullptr);
}

TEST(Sessions, AlwaysRememberThoseThatWereReplaced) {
  World world;
  world.open(hello(1), 0);
  world.sessions.close({3, 1}, Ending::replaced, false, 1, at_ms(0), world.rows);
  EXPECT_EQ(world.sessions.check_open(hello(1)).error().code, Code::session_replaced);
  EXPECT_EQ(world.restart()->check_open(hello(1)).error().code, Code::session_replaced);
}

TEST(Sessions, AreAwayForAWhileAndThenGone) {
  World world;
  const SessionId id{3, 1};
  EXPECT_EQ(world.sessions.presence(id, at_ms(0)), Presence::gone);
  world.open(hello(1), 0);
  EXPECT_EQ(world.sessions.presence(id, at_ms(900'000)), Presence::present);
  world.sessions.disconnect(id, at_ms(1'000));
  EXPECT_EQ(world.sessions.presence(id, at_ms(2'999)), Presence::away);
  EXPECT_EQ(world.sessions.presence(id, at_ms(3'000)), Presence::gone);
  world.open(hello(1), 4'000);
  EXPECT_EQ(world.sessions.presence(id, at_ms(4'000)), Presence::present);
}

TEST(Sessions, AnswerUntilTheirConnectionDoesNot) {
  World world;
  const auto answers = [&](std::uint64_t n) {
    return world.sessions.answers(*world.sessions.find({3, n}));
  };
  world.open(hello(1), 0);
  world.sessions.open(hello(2), {{}, 1}, 0, at_ms(0), world.rows);  // on the same connection
  world.open(hello(3), 0);
  EXPECT_TRUE(answers(1) && answers(2) && answers(3));
  world.sessions.answers(1, false);
  EXPECT_FALSE(answers(1) || answers(2));
  EXPECT_TRUE(answers(3));
  world.sessions.heard(3, at_ms(10));
  EXPECT_FALSE(answers(1)) << "another connection has sent a heartbeat";
  world.sessions.heard(1, at_ms(20));
  EXPECT_TRUE(answers(1) && answers(2));
  world.sessions.answers(1, false);
  world.sessions.answers(1, true);
  EXPECT_TRUE(answers(1) && answers(2));
  EXPECT_TRUE(world.rows.empty());
}

TEST(Sessions, AnswerAgainOnANewConnection) {
  World world;
  const auto answers = [&](std::uint64_t n) {
    return world.sessions.answers(*world.sessions.find({3, n}));
  };
  world.open(hello(1), 0);
  world.sessions.open(hello(2), {{}, 1}, 0, at_ms(0), world.rows);
  world.sessions.answers(1, false);
  world.sessions.open(hello(1), {{}, 7}, 0, at_ms(10), world.rows);
  EXPECT_TRUE(answers(1));
  EXPECT_FALSE(answers(2)) << "it is still on the older connection";
  world.sessions.disconnect({3, 2}, at_ms(20));
  EXPECT_TRUE(answers(2)) << "it has no connection";
  world.sessions.answers(1, false);  // has no effect: the last session has left
  world.sessions.open(hello(2), {{}, 1}, 0, at_ms(30), world.rows);
  EXPECT_TRUE(answers(2));
  world.sessions.answers(1, false);
  world.sessions.open(hello(3), {{}, 1}, 0, at_ms(40), world.rows);
  EXPECT_TRUE(answers(2)) << "a hello has come on the connection";
}

TEST(Sessions, AreAwayForLongerAfterARestart) {
  World world;
  world.open(hello(1), 0);
  world.keep({3, 1}, 1, stored(1));
  const std::unique_ptr<Sessions> next = world.restart();
  EXPECT_EQ(next->presence({3, 1}, TimePoint(std::chrono::milliseconds(9'999))), Presence::away);
  EXPECT_EQ(next->presence({3, 1}, TimePoint(std::chrono::seconds(10))), Presence::gone);
}

TEST(Sessions, RefuseARowOfRepliesWithoutARevision) {
  for (const Revision revision : {0, 1}) {
    Bytes value;
    wire::Writer(value).put(KeptReply{{3, 1}, 1, stored(revision)});
    const Row row{Row::Kind::put, RowKey('r').number(revision).take(), value};
    EXPECT_EQ(Sessions({}).restore(row).has_value(), revision > 0) << "no change has revision 0";
  }
}

TEST(Sessions, RefuseDamagedRows) {
  World world;
  Hello own = hello(1);
  own.expiry = std::chrono::seconds(5);
  world.open(own, 0);
  world.keep({3, 1}, 1, stored(1));
  world.keep({3, 1}, 2, delivery(2));
  ASSERT_EQ(world.rows.size(), 3u);
  World second;
  second.open(hello(2), 0);
  second.close({3, 2}, true);
  world.rows.push_back(second.rows[0]);
  for (const Row& row : world.rows) {
    EXPECT_TRUE(Sessions({}).restore(row));
    EXPECT_FALSE(Sessions({}).restore({Row::Kind::put, row.key + 'x', row.value})) << row.key[0];
    EXPECT_FALSE(
        Sessions({}).restore({Row::Kind::put, row.key.substr(0, row.key.size() - 1), row.value}));
    EXPECT_FALSE(Sessions({}).restore({Row::Kind::put, row.key.substr(0, 1), row.value}));
    EXPECT_FALSE(Sessions({}).restore({Row::Kind::put, row.key, row.value.substr(0, 3)}));
  }
}

}  // namespace
}  // namespace c10dd::core
