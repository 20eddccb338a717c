// SPDX-License-Identifier: Apache-2.0
// The wire format of PyTorch's TCPStore: messages and replies come back as they were, in any split;
// dialects are recognised; lengths are refused before the bytes are there.
#include "protocol/tcpstore_wire.h"

#include <gtest/gtest.h>

#include "protocol/limits.h"
#include "tests/unit/protocol/tcpstore_traces.h"

namespace c10dd::tcpstore {
namespace {

using traces::bytes_of;

constexpr Dialect kDialects[] = {Dialect::l0, Dialect::l1, Dialect::v};

Query query_at(std::size_t i) { return static_cast<Query>(i); }

/// A message with a value in each field that the operation may have.
Message sample(Query query) {
  Message message;
  message.query = query;
  message.key = "key";
  message.value = "value";
  message.expected = "";
  message.number = 7;
  if (query == Query::multi_get || query == Query::multi_set || query == Query::check ||
      query == Query::wait) {
    message.key = {};
    message.keys = {"a", "", "ccc"};
    message.values = {"1", "22", ""};
  }
  return message;
}

Bytes encoded(Dialect dialect, const Message& message) {
  Bytes bytes;
  encode_message(bytes, dialect, message);
  return bytes;
}

/// A cutter that has already recognised a dialect.
MessageCutter cutter_of(Dialect dialect) {
  if (dialect == Dialect::l0) return MessageCutter(LegacyClients::l0);
  if (dialect == Dialect::l1) return MessageCutter(LegacyClients::l1);
  MessageCutter cutter;
  const Result<bool> whole = cutter.cut(encoded(dialect, sample(Query::validate)));
  EXPECT_TRUE(whole && *whole);
  return cutter;
}

/// The failure of a cutter that gets `bytes`, or an empty text.
std::string refusal(const Bytes& bytes, MessageCutter cutter = MessageCutter()) {
  const Result<bool> whole = cutter.cut(bytes);
  return whole ? "" : std::string(c10dd::name_of(whole.error().code)) + ": " + whole.error().detail;
}

TEST(TcpStoreWire, ReturnsEveryMessageAsItWasInAnySplit) {
  for (const Dialect dialect : kDialects) {
    for (std::size_t i = 0; i < kQueries; ++i) {
      if (!code_of(query_at(i), dialect)) continue;
      const Message message = sample(query_at(i));
      const Bytes bytes = encoded(dialect, message);
      MessageCutter cutter = cutter_of(dialect);
      for (std::size_t n = 0; n < bytes.size(); ++n) {
        const Result<bool> whole = cutter.cut(std::string_view(bytes).substr(0, n));
        ASSERT_TRUE(whole && !*whole) << name_of(message.query) << " " << n;
        ASSERT_GT(cutter.needed(), n);
        ASSERT_LE(cutter.needed(), bytes.size());
      }
      const Bytes more = bytes + "next";
      const Result<bool> whole = cutter.cut(more);
      ASSERT_TRUE(whole && *whole) << name_of(message.query);
      EXPECT_EQ(cutter.size(), bytes.size());
      EXPECT_EQ(encoded(dialect, cutter.decode(more)), bytes);
      EXPECT_EQ(cutter.decode(more).query, message.query);
    }
  }
}

TEST(TcpStoreWire, CutsTheMessagesOfRealClientsOneByOne) {
  for (const std::string_view trace : {traces::kV4, traces::kL0, traces::kL1}) {
    Bytes stream;
    for (const traces::Line& line : traces::lines_of(trace)) {
      if (line.from_client) stream += line.bytes;
    }
    MessageCutter cutter;
    Bytes again;
    std::size_t begin = 0;
    for (std::size_t end = 0; end <= stream.size(); ++end) {
      const std::string_view in = std::string_view(stream).substr(begin, end - begin);
      const Result<bool> whole = cutter.cut(in);
      ASSERT_TRUE(whole) << whole.error().detail;
      if (!*whole) continue;
      const Dialect dialect = cutter.dialect() == Dialect::legacy ? Dialect::l0 : cutter.dialect();
      encode_message(again, dialect, cutter.decode(in));
      begin += cutter.size();
    }
    EXPECT_EQ(begin, stream.size());
    EXPECT_EQ(again, stream);
  }
}

TEST(TcpStoreWire, RecognisesTheDialect) {
  const auto after = [](const char* bytes, LegacyClients legacy = LegacyClients::detect) {
    MessageCutter cutter(legacy);
    static_cast<void>(cutter.cut(bytes_of(bytes)));
    return cutter.dialect();
  };
  EXPECT_EQ(after(""), Dialect::unknown);
  EXPECT_EQ(after("00"), Dialect::unknown);
  EXPECT_EQ(after("00 CEF785"), Dialect::unknown);
  EXPECT_EQ(after("00 CEF7853C"), Dialect::v);
  EXPECT_EQ(after("00 CEF7853C", LegacyClients::l0), Dialect::v);
  EXPECT_EQ(after("00 02000000"), Dialect::legacy);
  EXPECT_EQ(after("03"), Dialect::legacy);
  EXPECT_EQ(after("03", LegacyClients::l0), Dialect::l0);
  EXPECT_EQ(after("03", LegacyClients::l1), Dialect::l1);
  EXPECT_EQ(after("07"), Dialect::l0);
  EXPECT_EQ(after("08"), Dialect::legacy);
  for (const char* code : {"09", "0A", "0B"}) EXPECT_EQ(after(code), Dialect::l1) << code;
}

TEST(TcpStoreWire, TakesCode7AsRemoveUnlessItIsTheFirst) {
  MessageCutter cutter;
  ASSERT_TRUE(*cutter.cut(bytes_of("06")));
  const Bytes remove = bytes_of("07 0100000000000000 \"k\"");
  ASSERT_TRUE(*cutter.cut(remove));
  EXPECT_EQ(cutter.decode(remove).query, Query::remove);
  EXPECT_EQ(cutter.dialect(), Dialect::l1);
}

TEST(TcpStoreWire, TakesCode8AsAppendIfMoreBytesFollowTheKey) {
  MessageCutter cutter;
  const Bytes key = bytes_of("08 0100000000000000 \"k\"");
  EXPECT_FALSE(*cutter.cut(key));
  EXPECT_TRUE(cutter.is_ambiguous());
  const Bytes append = key + bytes_of("0100000000000000 \"v\"");
  ASSERT_FALSE(*cutter.cut(append.substr(0, key.size() + 1)));
  EXPECT_FALSE(cutter.is_ambiguous());
  ASSERT_TRUE(*cutter.cut(append));
  EXPECT_EQ(cutter.decode(append).query, Query::append);
  EXPECT_EQ(cutter.decode(append).value, "v");
  EXPECT_EQ(cutter.dialect(), Dialect::l1);
}

TEST(TcpStoreWire, TakesCode8AsRemoveIfTheClientWaits) {
  MessageCutter cutter;
  const Bytes remove = bytes_of("08 0100000000000000 \"k\"");
  EXPECT_FALSE(*cutter.cut(remove));
  cutter.settle_ambiguous();
  ASSERT_TRUE(*cutter.cut(remove));
  EXPECT_EQ(cutter.decode(remove).query, Query::remove);
  EXPECT_EQ(cutter.dialect(), Dialect::l0);
  ASSERT_TRUE(*cutter.cut(remove));  // from now on at once
  MessageCutter told(LegacyClients::l0);
  EXPECT_TRUE(*told.cut(remove));
}

TEST(TcpStoreWire, KnowsTheFirstKeyBeforeTheMessageIsWhole) {
  const auto head_of = [](const char* text) {
    MessageCutter cutter = cutter_of(Dialect::v);
    const Bytes bytes = bytes_of(text);
    static_cast<void>(cutter.cut(bytes));
    const auto head = cutter.head(bytes);
    if (!head) return std::string();
    std::string shown = std::string(name_of(head->query)) + " " + std::string(head->key);
    if (head->value_bytes) shown += " of " + std::to_string(*head->value_bytes);
    for (std::size_t i = 0; i < head->keys.size(); ++i) {
      shown.append(", ").append(head->keys[i]) += " of " + std::to_string(head->sizes[i]);
    }
    return shown;
  };
  EXPECT_EQ(head_of(""), "");
  EXPECT_EQ(head_of("01 0200000000000000 \"/\""), "");
  EXPECT_EQ(head_of("01 0200000000000000 \"/k\""), "set /k");
  EXPECT_EQ(head_of("01 0200000000000000 \"/k\" 05"), "set /k");
  EXPECT_EQ(head_of("06 0200000000000000 0200000000000000 \"/k\""), "wait /k");
  EXPECT_EQ(head_of("06 0200000000000000 0200000000000000 \"/k\" 0100000000000000 \"x\""),
            "wait /k");
  EXPECT_EQ(head_of("06 0000000000000000"), "wait ");
  EXPECT_EQ(head_of("0B 0200000000000000 0100000000000000 \"k\" 0100000000000000 \"v\""),
            "multi_set k");
  EXPECT_EQ(head_of("0B 0200000000000000 0100000000000000 \"k\" 0100000000000000 \"v\" "
                    "0100000000000000 \"m\" 0000000000000000"),
            "multi_set k, k of 1, m of 0");
  EXPECT_EQ(head_of("01 0200000000000000 \"/k\" 0300000000000000 \"val\""), "set /k of 3");
  EXPECT_EQ(head_of("01 0200000000000000 \"/k\" 0000000000000000"), "set /k of 0");
  EXPECT_EQ(head_of("07"), "count_keys ");
  EXPECT_EQ(head_of("0D 01"), "ping ");
}

TEST(TcpStoreWire, RefusesLengthsBeforeTheBytesAreThere) {
  const MessageCutter v = cutter_of(Dialect::v);
  EXPECT_EQ(refusal(bytes_of("01 0120000000000000"), v),
            "too_large: set: the key has 8193 bytes, limit 8192");
  EXPECT_EQ(refusal(bytes_of("03 0000000000000080"), v),
            "too_large: get: the key has 9223372036854775808 bytes, limit 8192");
  EXPECT_EQ(refusal(bytes_of("01 0100000000000000 \"k\" 0100800000000000"), v),
            "too_large: set: the value has 8388609 bytes, limit 8388608");
  EXPECT_EQ(refusal(bytes_of("06 0100020000000000"), v),
            "too_large: wait: the message has 131073 keys, limit 131072");
  EXPECT_EQ(refusal(bytes_of("0B FFFFFFFFFFFFFFFF"), v),
            "too_large: multi_set: the message has 18446744073709551615 keys, limit 131072");
  EXPECT_EQ(refusal(bytes_of("01 0020000000000000"), v), "");
  EXPECT_EQ(refusal(bytes_of("01 0100000000000000 \"k\" 0000800000000000"), v), "");
  EXPECT_EQ(refusal(bytes_of("06 0000020000000000"), v), "");
}

TEST(TcpStoreWire, RefusesAMessageThatIsTooLongAltogether) {
  MessageCutter cutter = cutter_of(Dialect::v);
  Message message = sample(Query::multi_set);
  const Bytes value(limits::kValueBytes, 'x');
  message.keys.assign(8, "k");
  message.values.assign(8, value);
  Bytes bytes = encoded(Dialect::v, message);
  bytes.resize(bytes.size() - value.size());  // refused without the last value
  EXPECT_EQ(refusal(bytes, cutter),
            "too_large: multi_set: the message has 67109009 bytes, limit 67108864");
}

TEST(TcpStoreWire, RefusesWhatIsNoMessage) {
  const MessageCutter v = cutter_of(Dialect::v);
  EXPECT_EQ(refusal(bytes_of("13"), v), "unknown_op: unknown operation: code 19");
  EXPECT_EQ(refusal(bytes_of("FF"), v), "unknown_op: unknown operation: code 255");
  EXPECT_EQ(refusal(bytes_of("00 CFF7853C"), v),
            "malformed: validate: the magic number is 0x3c85f7cf, expected 0x3c85f7ce");
  EXPECT_EQ(refusal(bytes_of("0C")), "unknown_op: unknown operation: code 12");
  EXPECT_EQ(refusal(bytes_of("00 CFF7853C 00000000")),  // as an older dialect: the length of a key
            "too_large: set: the key has 1015412687 bytes, limit 8192");
  EXPECT_EQ(refusal(bytes_of("09"), MessageCutter(LegacyClients::l0)),
            "unknown_op: unknown operation: code 9");
}

TEST(TcpStoreWire, ReadsEachByteOfALongListOnlyOnce) {
  MessageCutter cutter = cutter_of(Dialect::v);
  Message message = sample(Query::wait);
  message.keys.assign(limits::kKeysPerRequest, "k");
  const Bytes bytes = encoded(Dialect::v, message);
  for (std::size_t n = 0; n < bytes.size(); ++n) {  // would take hours if it began anew each time
    ASSERT_FALSE(*cutter.cut(std::string_view(bytes).substr(0, n)));
  }
  ASSERT_TRUE(*cutter.cut(bytes));
  EXPECT_EQ(cutter.decode(bytes).keys.size(), limits::kKeysPerRequest);
}

TEST(TcpStoreWire, ReturnsEveryReplyAsItWas) {
  const auto expect = [](Query query, const Bytes& bytes, std::int64_t number,
                         std::vector<std::string_view> texts, std::size_t keys = 0) {
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const auto reply = cut_reply(std::string_view(bytes).substr(0, n), query, keys);
      ASSERT_TRUE(reply && !*reply) << name_of(query) << " " << n;
    }
    const Bytes more = bytes + "next";
    const auto reply = cut_reply(more, query, keys);
    ASSERT_TRUE(reply && *reply) << name_of(query);
    EXPECT_EQ((*reply)->number, number);
    EXPECT_EQ((*reply)->texts, texts);
    EXPECT_EQ((*reply)->size, bytes.size());
  };
  expect(Query::wait, bytes_of("00"), 0, {});
  expect(Query::cancel_wait, bytes_of("01"), 1, {});
  expect(Query::ping, bytes_of("16640000"), 25622, {});
  expect(Query::add, bytes_of("FEFFFFFFFFFFFFFF"), -2, {});
  expect(Query::get, bytes_of("0100000000000000 \"v\""), 0, {"v"});
  expect(Query::get, bytes_of("0000000000000000"), 0, {""});
  expect(Query::multi_get, bytes_of("0100000000000000 \"v\" 0000000000000000"), 0, {"v", ""}, 2);
  expect(Query::list_keys, bytes_of("0100000000000000 0200000000000000 \"/k\""), 1, {"/k"});
  expect(Query::queue_pop, bytes_of("0000000000000000"), 0, {});
  expect(Query::queue_pop, bytes_of("0200000000000000 0100000000000000 \"i\""), 2, {"i"});
  EXPECT_FALSE(has_reply(Query::set));
  EXPECT_TRUE(has_reply(Query::barrier));
}

TEST(TcpStoreWire, RefusesAReplyThatNoServerSends) {
  const auto refusal = [](Query query, std::string_view digits) {
    const auto reply = cut_reply(bytes_of(digits), query, 2);
    return reply ? "taken" : std::string(name_of(reply.error().code));
  };
  for (const Query query : {Query::check, Query::wait, Query::cancel_wait}) {
    EXPECT_EQ(refusal(query, "02"), "malformed") << name_of(query);
  }
  EXPECT_EQ(refusal(Query::watch_key, "03"), "taken");
  EXPECT_EQ(refusal(Query::watch_key, "04"), "malformed");
  EXPECT_EQ(refusal(Query::barrier, "01"), "malformed");
  for (const Query query : {Query::count_keys, Query::remove, Query::queue_length, Query::queue_pop,
                            Query::list_keys}) {
    EXPECT_EQ(refusal(query, "FFFFFFFFFFFFFFFF"), "malformed") << name_of(query);
  }
  const std::string_view largest = "0000000400000000";  // 64 MiB, and not one byte of it
  for (const Query query : {Query::get, Query::compare_set}) {
    EXPECT_EQ(refusal(query, "F8FFFF0300000000"), "taken") << "its length has 8 bytes, too";
    EXPECT_EQ(refusal(query, largest), "too_large");
    EXPECT_EQ(refusal(query, "FFFFFFFFFFFFFFFF"), "too_large");
  }
  EXPECT_EQ(refusal(Query::multi_get, "0100000000000000 \"v\" F0FFFF0300000000"), "too_large");
  EXPECT_EQ(refusal(Query::list_keys, "0000400000000000"), "taken");
  EXPECT_EQ(refusal(Query::list_keys, "0100400000000000"), "too_large");
}

}  // namespace
}  // namespace c10dd::tcpstore
