// SPDX-License-Identifier: Apache-2.0
// Numbers as people write them, all else as Boost.JSON does.
#include "protocol/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cfloat>
#include <cstdlib>
#include <limits>

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

}  // namespace
}  // namespace c10dd::json
