// SPDX-License-Identifier: Apache-2.0
// Which daemon gets the state directory, and which error the others get.
#include "store/rocks/state_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/store/durable_names.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::store {
namespace {

constexpr uid_t kNobody = 65534;

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class StateDirectoryTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return temporary_.path() + "/" + name; }

  TemporaryDirectory temporary_;
};

TEST_F(StateDirectoryTest, IsCreatedForItsOwnerOnly) {
  const auto directory = StateDirectory::open(path("a/b/state/"));
  ASSERT_TRUE(directory) << directory.error().detail;
  EXPECT_EQ(directory->path(), path("a/b/state"));
  struct stat status {};
  ASSERT_EQ(::stat(path("a/b/state").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(StateDirectoryTest, ItsNameAndThoseOfItsParentsAreOnDisk) {
  ASSERT_TRUE(StateDirectory::open(path("a/b/state")));
  const DurableNames& names = DurableNames::of_this_process();
  for (const std::string& made : {path("a"), path("a/b"), path("a/b/state")}) {
    EXPECT_TRUE(names.contain(made)) << made;
  }
  ASSERT_EQ(::mkdir(path("made").c_str(), 0700), 0);  // by a start that ended there
  ASSERT_TRUE(StateDirectory::open(path("made")));
  EXPECT_TRUE(names.contain(path("made")));
}

TEST_F(StateDirectoryTest, HoldsThePidOfItsDaemon) {
  {
    std::ofstream(path("c10dd.lock")) << "123456789012345\n";
    const auto directory = StateDirectory::open(temporary_.path());
    ASSERT_TRUE(directory) << directory.error().detail;
    std::string pid;
    std::getline(std::ifstream(path("c10dd.lock")), pid, '\0');
    EXPECT_EQ(pid, std::to_string(::getpid()) + "\n");
  }
  EXPECT_TRUE(StateDirectory::open(temporary_.path())) << "the hold ends with the object";
}

TEST_F(StateDirectoryTest, RefusesADirectoryThatIsHeldAndNamesTheHolder) {
  std::array<int, 2> up{};
  std::array<int, 2> down{};
  ASSERT_EQ(::pipe(up.data()) | ::pipe(down.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // another daemon, which ends when told to
    const auto directory = StateDirectory::open(path("state"));
    char byte = directory ? 'y' : 'n';
    ::close(down[1]);
    const bool ok = ::write(up[1], &byte, 1) == 1 && ::read(down[0], &byte, 1) == 0;
    ::_exit(ok ? 0 : 1);
  }
  char held = 0;
  ASSERT_EQ(::read(up[0], &held, 1), 1);
  ASSERT_EQ(held, 'y');

  const auto second = StateDirectory::open(path("state"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::unavailable);
  EXPECT_TRUE(mentions(second.error().detail, path("state"))) << second.error().detail;
  EXPECT_TRUE(mentions(second.error().detail, "pid " + std::to_string(child) + ";"))
      << second.error().detail;

  ::close(down[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(StateDirectory::open(path("state"))) << "the hold ends with the process";
}

TEST_F(StateDirectoryTest, RefusesWhatIsNoDirectory) {
  std::ofstream(path("file")) << "text";
  for (const std::string& name : {path("file"), path("file/below")}) {
    const auto directory = StateDirectory::open(name);
    ASSERT_FALSE(directory);
    EXPECT_EQ(directory.error().code, Code::permission_denied);
    EXPECT_TRUE(mentions(directory.error().detail, name)) << directory.error().detail;
    EXPECT_TRUE(mentions(directory.error().detail, "uid " + std::to_string(::geteuid())))
        << directory.error().detail;
  }
  EXPECT_EQ(StateDirectory::open("").error().code, Code::invalid_argument);
}

TEST_F(StateDirectoryTest, RefusesWhatIsNotWritable) {
  ASSERT_EQ(::chmod(temporary_.path().c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(path("state").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path("state").c_str(), 0555), 0);
  const bool root = ::geteuid() == 0;  // nothing is read-only for root
  if (root) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const std::string user = "uid " + std::to_string(::geteuid());
  const auto existing = StateDirectory::open(path("state"));
  const auto below = StateDirectory::open(path("state/below"));
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  for (const auto* directory : {&existing, &below}) {
    ASSERT_FALSE(*directory);
    EXPECT_EQ(directory->error().code, Code::permission_denied);
    EXPECT_TRUE(mentions(directory->error().detail, path("state"))) << directory->error().detail;
    EXPECT_TRUE(mentions(directory->error().detail, user)) << directory->error().detail;
  }
}

}  // namespace
}  // namespace c10dd::store
