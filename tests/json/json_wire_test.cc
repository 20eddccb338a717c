// SPDX-License-Identifier: Apache-2.0
// The JSON form of every operation, base64 and UTF-8.
#include "tests/json/json_wire.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "protocol/base64.h"
#include "protocol/utf8.h"
#include "tests/unit/protocol/wire_samples.h"

namespace c10dd::json {
namespace {

void expect_valid(const std::string& text) {
  boost::json::error_code failed;
  EXPECT_TRUE(boost::json::parse(text, failed).is_object()) << text;
  EXPECT_FALSE(failed) << text;
  EXPECT_TRUE(is_utf8(text)) << text;
}

TEST(JsonWire, WritesEveryRequestAndReplyAsValidJson) {
  samples::for_each_request(1,
                            [](const Request& request) { expect_valid(encode_request(request)); });
  samples::for_each_reply(
      2, [](std::uint8_t, const Reply& reply) { expect_valid(encode_reply_body(reply)); });
}

TEST(JsonWire, WritesPlainTextPlainly) {
  EXPECT_EQ(encode_request(Append{"rank/0", "10.0.0.1"}), R"({"key":"rank/0","value":"10.0.0.1"})");
  EXPECT_EQ(encode_request(Append{"k", "\xFF\xFE"}), R"({"key":"k","value":{"base64":"//4="}})");
  EXPECT_EQ(encode_request(Set{"k", "v", std::chrono::seconds(2), true}),
            R"({"key":"k","value":"v","ttl":2,"ephemeral":true})");
  EXPECT_EQ(encode_request(Get{"k", std::chrono::milliseconds(1500)}),
            R"({"key":"k","timeout":1.5,"waited":0})");
  EXPECT_EQ(encode_reply_body(ReplyBody(Counter{-3})), R"({"value":-3})");
}

TEST(JsonWire, NamesTheKindsInsideATransaction) {
  Transact request;
  request.conditions.push_back({Condition::Kind::revision_is, "a", "", 7});
  const std::string text = encode_request(request);
  EXPECT_NE(text.find(R"({"kind":"revision_is","key":"a","value":"","revision":7})"),
            std::string::npos)
      << text;
  EXPECT_EQ(
      encode_reply_body(ReplyBody(Changes{{{3, true, "k", ""}}, 4, 0})),
      R"({"changes":[{"revision":3,"removed":true,"key":"k","value":""}],"next":4,"skip":0})");
}

TEST(JsonWire, WritesAFailureWithItsCodeByName) {
  Failure reason = failure(Code::not_owner, "elsewhere");
  reason.addresses = {"10.0.0.2:29500"};
  const std::string text = encode_reply_body(reason);
  EXPECT_NE(text.find(R"("code":"not_owner")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("detail":"elsewhere")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("addresses":["10.0.0.2:29500"])"), std::string::npos) << text;
}

TEST(JsonWire, MakesLabelNamesThatAreNoTextPrintable) {
  Hello hello;
  hello.labels["a\xFF"] = "1";
  const std::string text = encode_request(hello);
  EXPECT_TRUE(is_utf8(text));
  EXPECT_NE(text.find(R"("a?":"1")"), std::string::npos) << text;
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

TEST(Base64, TakesOnlyTheCanonicalForm) {
  for (const char* bad : {"TQ", "TQ=", "TR==", "T===", "====", "TQ==TQ==", "T!==", "TQ==\n",
                          "AAAAAAAAAAAAAAAAAAAAAAA"}) {
    EXPECT_FALSE(base64_decode(bad)) << bad;
  }
  EXPECT_EQ(base64_decode("TQ=="), "M");
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
