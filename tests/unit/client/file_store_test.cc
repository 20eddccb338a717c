// SPDX-License-Identifier: Apache-2.0
// The file of a file store, also after damage: which content is read.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>

#include "client/errors.h"
#include "client/store.h"
#include "client/stores/file_format.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class FileStore : public testing::Test {
 protected:
  std::shared_ptr<Store> open() { return make_file_store(path_); }

  /// Returns the error of open(), which must fail and must not change the file.
  std::pair<Code, std::string> refusal(const std::string& path) {
    const bool is_file = std::filesystem::is_regular_file(path);
    const std::string before = is_file ? content(path) : "";
    try {
      make_file_store(path)->check({"k"});
    } catch (const Error& e) {
      EXPECT_EQ(is_file ? content(path) : "", before);
      return {e.code(), e.what()};
    }
    return {Code::ok, "no error"};
  }

  /// Runs in another process, which must end well.
  void in_child(const std::function<void()>& run) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        run();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
        _exit(1);
      }
      _exit(testing::Test::HasFailure() ? 2 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.path() + "/store";
};

TEST_F(FileStore, StaysWhenItIsClosedAndIsSharedWhileItIsOpen) {
  const auto one = open();
  const auto two = open();
  one->set("k", "v");
  EXPECT_EQ(two->get("k", 0s), "v");
  auto late = std::async(std::launch::async, [&] { return one->get("late", 60s); });
  EXPECT_EQ(late.wait_for(20ms), std::future_status::timeout);
  two->set("late", "here");
  EXPECT_EQ(late.get(), "here");
  two->queue_push("q", "item");
  EXPECT_EQ(open()->queue_pop("q", 0s), "item");
  EXPECT_EQ(one->queue_length("q"), 0u);
  EXPECT_EQ(open()->multi_get({"k", "late"}, 0s), (std::vector<std::string>{"v", "here"}));
}

TEST_F(FileStore, IsUsableInAForkedChildAndThere) {
  const auto store = open();
  store->set("k", "v");
  in_child([&] {
    EXPECT_EQ(store->get("k", 0s), "v");
    EXPECT_EQ(store->add("n", 1), 1);
  });
  EXPECT_EQ(store->add("n", 1), 2);
}

TEST_F(FileStore, TheLastOfItsWorldRemovesTheFile) {
  auto one = make_file_store(path_, 2);
  auto two = make_file_store(path_, 2);
  one->set("k", "v");
  one.reset();
  EXPECT_EQ(two->get("k", 0s), "v");
  two.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
  open()->set("k", "v");
  EXPECT_TRUE(std::filesystem::exists(path_)) << "without a world size it stays";
}

TEST_F(FileStore, TakesUpAnEmptyFileAndOneThatWasHardlyBegun) {
  const std::string header = client::encode_header(7);
  for (std::size_t cut = 0; cut < header.size(); ++cut) {
    write(path_, header.substr(0, cut));
    open()->set("k", "v");
    ASSERT_EQ(open()->get("k", 0s), "v") << cut;
  }
}

TEST_F(FileStore, AnUnfinishedRecordDoesNotCountAndIsWrittenOver) {
  open()->set("a", "1");
  const std::string before = content(path_);
  open()->multi_set({"b", "c"}, {"2", "3"});
  const std::string after = content(path_);
  for (std::size_t cut = before.size(); cut < after.size(); ++cut) {
    write(path_, after.substr(0, cut));
    ASSERT_EQ(open()->list(""), std::vector<std::string>{"a"}) << cut;
    open()->set("d", "4");
    ASSERT_EQ(open()->list(""), (std::vector<std::string>{"a", "d"})) << cut;
  }
  write(path_, before + std::string(3'000'000, '\0'));  // made longer, and then the power was lost
  EXPECT_EQ(open()->list(""), std::vector<std::string>{"a"});
  open()->set("d", "4");
  EXPECT_EQ(open()->list(""), (std::vector<std::string>{"a", "d"}));
  EXPECT_LT(content(path_).size(), 1000u);
}

TEST_F(FileStore, EveryDamagedByteIsFoundAndNamed) {
  open()->set("a", "1");
  const std::size_t second = content(path_).size();
  open()->multi_set({"b", "c"}, {"2", "3"});
  const std::string good = content(path_);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {1, 128}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ bit);
      write(path_, bad);
      const auto [code, text] = refusal(path_);
      ASSERT_NE(code, Code::ok) << "byte " << i;
      ASSERT_NE(text.find(path_), std::string::npos) << text;
      if (i < client::kFileHeaderBytes) continue;
      const std::size_t at = i < second ? client::kFileHeaderBytes : second;
      ASSERT_EQ(code, Code::malformed) << text;
      ASSERT_NE(text.find("damaged at byte " + std::to_string(at) + ":"), std::string::npos)
          << text;
    }
  }
  write(path_, good + std::string(64, '\0') + "x");
  EXPECT_EQ(refusal(path_).first, Code::malformed) << "zeros, but not up to the end";
}

TEST_F(FileStore, RefusesWhatIsNoFileStore) {
  write(path_, "a text of somebody else, longer than a header\n");
  EXPECT_EQ(refusal(path_).first, Code::invalid_argument);
  EXPECT_NE(refusal(path_).second.find("not a file store"), std::string::npos)
      << refusal(path_).second;
  write(path_, "short");
  EXPECT_EQ(refusal(path_).first, Code::invalid_argument);
  EXPECT_EQ(refusal(folder_.path()).first, Code::invalid_argument);
  EXPECT_EQ(refusal(folder_.path() + "/none/store").first, Code::invalid_argument);
  ASSERT_EQ(mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder_.path() + "/pipe").first, Code::invalid_argument);
  EXPECT_THROW(make_file_store(""), InvalidArgument);
}

TEST_F(FileStore, RefusesANewerVersion) {
  std::string header = client::encode_header(7);
  header[client::kFileMagic.size()] = 2;
  write(path_, header);
  const auto [code, text] = refusal(path_);
  EXPECT_EQ(code, Code::version_unsupported);
  EXPECT_NE(text.find("format 2; this version reads formats up to 1"), std::string::npos) << text;
}

TEST_F(FileStore, SaysThatItMayNot) {
  open()->set("k", "v");
  chmod(path_.c_str(), 0);
  in_child([&] {
    // Uses an unprivileged user id, because root may open any file.
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(3);
    try {
      open();
      ADD_FAILURE() << "it may not";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::permission_denied) << e.what();
      EXPECT_NE(std::string(e.what()).find(path_), std::string::npos) << e.what();
    }
  });
}

TEST_F(FileStore, ADiskThatIsFullChangesNothing) {
  open()->set("k", "v");
  const rlim_t size = content(path_).size();
  in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{size + 500, size + 500};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const auto store = open();
    EXPECT_THROW(store->set("k", std::string(1000, 'x')), DiskFull);
    EXPECT_EQ(store->get("k", 0s), "v");
    EXPECT_EQ(content(path_).size(), size);
    store->set("small", "fits");
    EXPECT_THROW(store->queue_push("q", std::string(1000, 'x')), DiskFull);
    EXPECT_EQ(store->queue_length("q"), 0u);
    EXPECT_TRUE(store->remove("k"));
  });
  EXPECT_EQ(open()->list(""), std::vector<std::string>{"small"});
}

TEST_F(FileStore, SaysThatTheFileIsGoneOrShorter) {
  const auto store = open();
  store->set("k", "v");
  const std::string good = content(path_);
  write(path_, good.substr(0, good.size() - 1));
  EXPECT_THROW(store->get("k", 0s), Error);
  std::filesystem::remove(path_);
  try {
    store->set("k", "v");
    ADD_FAILURE() << "the file is gone";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::unavailable);
    EXPECT_NE(std::string(e.what()).find("no such file"), std::string::npos) << e.what();
  }
}

TEST_F(FileStore, StaysShortAndTellsAllWhenItIsPutInOrder) {
  std::filesystem::create_symlink(path_, folder_.path() + "/link");
  const auto one = open();
  const auto two = make_file_store(folder_.path() + "/link");
  one->queue_push("q", "first");
  one->queue_push("q", "second");
  one->set("kept", "v");
  auto late = std::async(std::launch::async, [&] { return one->get("late", 60s); });
  const std::string value(20'000, 'x');
  std::uintmax_t longest = 0;
  for (int i = 0; i < 300; ++i) {
    const auto& store = i % 2 == 0 ? one : two;
    store->set("k", value + std::to_string(i));
    ASSERT_EQ((i % 2 == 0 ? two : one)->get("k", 0s), value + std::to_string(i));
    longest = std::max(longest, std::filesystem::file_size(path_));
  }
  EXPECT_LT(longest, 1'200'000u) << "6 MB were written";
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path() + "/link"));
  two->set("late", "here");
  EXPECT_EQ(late.get(), "here");
  EXPECT_EQ(open()->list(""), (std::vector<std::string>{"k", "kept", "late"}));
  EXPECT_EQ(open()->queue_pop("q", 0s), "first");
  EXPECT_EQ(two->queue_pop("q", 0s), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 2);
}

TEST_F(FileStore, ALockThatIsNotLetGoIsNotWaitedForForEver) {
  const auto store = open();
  store->set("k", "v");
  const int other = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  store->set_default_timeout(50ms);
  for (const auto& call : {std::function<void()>([&] { store->set("k", "w"); }),
                           std::function<void()>([&] { store->get("k", 10ms); })}) {
    try {
      call();
      ADD_FAILURE() << "the lock is held";
    } catch (const TimedOut& e) {
      EXPECT_NE(std::string(e.what()).find("held the lock of the file"), std::string::npos)
          << e.what();
    }
  }
  close(other);
  EXPECT_EQ(store->get("k", 0s), "v");
}

}  // namespace
}  // namespace c10dd
