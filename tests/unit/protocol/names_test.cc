// SPDX-License-Identifier: Apache-2.0
// Which texts are names: those that look different are different, and what is wrong is said.
#include "protocol/names.h"

#include <gtest/gtest.h>

#include <string>

#include "protocol/limits.h"

namespace c10dd {
namespace {

using namespace std::string_literals;

std::string why(const std::string& name) {
  const Result<void> good = check_name("job", name);
  return good ? "" : good.error().detail;
}

TEST(Names, AreTextThatCanBeSeen) {
  for (const std::string& name :
       {"a"s, "llm-7b.run_2"s, "two words"s, "\xc3\xa9t\xc3\xa9"s, "\xe8\xae\xad\xe7\xbb\x83"s,
        "\xf0\x9f\x9a\x80"s, "100%"s, std::string(limits::kNameBytes, 'x')}) {
    EXPECT_EQ(why(name), "") << name;
  }
  EXPECT_TRUE(check_name_or_none("run", ""));
}

TEST(Names, HaveNoBlankAtTheirEnds) {
  for (const std::string& blank :
       {" "s, "\xc2\xa0"s, "\xe1\x9a\x80"s, "\xe2\x80\x80"s, "\xe2\x80\x8a"s, "\xe2\x80\xaf"s,
        "\xe2\x81\x9f"s, "\xe2\xa0\x80"s, "\xe3\x80\x80"s}) {
    EXPECT_EQ(why(blank + "a").find("the job name \"" + blank + "a\" begins with a blank;"), 0U);
    EXPECT_EQ(why("a" + blank).find("the job name \"a" + blank + "\" ends with a blank;"), 0U);
    EXPECT_NE(why(blank), "");
    EXPECT_EQ(why("a" + blank + "b"), "");
  }
}

TEST(Names, HaveNoCharacterThatCannotBeSeen) {
  const std::pair<std::string, const char*> cases[] = {
      {"\0"s, "U+0000"},
      {"\n", "U+000A"},
      {"\t", "U+0009"},
      {"\x7f", "U+007F"},
      {"\xc2\x85", "U+0085"},
      {"\xc2\xad", "U+00AD"},
      {"\xd8\x9c", "U+061C"},
      {"\xe1\x85\x9f", "U+115F"},
      {"\xe2\x80\x8b", "U+200B"},
      {"\xe2\x80\x8d", "U+200D"},
      {"\xe2\x80\x8f", "U+200F"},
      {"\xe2\x80\xa8", "U+2028"},
      {"\xe2\x80\xae", "U+202E"},
      {"\xe2\x81\xa0", "U+2060"},
      {"\xe2\x81\xa9", "U+2069"},
      {"\xe3\x85\xa4", "U+3164"},
      {"\xef\xb7\x90", "U+FDD0"},
      {"\xef\xb8\x8f", "U+FE0F"},
      {"\xef\xbb\xbf", "U+FEFF"},
      {"\xef\xbf\xbe", "U+FFFE"},
      {"\xef\xbf\xbf", "U+FFFF"},
      {"\xf0\x9f\xbf\xbe", "U+1FFFE"},
      {"\xf3\xa0\x80\xa1", "U+E0021"},
      {"\xf4\x8f\xbf\xbf", "U+10FFFF"},
  };
  for (const auto& [character, code] : cases) {
    const std::string text = "has the character "s + code + " at byte 2;";
    EXPECT_NE(why("ab" + character + "c").find(text), std::string::npos) << code;
    EXPECT_NE(why("ab" + character).find(text), std::string::npos) << code;
    EXPECT_NE(why(character), "") << code;
  }
}

TEST(Names, SayWhatIsWrongAndWhatToDo) {
  EXPECT_EQ(why(""), "the job name is empty; use 1 to 255 bytes of UTF-8");
  EXPECT_EQ(why("a\xff"),
            "the job name \"a?\" is no UTF-8 at byte 1; use 1 to 255 bytes of UTF-8 without "
            "invisible characters, and without a blank at the begin or end");
  for (const std::string& bad : {"\xc3"s, "\xed\xa0\x80"s, "\xc0\xaf"s, "\xf4\x90\x80\x80"s}) {
    EXPECT_NE(why("a" + bad).find("is no UTF-8 at byte 1"), std::string::npos);
  }
  EXPECT_NE(why(std::string(256, 'x')).find("has 256 bytes; use 1 to 255 bytes"),
            std::string::npos);
  EXPECT_LT(why(std::string(100'000, 'x')).size(), 400U);
}

}  // namespace
}  // namespace c10dd
