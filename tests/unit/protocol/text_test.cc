// SPDX-License-Identifier: Apache-2.0
// Texts of people and for people: what they write as an address or a number, what is wrong with
// other texts, and what is shown of a text that comes from outside.
#include <gtest/gtest.h>

#include <string>

#include "protocol/address.h"
#include "protocol/parse.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

TEST(Address, SplitsHostAndPort) {
  const Result<AddressParts> both = split_address("node-7:29500");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->host, "node-7");
  EXPECT_EQ(both->port, "29500");
  EXPECT_FALSE(both->bracketed);
  const Result<AddressParts> v6 = split_address("[fe80::1%eth0]:9");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "fe80::1%eth0");
  EXPECT_EQ(v6->port, "9");
  EXPECT_TRUE(v6->bracketed);
}

TEST(Address, TellsAMissingPortFromAnEmptyOne) {
  EXPECT_EQ(split_address("host")->port, std::nullopt);
  EXPECT_EQ(split_address("[::1]")->port, std::nullopt);
  EXPECT_EQ(split_address("host:")->port, "");
}

TEST(Address, SaysWhatIsWrong) {
  const auto fault = [](std::string_view text) { return split_address(text).error().detail; };
  EXPECT_EQ(fault(""), "the host is empty");
  EXPECT_EQ(fault(":1"), "the host is empty");
  EXPECT_EQ(fault("[]:1"), "the host is empty");
  EXPECT_EQ(fault("[::1"), "the host has no closing bracket");
  EXPECT_EQ(fault("[::1]x"),
            "the host's closing bracket is followed by something other than a port");
  const std::string colons =
      "there are several colons: write host:port, and an IPv6 host in brackets, as in [::1]:29500";
  EXPECT_EQ(fault("::1"), colons);
  EXPECT_EQ(fault("a:1:2"), colons);
}

TEST(Address, IsWrittenAsItIsRead) {
  EXPECT_EQ(address_text("node-7", 1), "node-7:1");
  EXPECT_EQ(address_text("::1", 65535), "[::1]:65535");
  EXPECT_EQ(split_address(address_text("::1", 1))->host, "::1");
}

TEST(ParseNumber, TakesOnlyAWholeNumberInRange) {
  EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<std::int64_t>("-7"), -7);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "0x1", "65536", "-1"}) {
    EXPECT_EQ(parse_number<std::uint16_t>(bad), std::nullopt) << bad;
  }
}

constexpr std::size_t kAll = std::string::npos;

TEST(Printable, HasNoControlCharactersAndNoChangesOfDirection) {
  EXPECT_EQ(printable("a\nb\x1b\x7f", kAll), "a?b??");
  EXPECT_EQ(printable("\u0080\u009f|\u00a0", kAll), "??|\u00a0") << "C1";
  EXPECT_EQ(printable("\u061c\u200e\u200f\u2027", kAll), "???\u2027");
  EXPECT_EQ(printable("\u2028\u2029\u202a\u202e\u202f", kAll), "????\u202f");
  EXPECT_EQ(printable("\u2066\u2069\u206a", kAll), "??\u206a");
  EXPECT_EQ(printable("\u00fc \u05d0 \U0001f600", kAll), "\u00fc \u05d0 \U0001f600");
}

TEST(RankText, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(process_text("node9", 7), "node9 (pid 7)");
  EXPECT_EQ(process_text("node9", 0), "node9");
  EXPECT_EQ(rank_text(3, "node9", 7), "rank 3 on node9 (pid 7)");
  EXPECT_EQ(rank_text(3, "", 7), "rank 3");
}

TEST(WordOrQuoted, LeavesPlainWordsAndQuotesTheRest) {
  for (const char* plain : {"digits", "a.b_c:d/e@f+g-h", "[::1]:29500", "[0-2,7]"}) {
    EXPECT_EQ(word_or_quoted(plain), plain);
  }
  EXPECT_EQ(word_or_quoted(""), "\"\"");
  EXPECT_EQ(word_or_quoted("a b"), "\"a b\"");
  EXPECT_EQ(word_or_quoted("a=b"), "\"a=b\"");
  EXPECT_EQ(word_or_quoted("a\"\\"), "\"a\\\"\\\\\"");
  EXPECT_EQ(word_or_quoted("a\nevent=b"), "\"a?event=b\"");
  EXPECT_EQ(word_or_quoted("\u202e"), "\"?\"");
  EXPECT_EQ(word_or_quoted("\u00fc"), "\"\u00fc\"");
}

}  // namespace
}  // namespace c10dd
