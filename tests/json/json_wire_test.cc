// SPDX-License-Identifier: Apache-2.0
// The JSON form of every operation, and what its reader says to what it cannot take.
#include "tests/json/json_wire.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "protocol/utf8.h"
#include "tests/json/base64.h"
#include "tests/unit/protocol/wire_samples.h"

namespace c10dd::json {
namespace {

using samples::bytes_of;

std::string error_of(std::string_view op, std::string_view text) {
  const Result<Request> request = decode_request(op, text);
  if (request) return "none";
  return std::string(name_of(request.error().code)) + ": " + request.error().detail;
}

TEST(JsonWire, ReturnsEveryRequestAsItWas) {
  samples::for_each_request(1, [](const Request& request) {
    const std::string text = encode_request(request);
    EXPECT_TRUE(is_utf8(text));
    const Result<Request> decoded = decode_request(info_of(request).name, text);
    ASSERT_TRUE(decoded) << decoded.error().detail << ": " << text;
    EXPECT_EQ(bytes_of(*decoded), bytes_of(request)) << text;
  });
}

TEST(JsonWire, WritesEveryAnswerAsValidJson) {
  samples::for_each_reply(2, [](std::uint8_t, const Reply& reply) {
    const std::string text = encode_reply_body(reply);
    boost::json::error_code failed;
    EXPECT_TRUE(boost::json::parse(text, failed).is_object()) << text;
    EXPECT_FALSE(failed);
  });
}

TEST(JsonWire, WritesPlainTextPlainly) {
  EXPECT_EQ(encode_request(Append{"rank/0", "10.0.0.1"}), R"({"key":"rank/0","value":"10.0.0.1"})");
  EXPECT_EQ(encode_request(Append{"k", "\xFF\xFE"}), R"({"key":"k","value":{"base64":"//4="}})");
  EXPECT_EQ(encode_request(Set{"k", "v", std::chrono::seconds(2), true}),
            R"({"key":"k","value":"v","ttl":2,"ephemeral":true})");
  EXPECT_EQ(encode_request(Get{"k", std::chrono::milliseconds(1500)}),
            R"({"key":"k","timeout":1.5})");
  EXPECT_EQ(encode_reply_body(ReplyBody(Counter{-3})), R"({"value":-3})");
}

TEST(JsonWire, WritesAFailureWithItsCodeByName) {
  Failure reason = failure(Code::not_owner, "elsewhere");
  reason.addresses = {"10.0.0.2:29500"};
  const std::string text = encode_reply_body(reason);
  EXPECT_NE(text.find(R"("code":"not_owner")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("detail":"elsewhere")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("addresses":["10.0.0.2:29500"])"), std::string::npos) << text;
}

TEST(JsonWire, TakesDefaultsForAbsentFields) {
  const Result<Request> request = decode_request("exchange", R"({"group":"g","shape":"to_root"})");
  ASSERT_TRUE(request);
  EXPECT_EQ(std::get<Exchange>(*request).shape, Shape::to_root);
  EXPECT_EQ(std::get<Exchange>(*request).world_size, 0u);
  EXPECT_TRUE(decode_request("ping", "{}"));
}

TEST(JsonWire, NamesTheKindsInsideATransaction) {
  const std::string text =
      R"({"conditions":[{"kind":"revision_is","key":"a","value":"","revision":7},)"
      R"({"kind":"absent","key":"b"}],"actions":[{"kind":"push","key":"q","value":"x"},)"
      R"({"key":"n","kind":"add","delta":-2},{"key":"e","ephemeral":true,"ttl":1.5}]})";
  const Result<Request> request = decode_request("transact", text);
  ASSERT_TRUE(request) << request.error().detail;
  const auto& transact = std::get<Transact>(*request);
  ASSERT_EQ(transact.conditions.size(), 2u);
  EXPECT_EQ(transact.conditions[0].kind, Condition::Kind::revision_is);
  EXPECT_EQ(transact.conditions[0].revision, 7u);
  EXPECT_EQ(transact.conditions[1].kind, Condition::Kind::absent);
  ASSERT_EQ(transact.actions.size(), 3u);
  EXPECT_EQ(transact.actions[0].kind, Action::Kind::push);
  EXPECT_EQ(transact.actions[1].delta, -2);
  EXPECT_EQ(transact.actions[2].kind, Action::Kind::set);
  EXPECT_TRUE(transact.actions[2].ephemeral);
  EXPECT_EQ(transact.actions[2].ttl, std::chrono::milliseconds(1500));
  EXPECT_NE(encode_request(*request).find(R"("kind":"revision_is")"), std::string::npos);
  EXPECT_EQ(
      encode_reply_body(ReplyBody(Changes{{{3, true, "k", ""}}, 4, 0})),
      R"({"changes":[{"revision":3,"removed":true,"key":"k","value":""}],"next":4,"skip":0})");
}

TEST(JsonWire, ReadsDurationsToTheMicrosecond) {
  const auto timeout = [](const std::string& seconds) {
    return std::get<Get>(decode_request("get", "{\"timeout\":" + seconds + "}").value()).timeout;
  };
  EXPECT_EQ(timeout("4.22"), std::chrono::milliseconds(4220));
  EXPECT_EQ(timeout("-0.5"), std::chrono::milliseconds(-500));
  EXPECT_EQ(timeout("30"), std::chrono::seconds(30));
  EXPECT_EQ(timeout("0.0000014"), std::chrono::microseconds(1));
  EXPECT_EQ(timeout("31536001"), std::chrono::seconds(31'536'001));  // over the longest ttl
  EXPECT_EQ(timeout("9e9"), std::chrono::seconds(4'000'000'000));
}

TEST(JsonWire, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("sett", "{}"), "unknown_op: unknown operation: \"sett\"");
  EXPECT_EQ(error_of("\xFF\n", "{}"), "unknown_op: unknown operation: \"??\"");
  EXPECT_EQ(error_of("set", "[]"), "invalid_argument: body: a JSON object is expected");
  EXPECT_EQ(error_of("set", ""), "invalid_argument: body: incomplete JSON");
  EXPECT_EQ(error_of("set", R"({"key":"a","valu":"b"})"),
            "invalid_argument: set: unknown field \"valu\"");
  EXPECT_EQ(error_of("set", R"({"key":7})"),
            "invalid_argument: set: field \"key\" has the wrong type or range");
  const char* const ill_typed[][2] = {
      {"add", R"({"delta":1.5})"},
      {"add", R"({"delta":9223372036854775808})"},
      {"barrier", R"({"rank":-1})"},
      {"barrier", R"({"rank":4294967296})"},
      {"hello", R"({"version_min":256})"},
      {"hello", R"({"labels":{"a":1}})"},
      {"hello", R"({"session":[1]})"},
      {"hello", R"({"seen":[1,2,"3"]})"},
      {"wait", R"({"keys":"a"})"},
      {"wait", R"({"keys":["a",1]})"},
      {"wait", R"({"timeout":1e300})"},
      {"wait", R"({"timeout":"5s"})"},
      {"exchange", R"({"shape":"square"})"},
      {"exchange", R"({"shape":0})"},
      {"set", R"({"ephemeral":1})"},
      {"set", R"({"ephemeral":"true"})"},
      {"set", R"({"ttl":"1s"})"},
      {"transact", R"({"conditions":[{"kind":"fly"}]})"},
      {"transact", R"({"conditions":[{"kind":2}]})"},
      {"transact", R"({"actions":[{"kinds":"set"}]})"},
      {"transact", R"({"actions":[["set"]]})"},
      {"watch", R"({"prefix":null})"},
      {"watch", R"({"skip":-1})"},
      {"report", R"({"collectives":[{"count":-1}]})"},
      {"report", R"({"collectives":[{"counts":1}]})"},
  };
  for (const auto& [op, text] : ill_typed) {
    EXPECT_TRUE(error_of(op, text).ends_with("has the wrong type or range")) << op << text;
  }
}

TEST(JsonWire, RefusesBytesThatAreNoJson) {
  for (const std::string& text :
       {std::string("{\"key\":\"\xFF\"}"), std::string("{\"key\":\"a\"} x"), std::string("{]"),
        "{\"keys\":" + std::string(40, '[') + std::string(40, ']') + "}"}) {
    EXPECT_TRUE(error_of("set", text).starts_with("invalid_argument: body: ")) << text;
  }
}

TEST(JsonWire, TakesOnlyCanonicalBase64) {
  for (const char* bad : {"TQ", "TQ=", "TR==", "T===", "====", "TQ==TQ==", "T!==", "TQ==\\n",
                          "AAAAAAAAAAAAAAAAAAAAAAA"}) {
    const std::string text = R"({"key":{"base64":")" + std::string(bad) + R"("}})";
    EXPECT_NE(error_of("get", text), "none") << bad;
  }
  EXPECT_NE(error_of("get", R"({"key":{"base64":"TQ==","more":1}})"), "none");
  const Result<Request> good = decode_request("get", R"({"key":{"base64":"TQ=="}})");
  ASSERT_TRUE(good);
  EXPECT_EQ(std::get<Get>(*good).key, "M");
}

TEST(JsonWire, MakesLabelNamesThatAreNoTextPrintable) {
  Hello hello;
  hello.labels["a\xFF"] = "1";
  const std::string text = encode_request(hello);
  EXPECT_TRUE(is_utf8(text));
  EXPECT_NE(text.find(R"("a?":"1")"), std::string::npos) << text;
}

TEST(JsonWire, SurvivesMutatedText) {
  std::vector<std::pair<std::string_view, std::string>> texts;
  samples::for_each_request(3, [&](const Request& request) {
    texts.emplace_back(info_of(request).name, encode_request(request));
  });
  std::mt19937_64 random(4);
  for (int i = 0; i < 50'000; ++i) {
    auto [op, text] = texts[random() % texts.size()];
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.insert(at, 1, "{}[]\",:0=\\"[random() % 10]);
          break;
        default:
          text.erase(at, 1 + random() % 3);
          break;
      }
      if (text.empty()) text = "{}";
    }
    const Result<Request> request = decode_request(op, text);
    if (!request) continue;
    const Result<Request> again = decode_request(op, encode_request(*request));
    ASSERT_TRUE(again) << text;
    ASSERT_EQ(encode_request(*again), encode_request(*request)) << text;
  }
}

TEST(Base64, ReturnsBytesOfEveryLength) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    const std::string text = base64_encode(bytes);
    EXPECT_EQ(text.size(), (bytes.size() + 2) / 3 * 4);
    EXPECT_EQ(base64_decode(text), bytes);
    bytes.push_back(static_cast<char>(i * 37));
  }
  EXPECT_EQ(base64_encode("Man"), "TWFu");
  EXPECT_EQ(base64_encode("Ma"), "TWE=");
}

TEST(Utf8, AcceptsExactlyWhatIsWellFormed) {
  for (const char* good : {"", "a", "\x7F", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xC3(", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xFE"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Utf8, ShowsUntrustedTextWithinItsLimit) {
  EXPECT_EQ(printable("caf\xC3\xA9\n\x01\xFF!", 100), "caf\xC3\xA9\?\?\?!");
  EXPECT_EQ(printable("caf\xC3\xA9", 4), "caf");
  EXPECT_EQ(printable("\xE2\x82", 100), "??");
  EXPECT_EQ(printable("abc", 0), "");
}

}  // namespace
}  // namespace c10dd::json
