// SPDX-License-Identifier: Apache-2.0
// One request of c10ddctl to a daemon that is absent, silent, late, closes in the middle or lies.
#include "client/ctl/request.h"

#include <gtest/gtest.h>

#include "tests/integration/reserved_port.h"
#include "tests/unit/client/fake_http_daemon.h"
#include "tests/unit/comes_true.h"

namespace c10dd::ctl {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::FakeReply;
using test::http_reply;
using Then = FakeReply::Then;

class CtlRequest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(comes_true([&] { return one_.server().open_connections() == 0; }));
  }

  test::FakeHttpDaemon one_;
  const test::ReservedPort absent_;
};

TEST_F(CtlRequest, ARequestIsSentWholeAndItsReplyIsRead) {
  one_.say("POST /x", {http_reply("made", "201 Created")});
  const Result<Reply> reply = ask(one_.at(), {"POST", "/x", "text/plain", "{}"}, 60s);
  ASSERT_TRUE(reply) << reply.error().detail;
  EXPECT_EQ(reply->status, 201);
  EXPECT_EQ(reply->body, "made");
  EXPECT_EQ(one_.last(), "POST /x HTTP/1.1\r\nHost: " + one_.text() +
                             "\r\nAccept: text/plain\r\nConnection: close\r\n"
                             "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
  const std::string large(100'000, 'x');
  one_.say("GET /y", {http_reply(large)});
  const Result<Reply> more = ask(one_.at(), {.path = "/y"}, 60s);
  ASSERT_TRUE(more) << more.error().detail;
  EXPECT_TRUE(more->body == large);
}

TEST_F(CtlRequest, ARequestSaysWhetherItMayHaveBeenReceived) {
  const Failure refused = ask({"127.0.0.1", absent_.number()}, {.path = "/x"}, 60s).error();
  EXPECT_EQ(refused.code, Code::unavailable);
  EXPECT_EQ(refused.detail.find("no daemon answers at " + absent_.address() + ": "), 0U);
  const std::string good = http_reply("whole").bytes;
  for (const FakeReply& reply :
       {FakeReply{"", Then::close}, FakeReply{"HTTP/1.1 20", Then::close},
        FakeReply{good.substr(0, good.size() - 1), Then::close}, FakeReply{"no HTTP\r\n\r\n"}}) {
    one_.say("GET /x", {reply});
    one_.say("POST /x", {reply});
    const Failure read = ask(one_.at(), {.path = "/x"}, 60s).error();
    EXPECT_EQ(read.code, Code::timed_out) << reply.bytes;
    EXPECT_EQ(read.detail.find("the daemon at " + one_.text() + " did not reply: "), 0U);
    EXPECT_EQ(read.detail.find("is not known"), std::string::npos);
    const Failure changed = ask(one_.at(), {.method = "POST", .path = "/x"}, 60s).error();
    EXPECT_TRUE(test::has(changed.detail, "; it is not known whether it executed the request"));
  }
}

TEST_F(CtlRequest, ALateReplyIsNotWaitedForAndNotTakenForAnother) {
  one_.say("GET /x", {{"", Then::close, http_reply("late").bytes}, http_reply("second")});
  const Failure silent = ask(one_.at(), {.path = "/x"}, 20ms).error();
  EXPECT_EQ(silent.code, Code::timed_out);
  EXPECT_TRUE(test::has(silent.detail, "nothing arrived within 0.02 s"));
  EXPECT_TRUE(comes_true([&] { return one_.server().held() == 1; }));
  one_.server().release();
  const Result<Reply> second = ask(one_.at(), {.path = "/x"}, 60s);
  ASSERT_TRUE(second) << second.error().detail;
  EXPECT_EQ(second->body, "second");
}

TEST(CtlPath, EncodesAllThatHasAMeaning) {
  EXPECT_EQ(in_path("aZ09-_.~"), "aZ09-_.~");
  EXPECT_EQ(in_path("a/b %\xff"), "a%2Fb%20%25%FF");
}

}  // namespace
}  // namespace c10dd::ctl
