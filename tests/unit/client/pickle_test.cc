// SPDX-License-Identifier: Apache-2.0
// Pickles: what Python writes of plain values in each protocol, and what is refused, each with a
// sentence.
#include "client/ctl/pickle.h"

#include <gtest/gtest.h>

#include <string>

#include "protocol/format.h"

namespace c10dd::ctl {
namespace {

using namespace std::string_literals;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

/// Returns a value as Python would show it, but a tuple as a list.
std::string shown(const PlainValue& value) {
  if (value.is_none()) return "None";
  if (const bool* const one = value.if_bool()) return *one ? "True" : "False";
  if (const std::int64_t* const one = value.if_integer()) return std::to_string(*one);
  if (const double* const one = value.if_double()) return format("{}", *one);
  if (const std::string* const one = value.if_text()) return "'" + *one + "'";
  std::string text;
  for (const PlainValue& one : value.items()) text += (text.empty() ? "" : " ") + shown(one);
  return value.is_dict() ? "{" + text + "}" : "[" + text + "]";
}

std::string read(std::string_view bytes) {
  const Result<PlainValue> value = read_pickle(bytes);
  return value ? shown(*value) : "error: " + value.error().detail;
}

/// Appends a number with its low byte first.
std::string four(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

TEST(Pickle, ReadsWhatPythonWritesInAllProtocols) {
  // {'a': [1, -2, 300, 70000, 2**40, -2**40, 3.5, True, False, None, '\u20ac\n', (1, 2), (), 'ff'],
  //  'b': {'x': {}}}
  const std::string_view pickles[] = {
      "286470300a56610a70310a286c70320a49310a61492d320a61493330300a614937303030300a614c313039393531"
      "313632373737364c0a614c2d313039393531313632373737364c0a6146332e350a614930310a614930300a614e61"
      "565c75323061635c75303030610a70330a612849310a49320a7470340a612874615666660a70350a617356620a70"
      "360a286470370a56780a70380a286470390a73732e",
      "7d71002858010000006171015d7102284b014afeffffff4d2c014a701101004c313039393531313632373737364c"
      "0a4c2d313039393531313632373737364c0a47400c0000000000004930310a4930300a4e5804000000e282ac0a71"
      "03284b014b02747104295802000000666671056558010000006271067d710758010000007871087d710973752e",
      "80027d71002858010000006171015d7102284b014afeffffff4d2c014a701101008a060000000000018a06000000"
      "0000ff47400c00000000000088894e5804000000e282ac0a71034b014b0286710429580200000066667105655801"
      "0000006271067d710758010000007871087d710973752e",
      "80049558000000000000007d94288c0161945d94284b014afeffffff4d2c014a701101008a060000000000018a06"
      "0000000000ff47400c00000000000088894e8c04e282ac0a944b014b028694298c02666694658c0162947d948c01"
      "78947d9473752e"};
  for (const std::string_view hex : pickles) {
    EXPECT_EQ(read(bytes_of(hex)),
              "{'a' [1 -2 300 70000 1099511627776 -1099511627776 3.5 True False None '\u20ac\n' "
              "[1 2] [] 'ff'] 'b' {'x' {}}}");
  }
}

TEST(Pickle, SharesWhatIsTwiceInIt) {
  EXPECT_EQ(read("](]q\0K\1ah\0h\0e."s), "[[1] [1] [1]]");
  EXPECT_EQ(read("](X\1\0\0\0aq\0h\0000h\0002e."s), "['a' 'a' 'a']");
  const Result<PlainValue> dict = read_pickle("}(X\1\0\0\0aK\1X\1\0\0\0aK\2u."s);
  ASSERT_TRUE(dict);
  EXPECT_EQ(*dict->member("a")->if_integer(), 2) << "the later one counts";
  EXPECT_EQ(dict->member("b"), nullptr);
}

TEST(Pickle, ADamagedOneIsRefusedWithASentence) {
  const std::string good =
      bytes_of("80027d71002858010000006171015d710228474000000000000000654b07752e");
  EXPECT_EQ(read(good).substr(0, 5), "error") << "a dict with an odd number of values";
  const std::string whole = bytes_of(
      "80027d71002858010000006171015d7102284740000000000000006575"
      "2e");
  EXPECT_EQ(read(whole), "{'a' [2]}");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(read(whole.substr(0, size)),
              format("error: the pickle is cut short: it has only {} bytes; copy it again", size));
  }
  EXPECT_EQ(read(whole + "x"), "error: the pickle has 1 more bytes behind its end; it is damaged");
  EXPECT_EQ(read("\x80\x06N."s),
            "error: the pickle has protocol 6; c10ddctl reads protocols 0 to 5");
  EXPECT_EQ(read("PK\3\4"s).substr(0, 30), "error: the pickle has code in ");
  EXPECT_EQ(read("#!/bin/sh"s),
            "error: the pickle has the byte 0x23 at byte 0, which is no operation of plain values; "
            "is it a flight record?");
  const auto damaged = [](int at, std::string_view what) {
    return format("error: the pickle is damaged: the operation at byte {} {}", at, what);
  };
  EXPECT_EQ(read("."s), damaged(0, "ends it too early"));
  EXPECT_EQ(read("(N."s), damaged(2, "ends it too early"));
  EXPECT_EQ(read("NN."s), damaged(2, "ends it too early"));
  EXPECT_EQ(read("Na."s), damaged(1, "lacks its values"));
  EXPECT_EQ(read("NNa."s), damaged(2, "has no list or dict to fill"));
  EXPECT_EQ(read("}Na."s), damaged(2, "has no list or dict to fill"));
  EXPECT_EQ(read("](NNu."s), damaged(4, "has no list or dict to fill"));
  EXPECT_EQ(read("}(Nu."s), damaged(3, "has a key without a value"));
  EXPECT_EQ(read("(Nd."s), damaged(2, "has a key without a value"));
  EXPECT_EQ(read("]e."s), damaged(1, "lacks its mark"));
  EXPECT_EQ(read("(0."s), damaged(1, "lacks its values"));
  EXPECT_EQ(read("N\x86."s), damaged(1, "lacks its values"));
  EXPECT_EQ(read("h\0."s), damaged(0, "asks for what is not in the memo"));
  EXPECT_EQ(read("Nq\1."s), damaged(1, "skips a number of the memo"));
  EXPECT_EQ(read("Nr\xff\xff\xff\xff."s), damaged(1, "skips a number of the memo"));
  EXPECT_EQ(read("q\0."s), damaged(0, "lacks its values"));
  EXPECT_EQ(read("I1x\n."s), damaged(0, "has no number"));
  EXPECT_EQ(read("L99999999999999999999L\n."s), damaged(0, "has no number"));
  EXPECT_EQ(read("\x8a\x09"s + std::string(9, '\1') + "."s), damaged(0, "has more than 64 bits"));
  EXPECT_EQ(read("V\\u12\n."s), damaged(0, "has a wrong escape"));
  EXPECT_EQ(read("V\\U00110000\n."s), damaged(0, "has a wrong escape"));
  EXPECT_EQ(read("X\xff\xff\xff\xff"s + "a"s),
            "error: the pickle is cut short: it has only 6 bytes; copy it again");
}

TEST(Pickle, RunsNothing) {
  // os.system("true"), as an attack would have it; and each operation that is code.
  EXPECT_EQ(read("cos\nsystem\n(S'true'\ntR."s),
            "error: the pickle has code in it, the operation 0x63 at byte 0, which c10ddctl does "
            "not run; flight records have none");
  for (const char op : "cRbioPQ\x81\x82\x83\x84\x92\x93\x97\x98"s) {
    EXPECT_NE(read("NN"s + op).find("has code in it"), std::string::npos) << int{op};
  }
}

TEST(Pickle, ADeepOneIsRefusedWithoutRecursion) {
  const std::string deep =
      "error: the pickle has more than 64 lists and dicts in one another, at byte ";
  constexpr std::size_t kMany = 10'000;
  const auto nested = [](std::size_t depth) {
    return std::string(depth, ']') + std::string(depth - 1, 'a') + ".";
  };
  EXPECT_EQ(read(nested(64)), std::string(64, '[') + std::string(64, ']'));
  EXPECT_EQ(read(nested(kMany)).substr(0, deep.size()), deep);
  EXPECT_EQ(read(std::string(kMany, '(')), deep + "64; no record has");
  std::string tuples = ")";
  for (std::size_t i = 0; i < kMany; ++i) tuples += '\x85';
  EXPECT_EQ(read(tuples + ".").substr(0, deep.size()), deep);
}

TEST(Pickle, NoCyclesAndNoExplosion) {
  const std::string changes = "changes a list or dict that is in another one";
  EXPECT_NE(read("]q\0h\0a."s).find(changes), std::string::npos) << "a list in itself";
  EXPECT_NE(read("}q\0(X\1\0\0\0ah\0u."s).find(changes), std::string::npos);
  EXPECT_NE(read("]q\0]q\1h\0ah\0h\1a."s).find(changes), std::string::npos) << "two in each other";
  EXPECT_NE(read("]q\0\x85h\0h\0a."s).find(changes), std::string::npos) << "filled afterwards";
  // Each list has the one before twice: 2 to the power of 60 values.
  std::string laughs = "]q\0"s;
  for (char i = 0; i < 60; ++i) {
    laughs += "0](h"s + i + "h"s + i + "eq"s + static_cast<char>(i + 1);
  }
  EXPECT_EQ(read(laughs + "."),
            "error: the pickle has more than 16777216 values; write a shorter record");
  // A long text is shared, not copied.
  std::string texts = "](X"s + four(1 << 20) + std::string(1 << 20, 'x') + "q\0"s;
  for (int i = 0; i < 10'000; ++i) texts += "h\0"s;
  const Result<PlainValue> many = read_pickle(texts + "e.");
  ASSERT_TRUE(many);
  EXPECT_EQ(many->items().size(), 10'001u);
}

}  // namespace
}  // namespace c10dd::ctl
