// SPDX-License-Identifier: Apache-2.0
// JSON: numbers as people write them, all else as Boost.JSON does. Texts of others: what
// printable() and its kin replace, keep and cut.
#include "protocol/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cfloat>
#include <cstdlib>
#include <limits>

#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::json {
namespace {

TEST(JsonText, NumbersAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(text_of(498.917284322), "498.917284322");
  EXPECT_EQ(text_of(1.5e-7), "0.00000015");
  EXPECT_EQ(text_of(90.0), "90");
  EXPECT_EQ(text_of(-7), "-7");
  EXPECT_EQ(text_of(std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonText, AllElseIsAsItWasParsed) {
  const char* text = R"({"a":[1,-2.5,"x\"y\n",null,true,{}],"":{"b":[]}})";
  EXPECT_EQ(text_of(boost::json::parse(text)), text);
}

TEST(JsonText, EveryNumberIsReadBackAsItWas) {
  for (const double number : {DBL_MAX, -DBL_MAX, DBL_MIN, DBL_TRUE_MIN, 0.1, 1.0 / 3}) {
    EXPECT_EQ(std::strtod(text_of(number).c_str(), nullptr), number);
  }
}

TEST(Printable, ReplacesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\x1b[31mb\x7F\n\t", 99), "a?[31mb???");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m",
                      99),
            "?31m")
      << "begins an escape sequence, too";
  EXPECT_EQ(printable("\xC2\x80\xC2\x9F\xC2\xA0\xC3\xA9", 99), "??\xC2\xA0\xC3\xA9");
  EXPECT_EQ(printable("\x9B\xFF", 99), "??");
}

TEST(Printable, CutsAtACharacter) {
  EXPECT_EQ(printable("a\xC3\xA9z", 2), "a");
  EXPECT_EQ(printable("a\xC3\xA9z", 3), "a\xC3\xA9");
  EXPECT_EQ(foreign_text(std::string(1'000, 'x')).size(), limits::kForeignTextBytes);
}

TEST(Printable, KeepsLinesIfItIsToldTo) {
  EXPECT_EQ(printable_lines(""), "");
  EXPECT_EQ(printable_lines("a\x1b\n\nb\r\n"), "a?\n\nb?\n");
  EXPECT_EQ(printable_lines("\nb"), "\nb");
}

}  // namespace
}  // namespace c10dd::json
