// SPDX-License-Identifier: Apache-2.0
// The Redis engine reads the rows of a job in pages, over a server whose pages repeat rows, lie, or
// end in the middle.
#include <gtest/gtest.h>

#include "store/engines.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/store/fake_redis.h"

namespace c10dd::store {
namespace {

using test::FakeReply;
using test::resp_array;
using test::resp_text;
using Words = FakeRedis::Words;

class RedisPages : public testing::Test {
 protected:
  RedisPages() { open(); }
  void open() { engine_ = open_engine(server_.url(), {.process = 1}).value(); }

  static FakeReply page(const std::string& cursor, const std::vector<std::string>& texts) {
    std::string pairs = "*" + std::to_string(texts.size()) + "\r\n";
    for (const std::string& text : texts) pairs += resp_text(text);
    return {resp_array({resp_text(cursor), pairs})};
  }
  /// The rows are complete: the server has so many.
  void count(std::size_t rows) {
    server_.say("HLEN", {{":" + std::to_string(rows) + "\r\n"}});
    server_.say("HMGET", {{resp_array({resp_text(std::to_string(rows))})}});
  }
  /// Loads job 6: the rows as "key=value ", or the failure.
  std::string load(JobNumber job = 6) {
    std::string all;
    const Result<void> loaded =
        engine_->load(job, [&](const Row& row) { all += row.key + "=" + row.value + " "; });
    code_ = loaded ? Code::ok : loaded.error().code;
    return loaded ? all : loaded.error().detail;
  }

  FakeRedis server_;
  std::unique_ptr<Engine> engine_;
  Code code_ = Code::ok;
};

TEST_F(RedisPages, GathersAllPagesInTheOrderOfTheKeys) {
  server_.say("HSCAN", {page("7", {"b", "2", "a", "1"}), page("9", {}),
                        page("0", {"b", "2", "c", "3", "", "0"})});
  count(4);
  EXPECT_EQ(load(), "=0 a=1 b=2 c=3 ");
  const std::vector<Words> sent = server_.commands("HSCAN");
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[0], (Words{"HSCAN", "c10dd:{6}:rows", "0", "COUNT", "16"}));
  EXPECT_EQ(sent[1][2] + " " + sent[2][2], "7 9");
  EXPECT_EQ(server_.commands("HLEN"), (std::vector<Words>{{"HLEN", "c10dd:{6}:rows"}}));
  EXPECT_EQ(server_.commands("HMGET"), (std::vector<Words>{{"HMGET", "c10dd:{6}:meta", "rows"}}));
}

TEST_F(RedisPages, AsksForMoreRowsIfTheyAreSmallAndFewerIfTheyAreLarge) {
  std::deque<FakeReply> pages(9, page("7", {"a", "1"}));
  pages.push_back(page("7", {"b", std::string(4'000'000, 'x')}));
  pages.push_back(page("7", {"b", std::string(4'000'000, 'y')}));
  pages.push_back(page("0", {}));
  server_.say("HSCAN", pages);
  count(2);
  load();
  EXPECT_EQ(code_, Code::ok);
  std::string counts;
  for (const Words& words : server_.commands("HSCAN")) counts += words.at(4) + " ";
  EXPECT_EQ(counts, "16 32 64 128 256 512 1024 1024 1024 1024 268 70 ");
}

TEST_F(RedisPages, GivesTheRowsInPiecesAndNeedsNoMoreOfTheServer) {
  server_.say("HSCAN", {page("0", {"a", std::string(700'000, 'x'), "b", std::string(700'000, 'y'),
                                   "c", "3", "d", "4", "e", "5"})});
  count(5);
  const auto reader = engine_->read(6);
  std::vector<Row> rows;
  EXPECT_TRUE(reader->next(rows, 100).value());
  EXPECT_EQ(rows.size(), 2U) << "about a megabyte";
  EXPECT_TRUE(reader->next(rows, 2).value());
  EXPECT_EQ(rows.size(), 4U);
  EXPECT_FALSE(reader->next(rows, 2).value());
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[4].key + rows[4].value, "e5");
  EXPECT_EQ(rows[4].kind, Row::Kind::put);
  EXPECT_EQ(server_.commands("HSCAN").size(), 1U);
  EXPECT_EQ(server_.commands("HLEN").size(), 1U);
}

TEST_F(RedisPages, TwoReadersOfTwoJobsDoNotMixTheirRows) {
  server_.say("HSCAN", {page("7", {"a", "1"}), page("8", {"b", "2"}), page("0", {"c", "3"}),
                        page("0", {"d", "4"})});
  count(2);
  const auto one = engine_->read(1);
  const auto two = engine_->read(2);
  std::vector<Row> of_one;
  std::vector<Row> of_two;
  EXPECT_TRUE(one->next(of_one, 100).value());
  EXPECT_TRUE(two->next(of_two, 100).value());
  EXPECT_FALSE(one->next(of_one, 100).value());
  EXPECT_FALSE(two->next(of_two, 100).value());
  EXPECT_EQ(of_one.at(0).key + of_one.at(1).key, "ac");
  EXPECT_EQ(of_two.at(0).key + of_two.at(1).key, "bd");
  const std::vector<Words> sent = server_.commands("HSCAN");
  EXPECT_EQ(sent[2], (Words{"HSCAN", "c10dd:{1}:rows", "7", "COUNT", "32"}));
  EXPECT_EQ(sent[3], (Words{"HSCAN", "c10dd:{2}:rows", "8", "COUNT", "32"}));
}

TEST_F(RedisPages, RefusesRowsThatDoNotAddUp) {
  server_.say("HSCAN", {page("0", {"a", "1"})});
  server_.say("HLEN", {{":2\r\n"}});
  EXPECT_NE(load().find("read 1 rows, the server now has 2"), std::string::npos);
  EXPECT_EQ(code_, Code::unavailable);
  server_.say("HLEN", {{":1\r\n"}});
  server_.say("HMGET", {{resp_array({resp_text("2")})}});
  EXPECT_NE(load().find("has 1 rows, but must have 2: rows were erased"), std::string::npos);
  EXPECT_EQ(code_, Code::malformed);
  server_.say("HMGET", {{resp_array({resp_text("0")})}});
  EXPECT_NE(load().find("has 1 rows, but must have 0: another program added"), std::string::npos);
  EXPECT_EQ(code_, Code::malformed);
  server_.say("HMGET", {{resp_array({"$-1\r\n"})}});
  EXPECT_EQ(load(), "a=1 ") << "an older daemon has not counted them";
  server_.say("HLEN", {{":77\r\n"}});
  EXPECT_EQ(load(0), "a=1 ") << "the directory may change meanwhile";
}

TEST_F(RedisPages, APageOfAnotherShapeEndsTheConnection) {
  const std::string good = page("0", {"a", "1"}).bytes;
  struct Case {
    std::string command;
    FakeReply reply;
  };
  for (const Case& one : std::vector<Case>{
           {"HSCAN", page("0", {"a", "1", "b"})},
           {"HSCAN", {resp_array({resp_text("0")})}},
           {"HSCAN", {resp_array({resp_text("0"), resp_text("a")})}},
           {"HSCAN", {resp_array({":0\r\n", "*0\r\n"})}},
           {"HSCAN", {resp_array({resp_text("0"), resp_array({resp_text("a"), ":1\r\n"})})}},
           {"HSCAN", {resp_array({resp_text("0"), resp_array({":1\r\n", resp_text("a")})})}},
           {"HLEN", {"+1\r\n"}},
           {"HMGET", {"*0\r\n"}},
           {"HMGET", {resp_array({resp_text("x")})}},
           {"HMGET", {resp_array({resp_text("1"), resp_text("1")})}}}) {
    open();
    server_.say("HSCAN", {{good}});
    count(1);
    server_.say(one.command, {one.reply});
    EXPECT_NE(load().find("unexpected reply to " + one.command), std::string::npos)
        << one.reply.bytes;
    EXPECT_FALSE(engine_->jobs()) << one.reply.bytes;
  }
  for (const std::string command : {"HSCAN", "HLEN", "HMGET"}) {
    open();
    server_.say("HSCAN", {{good}});
    count(1);
    server_.say(command, {{"*2\r\n$1\r\n", FakeReply::Then::close}});
    EXPECT_NE(load().find("the server closed the connection"), std::string::npos) << command;
  }
  engine_.reset();
  EXPECT_TRUE(test::comes_true([&] { return server_.server().open_connections() == 0; }));
}

}  // namespace
}  // namespace c10dd::store
