// SPDX-License-Identifier: Apache-2.0
// Conversations with clients of PyTorch's TCPStore: the bytes of real servers in any split and with
// replies in any order, blocked waits, failures, long replies, bounds.
#include "protocol/tcpstore_dialogue.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/unit/protocol/tcpstore_model.h"
#include "tests/unit/protocol/tcpstore_traces.h"

namespace c10dd::tcpstore {
namespace {

using traces::bytes_of;

constexpr std::string_view kValidate = "00 CEF7853C";

/// A connection to a Model.
struct Connection {
  explicit Connection(LegacyClients legacy = LegacyClients::detect) : dialogue(legacy) {}

  Model model;
  TcpStoreDialogue dialogue;
  Bytes in;
  Bytes out;  ///< sent to the client, not taken yet

  /// Takes what the client sends, but delivers no reply.
  void send(const Bytes& bytes) {
    in += bytes;
    while (const std::size_t used = dialogue.take(in, model, out)) in.erase(0, used);
  }
  void send(const char* text) { send(bytes_of(text)); }

  /// Delivers all replies, the newest first if `reversed`, until there are none.
  void deliver(bool reversed = false) {
    while (!model.replies.empty() || dialogue.has_more()) {
      Model::Replies replies = std::exchange(model.replies, {});
      if (reversed) std::reverse(replies.begin(), replies.end());
      for (const auto& [sequence, reply] : replies) dialogue.reply(sequence, reply, out);
      dialogue.read_on(model);
      send(Bytes());
    }
  }
  Bytes take_out() { return std::exchange(out, {}); }
};

void expect_trace(std::string_view trace, std::size_t split) {
  Connection connection;
  for (const traces::Line& line : traces::lines_of(trace)) {
    if (!line.from_client) {
      ASSERT_EQ(connection.out.substr(0, line.bytes.size()), line.bytes);
      connection.out.erase(0, line.bytes.size());
      continue;
    }
    ASSERT_EQ(connection.take_out(), "");
    for (std::size_t at = 0; at < line.bytes.size(); at += split) {
      connection.send(line.bytes.substr(at, split));
      connection.deliver();
    }
    ASSERT_EQ(connection.dialogue.over(), nullptr) << connection.dialogue.over()->detail;
  }
  EXPECT_EQ(connection.take_out(), "");
}

TEST(TcpStoreDialogue, SendsWhatRealServersSendInAnySplit) {
  for (const std::size_t split : {1, 2, 3, 5, 7, 8, 9, 16, 100}) {
    for (const auto trace : {traces::kV4, traces::kL0, traces::kL0Callbacks, traces::kL1}) {
      expect_trace(trace, split);
    }
  }
}

TEST(TcpStoreDialogue, SendsRepliesInOrderInWhicheverOrderTheyCome) {
  for (const auto trace : {traces::kV4, traces::kL0, traces::kL1}) {
    Bytes requests;
    Bytes replies;
    for (const traces::Line& line : traces::lines_of(trace)) {
      (line.from_client ? requests : replies) += line.bytes;
    }
    Connection connection;
    connection.send(requests);
    connection.deliver(true);
    EXPECT_EQ(connection.take_out(), replies);
    EXPECT_EQ(connection.in, "");
  }
}

TEST(TcpStoreDialogue, PassesNothingOnBeforeAMessageIsWhole) {
  Connection connection;
  Bytes bytes = bytes_of(
      "00 CEF7853C 0B 0200000000000000 0200000000000000 \"/a\" 0100000000000000"
      "\"1\" 0200000000000000 \"/b\" 0100000000000000 \"2\"");
  connection.send(bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(connection.model.served.empty());
  connection.send(bytes.substr(bytes.size() - 1));
  EXPECT_EQ(connection.model.served, std::vector<std::string>{"multi_set"});
}

TEST(TcpStoreDialogue, LetsABlockedWaitHoldNobodyBack) {
  Connection connection;
  connection.send((std::string(kValidate) + "06 0100000000000000 0200000000000000 \"/w\"").c_str());
  connection.send("04 0200000000000000 \"/c\" 0500000000000000 07");
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("0500000000000000 0100000000000000"));
  connection.model.set("/w", "");
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("00"));
}

TEST(TcpStoreDialogue, LetsABlockedBarrierHoldNobodyBack) {
  Connection connection;
  connection.send((std::string(kValidate) +
                   "12 0200000000000000 \"/b\" 0200000000000000 03 0200000000000000 \"/b\"")
                      .c_str());
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("0100000000000000 \"1\""));
  connection.model.set("/b", "2");
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("00"));
}

TEST(TcpStoreDialogue, LetsAWaitThatIsNotBlockedHoldItsPlace) {
  Connection connection;
  connection.model.set("/w", "");
  connection.send(
      (std::string(kValidate) + "06 0100000000000000 0200000000000000 \"/w\" 07").c_str());
  ASSERT_EQ(connection.model.replies.size(), 2u);
  connection.dialogue.reply(2, connection.model.replies[1].second, connection.out);
  EXPECT_EQ(connection.take_out(), "");
  connection.dialogue.reply(1, connection.model.replies[0].second, connection.out);
  EXPECT_EQ(connection.take_out(), bytes_of("00 0100000000000000"));
}

TEST(TcpStoreDialogue, SendsTheEndOfABlockedWaitAfterEarlierReplies) {
  Connection connection;
  connection.send(
      (std::string(kValidate) + "07 06 0100000000000000 0200000000000000 \"/w\"").c_str());
  connection.model.set("/w", "");
  ASSERT_EQ(connection.model.replies.size(), 2u);
  connection.dialogue.reply(2, connection.model.replies[1].second, connection.out);
  EXPECT_EQ(connection.take_out(), "");
  connection.dialogue.reply(1, connection.model.replies[0].second, connection.out);
  EXPECT_EQ(connection.take_out(), bytes_of("0000000000000000 00"));
}

TEST(TcpStoreDialogue, SendsTheReplyOfAWaitThatEndedBeforeItsCancel) {
  Connection connection;
  connection.send((std::string(kValidate) + "06 0100000000000000 0200000000000000 \"/w\"").c_str());
  connection.model.set("/w", "");
  connection.send("0C");
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("00 01"));
}

TEST(TcpStoreDialogue, IgnoresTheReplyOfACancelledWait) {
  Connection connection;
  connection.send(
      (std::string(kValidate) + "06 0100000000000000 0200000000000000 \"/w\" 0C").c_str());
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("01"));
  connection.dialogue.reply(1, ReplyBody(Done{}), connection.out);
  EXPECT_EQ(connection.take_out(), "");
  connection.send("0C");  // nothing is outstanding
  EXPECT_EQ(connection.take_out(), bytes_of("01"));
}

TEST(TcpStoreDialogue, CancelsAllBlockedWaitsWithOneReply) {
  Connection connection;
  connection.send((std::string(kValidate) + "06 0100000000000000 0200000000000000 \"/v\"" +
                   "06 0100000000000000 0200000000000000 \"/w\" 0C 07")
                      .c_str());
  connection.deliver(true);
  EXPECT_EQ(connection.take_out(), bytes_of("01 0000000000000000"));
  const std::vector<std::string> expected = {"wait", "wait", "cancel", "cancel", "count"};
  EXPECT_EQ(connection.model.served, expected);
}

TEST(TcpStoreDialogue, DropsTheBlockedWaitOfAnOldClientThatAsksForSomethingElse) {
  Connection connection;
  connection.send("05 0100000000000000 0200000000000000 \"/w\" 06");
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("0000000000000000"));
  connection.model.set("/w", "");
  connection.dialogue.reply(1, ReplyBody(Done{}), connection.out);
  connection.deliver();
  EXPECT_EQ(connection.take_out(), "");
}

TEST(TcpStoreDialogue, RepliesAtOnceToRequestsForNoKeys) {
  Connection connection;
  connection.send((std::string(kValidate) + "05 0000000000000000 06 0000000000000000" +
                   "0A 0000000000000000 0B 0000000000000000")
                      .c_str());
  EXPECT_EQ(connection.take_out(), bytes_of("00 00"));
  EXPECT_TRUE(connection.model.served.empty());
}

TEST(TcpStoreDialogue, TellsTheProcessIdOfTheClient) {
  Connection connection;
  EXPECT_FALSE(connection.dialogue.pid());
  connection.send((std::string(kValidate) + "0D 16640000").c_str());
  EXPECT_EQ(connection.dialogue.pid(), 25622u);
  EXPECT_EQ(connection.take_out(), bytes_of("16640000"));
}

TEST(TcpStoreDialogue, RepliesWithAnEmptyValueForAMissingKey) {
  Connection connection;
  connection.send((std::string(kValidate) + "03 0200000000000000 \"/k\"" +
                   "0A 0100000000000000 0200000000000000 \"/k\"")
                      .c_str());
  connection.deliver();
  EXPECT_EQ(connection.take_out(), Bytes(16, '\0'));
}

TEST(TcpStoreDialogue, EndsWithAFailureAfterTheRepliesBefore) {
  Connection connection;
  connection.model.set("/k", "abc");
  connection.send(
      (std::string(kValidate) + "07 04 0200000000000000 \"/k\" 0100000000000000 07").c_str());
  Model::Replies replies = std::exchange(connection.model.replies, {});
  ASSERT_EQ(replies.size(), 3u);
  connection.dialogue.reply(3, replies[2].second, connection.out);
  connection.dialogue.reply(2, replies[1].second, connection.out);
  EXPECT_EQ(connection.dialogue.over(), nullptr);
  connection.dialogue.reply(1, replies[0].second, connection.out);
  ASSERT_NE(connection.dialogue.over(), nullptr);
  EXPECT_EQ(connection.dialogue.over()->code, Code::invalid_argument);
  EXPECT_EQ(connection.take_out(), bytes_of("0100000000000000"));
  connection.send("07");
  EXPECT_EQ(connection.in, bytes_of("07"));
}

TEST(TcpStoreDialogue, EndsIfAMessageWithoutReplyFails) {
  Connection connection;
  connection.send(
      (std::string(kValidate) + "01 0200000000000000 \"/k\" 0100000000000000 \"v\"").c_str());
  connection.dialogue.reply(1, failure(Code::quota_exceeded, "too many keys"), connection.out);
  ASSERT_NE(connection.dialogue.over(), nullptr);
  EXPECT_EQ(connection.dialogue.over()->detail, "too many keys");
}

TEST(TcpStoreDialogue, EndsWithMalformedBytesAfterTheRepliesBefore) {
  Connection connection;
  connection.send((std::string(kValidate) + "07 FF 07").c_str());
  EXPECT_EQ(connection.dialogue.over(), nullptr);
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("0000000000000000"));
  ASSERT_NE(connection.dialogue.over(), nullptr);
  EXPECT_EQ(connection.dialogue.over()->code, Code::unknown_op);
  EXPECT_EQ(connection.model.served.size(), 1u);
}

TEST(TcpStoreDialogue, TakesNoMessageUntilALongReplyIsComplete) {
  Connection connection;
  for (const char* key : {"/1", "/2", "/3"}) connection.model.set(key, key);
  connection.send((std::string(kValidate) + "0A 0300000000000000 0200000000000000 \"/1\"" +
                   "0200000000000000 \"/2\" 0200000000000000 \"/3\" 07")
                      .c_str());
  EXPECT_TRUE(connection.dialogue.is_paused());
  EXPECT_FALSE(connection.dialogue.has_more());
  const Reply page = std::exchange(connection.model.replies, {}).front().second;
  connection.dialogue.reply(1, page, connection.out);
  EXPECT_EQ(connection.take_out(), bytes_of("0200000000000000 \"/1\" 0200000000000000 \"/2\""));
  EXPECT_TRUE(connection.dialogue.is_paused());
  EXPECT_TRUE(connection.dialogue.has_more());
  connection.deliver();
  EXPECT_EQ(connection.take_out(), bytes_of("0200000000000000 \"/3\" 0300000000000000"));
  const std::vector<std::string> expected = {"read_values", "read_values", "count"};
  EXPECT_EQ(connection.model.served, expected);
}

TEST(TcpStoreDialogue, IsPausedWhileTooManyRepliesAreOutstanding) {
  Connection connection;
  Bytes bytes = bytes_of(kValidate);
  for (std::size_t i = 0; i < limits::kSessionWindow + 10; ++i) bytes += bytes_of("07");
  connection.send(bytes);
  EXPECT_TRUE(connection.dialogue.is_paused());
  EXPECT_EQ(connection.in.size(), 10u);
  connection.deliver();
  EXPECT_EQ(connection.take_out().size(), 8 * (limits::kSessionWindow + 10));
}

TEST(TcpStoreDialogue, EndsIfTooManyWaitsAreBlocked) {
  Connection connection;
  Bytes bytes = bytes_of(kValidate);
  for (std::size_t i = 0; i <= limits::kSessionWindow; ++i) {
    bytes += bytes_of("06 0100000000000000 0200000000000000 \"/w\"");
  }
  connection.send(bytes);
  ASSERT_NE(connection.dialogue.over(), nullptr);
  EXPECT_EQ(connection.dialogue.over()->detail,
            "the connection has 1025 blocked waits, limit 1024");
}

TEST(TcpStoreDialogue, BoundsTheRepliesThatAreHeld) {
  Connection connection;
  connection.model.set("/k", Bytes(limits::kValueBytes, 'x'));
  connection.send((std::string(kValidate) + "07").c_str());
  for (int i = 0; i < 3; ++i) connection.send("03 0200000000000000 \"/k\"");
  Model::Replies replies = std::exchange(connection.model.replies, {});
  for (std::size_t i = 1; i < 3; ++i) {
    connection.dialogue.reply(replies[i].first, replies[i].second, connection.out);
  }
  EXPECT_EQ(connection.dialogue.held_bytes(), 2 * limits::kValueBytes);
  EXPECT_TRUE(connection.dialogue.is_paused());
  connection.dialogue.reply(replies[3].first, replies[3].second, connection.out);
  connection.dialogue.reply(replies[0].first, replies[0].second, connection.out);
  EXPECT_EQ(connection.dialogue.held_bytes(), 0u);
  EXPECT_FALSE(connection.dialogue.is_paused());
  EXPECT_EQ(connection.take_out().size(), 8 + 3 * (8 + limits::kValueBytes));

  for (int i = 0; i < 10; ++i) connection.send("03 0200000000000000 \"/k\"");
  replies = std::exchange(connection.model.replies, {});
  for (std::size_t i = 1; i < replies.size() && !connection.dialogue.over(); ++i) {
    connection.dialogue.reply(replies[i].first, replies[i].second, connection.out);
  }
  ASSERT_NE(connection.dialogue.over(), nullptr);
  EXPECT_EQ(connection.dialogue.over()->code, Code::window_exceeded);
}

}  // namespace
}  // namespace c10dd::tcpstore
