// SPDX-License-Identifier: Apache-2.0
// Files that others must not read: their modes, and that no failure leaves half of them.
#include "client/ctl/secret_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/unit/temporary_directory.h"

namespace c10dd::ctl {
namespace {

namespace fs = std::filesystem;

class CtlSecretFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string text(const std::string& name) const {
    const Result<std::string> read = read_file(path(name));
    return read ? *read : read.error().detail.substr(0, read.error().detail.find(" /"));
  }
  int mode(const std::string& name) const {
    struct stat is {};
    return ::stat(path(name).c_str(), &is) == 0 ? static_cast<int>(is.st_mode & 07777) : -1;
  }
  void write(const std::string& name, const std::string& of) const {
    NewFiles made;
    ASSERT_TRUE(made.add({path(name), of}));
    made.keep();
  }
  std::ptrdiff_t files() const {
    return std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator());
  }

  TemporaryDirectory directory_;
};

TEST_F(CtlSecretFiles, NewOnesAreForTheirOwnerOnly) {
  const mode_t before = ::umask(0);
  NewFiles made;
  EXPECT_TRUE(made.add_folder(path("d")));
  EXPECT_TRUE(made.add({path("d/f"), "text"}));
  made.keep();
  ::umask(before);
  EXPECT_EQ(mode("d"), 0700);
  EXPECT_EQ(mode("d/f"), 0600);
  EXPECT_EQ(text("d/f"), "text");
}

TEST_F(CtlSecretFiles, NewOnesReplaceNothingAndGoUnlessKept) {
  write("old", "old");
  fs::create_symlink(path("nowhere"), path("link"));
  {
    NewFiles made;
    EXPECT_TRUE(made.add_folder(path("d")));
    EXPECT_TRUE(made.add({path("d/f"), "text"}));
    for (const char* there : {"old", "link"}) {
      const Result<void> refused = made.add({path(there), "new"});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::unavailable);
      EXPECT_EQ(refused.error().detail,
                "cannot write " + path(there) +
                    " (File exists); check the owner of its folder and the room on its disk");
    }
    EXPECT_FALSE(made.add_folder(path("old")));
    EXPECT_FALSE(made.add_folder(path("none/d")));
  }
  EXPECT_EQ(text("old"), "old");
  EXPECT_EQ(files(), 2) << "the old file and the link";
  EXPECT_FALSE(exists(path("nowhere")));
}

TEST_F(CtlSecretFiles, AReplacementKeepsTheRightOfAGroup) {
  write("a", "old");
  write("b", "old");
  ::chmod(path("a").c_str(), 0644);
  ASSERT_TRUE(replace_files({{path("a"), "new a"}, {path("b"), "new b"}, {path("c"), "new c"}}));
  EXPECT_EQ(text("a") + text("b") + text("c"), "new anew bnew c");
  EXPECT_EQ(mode("a"), 0640);
  EXPECT_EQ(mode("b"), 0600);
  EXPECT_EQ(mode("c"), 0600);
  EXPECT_EQ(files(), 3);
}

TEST_F(CtlSecretFiles, AFailedReplacementLeavesTheOldOnes) {
  write("a", "old");
  fs::create_directory(path("folder"));
  const Result<void> refused =
      replace_files({{path("a"), "new"}, {path("none"), "new"}, {path("folder"), "new"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unavailable);
  EXPECT_EQ(text("a"), "old");
  EXPECT_EQ(mode("a"), 0600);
  EXPECT_EQ(files(), 2) << "drafts are left";
  EXPECT_FALSE(replace_files({{path("none/a"), "new"}}));
}

TEST_F(CtlSecretFiles, AReplacementWaitsForThatOfAnotherProcess) {
  write("a", "old");
  const int folder = ::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0);
  std::thread second([&] { EXPECT_TRUE(replace_files({{path("a"), "new"}})); });
  std::size_t early = 0;
  for (int i = 0; i < 5000; ++i) early += text("a") == "old" ? 0 : 1;
  EXPECT_EQ(early, 0U);
  ::close(folder);
  second.join();
  EXPECT_EQ(text("a"), "new");
}

TEST_F(CtlSecretFiles, WhatOthersMayReadOrReplaceIsRefused) {
  write("key", "k");
  EXPECT_TRUE(check_private(path("key")));
  EXPECT_TRUE(check_own(directory_.path()));
  EXPECT_TRUE(check_private(path("none")));
  ::chmod(path("key").c_str(), 0604);
  EXPECT_EQ(check_private(path("key"))
                .error()
                .detail.find(path("key") +
                             " may be read by every user of this machine; run chmod o-rwx " +
                             path("key") + "; if it is of a Kubernetes Secret, "),
            0U);
  ::chmod(directory_.path().c_str(), 0703);
  EXPECT_EQ(check_own(directory_.path()).error().detail.find("every user of this machine may"), 0U);
}

TEST_F(CtlSecretFiles, OnlySmallFilesAreRead) {
  EXPECT_EQ(read_file(path("none")).error().code, Code::not_found);
  const Result<std::string> folder = read_file(directory_.path());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::invalid_argument);
  write("large", std::string(1024 * 1024, 'a'));
  EXPECT_EQ(text("large").size(), 1024U * 1024);
  write("too large", std::string(1024 * 1024 + 1, 'a'));
  EXPECT_NE(read_file(path("too large")).error().detail.find("limit of 1048576 bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace c10dd::ctl
