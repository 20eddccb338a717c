// SPDX-License-Identifier: Apache-2.0
// Modules that are missing, damaged, of another build, or come later.
#include "client/internal/module_loader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/client/thrown_error.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::client {
namespace {

constexpr char kPathVariable[] = "C10DD_FAKE_MODULE_PATH";

class ModuleLoaderTest : public testing::Test {
 protected:
  ModuleLoaderTest() {
    for (const std::string& folder : {first_, second_}) std::filesystem::create_directory(folder);
    setenv(kPathVariable, (first_ + "::" + second_).c_str(), 1);
  }
  ~ModuleLoaderTest() override { unsetenv(kPathVariable); }

  /// Each test has modules of its own, because a loaded module is remembered.
  static Result<const ModuleHead*> load(const char* prefix, const char* name,
                                        const char* symbol = "c10dd_fake_module") {
    return load_module({.what = "thing",
                        .file_prefix = prefix,
                        .symbol = symbol,
                        .path_variable = kPathVariable,
                        .remedy = "; install it",
                        .abi = 7,
                        .setup_bytes = 24},
                       name);
  }
  static void put_module(const std::string& path) {
    std::filesystem::create_symlink(C10DD_FAKE_MODULE, path);
  }

  TemporaryDirectory home_;
  const std::string first_ = home_.path() + "/first";
  const std::string second_ = home_.path() + "/second";
};

TEST_F(ModuleLoaderTest, FindsAModuleInALaterFolderAndRemembersIt) {
  put_module(second_ + "/found_a.so");
  const auto module = load("found_", "a");
  ASSERT_TRUE(module) << module.error().detail;
  EXPECT_EQ((*module)->abi, 7u);
  std::filesystem::remove(second_ + "/found_a.so");
  const auto again = load("found_", "a");
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *module);
  EXPECT_FALSE(load("found_", "b")) << "another name";
  EXPECT_FALSE(load("other_", "a")) << "another kind";
}

TEST_F(ModuleLoaderTest, SaysWhereItHasSearchedAndSearchesAgain) {
  const auto missing = load("late_", "a");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::invalid_argument);
  EXPECT_TRUE(test::has(missing.error().detail, "thing \"a\" not found: no file late_a.so in " +
                                                    first_ + ", " + second_ + ", "));
  EXPECT_TRUE(test::has(missing.error().detail,
                        "or the folders of ldconfig; set C10DD_FAKE_MODULE_PATH to its folder; "
                        "install it"));
  const auto library = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_TRUE(test::has(missing.error().detail,
                        (library / ".." / "lib").lexically_normal().string() + ", "));
  put_module(first_ + "/late_a.so");
  EXPECT_TRUE(load("late_", "a"));
}

TEST_F(ModuleLoaderTest, TheFirstFileCountsEvenIfItCannotBeLoaded) {
  std::ofstream(first_ + "/bad_a.so") << "no library";
  put_module(second_ + "/bad_a.so");
  const auto bad = load("bad_", "a");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::unsupported);
  EXPECT_TRUE(test::has(bad.error().detail, "thing \"a\" cannot be loaded: " + first_));
  EXPECT_TRUE(bad.error().detail.ends_with("; install it"));
  std::filesystem::remove(first_ + "/bad_a.so");
  EXPECT_TRUE(load("bad_", "a")) << "a failure is not remembered";
}

TEST_F(ModuleLoaderTest, RefusesAModuleOfAnotherBuild) {
  put_module(first_ + "/old_a.so");
  const auto none = load("old_", "a", "c10dd_no_such_symbol");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::unsupported);
  EXPECT_EQ(none.error().detail, "thing \"a\": " + first_ +
                                     "/old_a.so is not a thing module: it does not export "
                                     "c10dd_no_such_symbol");
  for (const char* symbol : {"c10dd_fake_module_of_other_abi", "c10dd_fake_module_of_other_setup",
                             "c10dd_fake_module_of_other_compiler"}) {
    const auto old = load("old_", "a", symbol);
    ASSERT_FALSE(old) << symbol;
    EXPECT_EQ(old.error().code, Code::unsupported);
    EXPECT_TRUE(test::has(old.error().detail, "install module and library from one build"));
  }
  EXPECT_TRUE(test::has(load("old_", "a", "c10dd_fake_module_of_other_abi").error().detail,
                        "has interface 6 and compiler "));
  EXPECT_TRUE(load("old_", "a"));
}

}  // namespace
}  // namespace c10dd::client
