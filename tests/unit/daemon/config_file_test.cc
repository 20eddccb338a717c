// SPDX-License-Identifier: Apache-2.0
// Configuration files that could exhaust the stack of the parser.
#include "daemon/config/config_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/temporary_directory.h"

namespace c10dd::daemon {
namespace {

class ConfigFile : public testing::Test {
 protected:
  std::string path() const { return directory_.path() + "/c10dd.toml"; }
  Result<std::vector<ConfigEntry>> read(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    return read_config(path());
  }
  std::string refused(const std::string& text) const {
    const auto entries = read(text);
    return entries ? "" : entries.error().detail;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ConfigFile, FilesThatNestTooDeepAreRefusedBeforeTheyAreParsed) {
  const auto times = [](std::size_t n, const std::string& text) {
    std::string all;
    for (std::size_t i = 0; i < n; ++i) all += text;
    return all;
  };
  constexpr std::size_t kMany = 50'000;
  const std::string deep[] = {
      times(kMany, "a.") + "a = 1\n",
      times(kMany, "'a' . ") + "a = 1\n",
      "[" + times(kMany, "a.") + "a]\n",
      "[[" + times(kMany, "a.") + "a]]\n",
      "a = " + times(kMany, "[") + "\n",
      "a = " + times(kMany, "[") + times(kMany, "]") + "\n",
      "a = " + times(kMany, "[\n"),
      times(kMany, "a = {") + "\n",
      times(kMany, "a = [{"),
      "a = {b = {" + times(31, "c.") + "d = 1}}\n",
      "a = '''x'''''\nb = \"\"\"y\\\"\"\"\"\nc = \"\\\"\" # \"\n" + times(kMany, "a.") + "a = 1\n",
  };
  for (const std::string& text : deep) {
    const std::string error = refused(text);
    EXPECT_NE(error.find(": values are nested deeper than the limit of 32 levels"), error.npos)
        << text.substr(0, 60) << " -> " << error.substr(0, 200);
  }
  EXPECT_EQ(refused("log_level = \"info\"\n\n" + times(33, "a.") + "a = 1\n"),
            "config " + path() +
                ":3: values are nested deeper than the limit of 32 levels; "
                "write each option as a line key = value");
  for (const std::string& text :
       {times(32, "a.") + "a = 1\n", "a = " + times(32, "[") + times(32, "]") + "\n"}) {
    EXPECT_EQ(refused(text), "");
  }
}

TEST_F(ConfigFile, DotsAndBracketsInStringsAndCommentsAreNoNesting) {
  const std::string many = std::string(40, '.') + std::string(40, '[') + std::string(40, '{');
  const auto value_of = [&](const std::string& text) {
    const auto entries = read(text);
    return entries && !entries->empty() ? entries->front().text : "refused";
  };
  EXPECT_EQ(value_of("# " + many + "\na = \"\\\"" + many + "\"  # " + many + "\nb = '''c'''\n"),
            '"' + many);
  EXPECT_EQ(value_of("a = '" + many + "'\n"), many);
  EXPECT_EQ(value_of("a = \"\"\"" + many + "\"\"\"\n"), many);
}

}  // namespace
}  // namespace c10dd::daemon
