// SPDX-License-Identifier: Apache-2.0
// The file of a file store and its lock, with two logs of one file: who waits for whom, what each
// sees of the other, a file that is replaced or removed, and threads that share a store.
#include "client/stores/file_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "client/store.h"
#include "tests/unit/client/thrown_error.h"
#include "tests/unit/comes_true.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd::client {
namespace {

using namespace std::chrono_literals;
using test::comes_true;
using test::error_of;

class FileLogTest : public testing::Test {
 protected:
  using Kind = LocalChange::Kind;
  using Lock = FileLog::Lock;

  static FileLog::Deadline later() { return std::chrono::steady_clock::now() + 60s; }
  static FileLog::Deadline now() { return std::chrono::steady_clock::now(); }
  FileLog open() { return FileLog::open(path_, later()).value(); }

  /// Appends a change, as a store does.
  static void change(FileLog& log, LocalState& state, const LocalChange& one) {
    const auto turn = log.turn(Lock::exclusive, later());
    ASSERT_TRUE(turn);
    ASSERT_TRUE(log.read(*turn, state));
    ASSERT_TRUE(log.append(*turn, {one}));
    state.apply(one);
  }
  /// Reads, and returns whether there was something new.
  static bool reads(FileLog& log, LocalState& state) {
    return log.read(log.turn(Lock::shared, later()).value(), state).value();
  }
  static Code code_of(const Result<FileLog::Turn>& turn) {
    return turn ? Code::ok : turn.error().code;
  }
  std::uintmax_t size() const { return std::filesystem::file_size(path_); }

  TemporaryDirectory folder_;
  std::string path_ = folder_.path() + "/store";
};

TEST_F(FileLogTest, OneWriterOrManyReadersHaveTheirTurn) {
  FileLog one = open();
  FileLog two = open();
  {
    const auto reading = one.turn(Lock::shared, later());
    ASSERT_TRUE(reading);
    EXPECT_EQ(code_of(two.turn(Lock::shared, now())), Code::ok);
    EXPECT_EQ(code_of(two.turn(Lock::exclusive, now())), Code::timed_out);
  }
  {
    const auto writing = one.turn(Lock::exclusive, later());
    ASSERT_TRUE(writing);
    const auto late = two.turn(Lock::shared, now());
    EXPECT_EQ(code_of(late), Code::timed_out);
    EXPECT_EQ(late.error().detail.find("file store " + path_), 0U);
    EXPECT_EQ(FileLog::open(path_, now()).error().code, Code::timed_out);
  }
  EXPECT_EQ(code_of(two.turn(Lock::exclusive, now())), Code::ok) << "a turn ends with its object";
}

TEST_F(FileLogTest, ATurnThatWaitsComesWhenTheOtherEnds) {
  FileLog one = open();
  FileLog two = open();
  auto writing = std::make_unique<FileLog::Turn>(one.turn(Lock::exclusive, later()).value());
  auto waits =
      std::async(std::launch::async, [&] { return code_of(two.turn(Lock::shared, later())); });
  EXPECT_EQ(waits.wait_for(10ms), std::future_status::timeout);
  writing.reset();
  EXPECT_EQ(waits.get(), Code::ok);
}

TEST_F(FileLogTest, EachSeesWhatTheOtherHasWrittenOnce) {
  FileLog one = open();
  FileLog two = open();
  LocalState of_one;
  LocalState of_two;
  EXPECT_TRUE(one.changed()) << "nothing was read yet";
  EXPECT_TRUE(reads(one, of_one));
  EXPECT_FALSE(one.changed());
  EXPECT_FALSE(reads(one, of_one));
  EXPECT_TRUE(reads(two, of_two));
  change(one, of_one, {Kind::push, "q", "1"});
  EXPECT_FALSE(one.changed()) << "it knows its own changes";
  EXPECT_FALSE(reads(one, of_one));
  EXPECT_TRUE(two.changed());
  change(two, of_two, {Kind::push, "q", "2"});
  EXPECT_TRUE(reads(one, of_one));
  EXPECT_EQ(of_one.queues().at("q"), (std::deque<std::string>{"1", "2"}));
  EXPECT_EQ(of_two.queues().at("q"), of_one.queues().at("q"));
  EXPECT_FALSE(one.changed() || two.changed());
}

TEST_F(FileLogTest, AnUnfinishedRecordIsCutOffAtTheNextAppendOnly) {
  FileLog one = open();
  LocalState state;
  change(one, state, {Kind::set, "a", "1"});
  const std::uintmax_t good = size();
  std::ofstream(path_, std::ios::app | std::ios::binary) << "\x01";
  EXPECT_TRUE(one.changed());
  EXPECT_TRUE(reads(one, state));
  EXPECT_FALSE(one.changed()) << "it has seen these bytes";
  EXPECT_EQ(size(), good + 1);
  change(one, state, {Kind::set, "b", "2"});
  LocalState again;
  FileLog two = open();
  EXPECT_TRUE(reads(two, again));
  EXPECT_EQ(again.keys(), (LocalState::Keys{{"a", "1"}, {"b", "2"}}));
}

TEST_F(FileLogTest, AReplacedFileIsReadFromItsStart) {
  FileLog one = open();
  LocalState state;
  change(one, state, {Kind::set, "old", "1"});
  const std::string other = folder_.path() + "/other";
  {
    FileLog made = FileLog::open(other, later()).value();
    LocalState of_made;
    change(made, of_made, {Kind::set, "new", "2"});
  }
  const auto held = std::make_unique<FileLog::Turn>(one.turn(Lock::exclusive, later()).value());
  std::filesystem::rename(other, path_);
  EXPECT_TRUE(one.changed());
  EXPECT_EQ(code_of(one.turn(Lock::exclusive, now())), Code::ok) << "the lock of the former file";
  EXPECT_TRUE(reads(one, state));
  EXPECT_EQ(state.keys(), (LocalState::Keys{{"new", "2"}}));
  std::filesystem::remove(path_);
  EXPECT_TRUE(one.changed());
  EXPECT_EQ(code_of(one.turn(Lock::shared, now())), Code::unavailable);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(code_of(one.turn(Lock::shared, now())), Code::unavailable)
      << "the path was good before";
}

TEST_F(FileLogTest, PutsTheFileInOrderIfMostOfItIsGarbage) {
  FileLog one = open();
  FileLog two = open();
  LocalState of_one;
  LocalState of_two;
  const std::string large(700'000, 'x');
  const auto compact = [](FileLog& log, const LocalState& state) {
    const auto turn = log.turn(Lock::exclusive, later());
    ASSERT_TRUE(turn);
    log.compact(*turn, state);
  };
  change(one, of_one, {Kind::set, "k", large});
  change(one, of_one, {Kind::leave, "", ""});
  change(one, of_one, {Kind::push, "q", "item"});
  compact(one, of_one);
  const std::uintmax_t first = size();
  EXPECT_GT(first, 700'000U) << "it is all in use";
  change(one, of_one, {Kind::set, "k", std::string(720'000, 'x')});
  EXPECT_TRUE(reads(two, of_two));
  compact(one, of_one);
  EXPECT_GT(size(), 1'400'000U) << "half of it is in use";
  ::chmod(path_.c_str(), 0640);
  change(one, of_one, {Kind::set, "k", "small"});
  std::ofstream(path_ + ".new") << "left by a process that was killed";
  compact(one, of_one);
  EXPECT_LT(size(), 1'000U);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0640));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  EXPECT_FALSE(one.changed());
  EXPECT_TRUE(two.changed());
  EXPECT_TRUE(reads(two, of_two));
  EXPECT_EQ(of_two.keys(), (LocalState::Keys{{"k", "small"}}));
  EXPECT_EQ(of_two.queues().at("q").size(), 1U);
  EXPECT_EQ(of_two.leaves(), 1U);
  change(two, of_two, {Kind::set, "k", "2"});
  EXPECT_TRUE(reads(one, of_one));
  EXPECT_EQ(of_one.keys().at("k"), "2");
}

TEST_F(FileLogTest, AnOrderThatFailsKeepsTheOldFileAndIsNotTriedAtOnce) {
  FileLog one = open();
  LocalState state;
  for (int i = 0; i < 3; ++i) change(one, state, {Kind::set, "k", std::string(500'000, 'x')});
  const std::string hurdle = path_ + ".new";
  std::filesystem::create_directories(hurdle + "/inside");
  const auto compact = [&] { one.compact(one.turn(Lock::exclusive, later()).value(), state); };
  const std::uintmax_t before = size();
  compact();
  EXPECT_EQ(size(), before);
  std::filesystem::remove_all(hurdle);
  compact();
  EXPECT_EQ(size(), before) << "it waits until the file is twice as long";
  for (int i = 0; i < 4; ++i) change(one, state, {Kind::set, "k", std::string(500'000, 'x')});
  compact();
  EXPECT_LT(size(), 600'000U);
}

TEST_F(FileLogTest, TwoThreadsAndTwoStoresShareOneFileByTurns) {
  const auto one = make_file_store(path_);
  const auto two = make_file_store(path_);
  const auto other = make_file_store(folder_.path() + "/other");
  std::vector<std::thread> threads;
  for (const auto& store : {one, one, two}) {
    threads.emplace_back([store] {
      for (int i = 0; i < 20; ++i) store->add("n", 1);
    });
  }
  other->add("n", 5);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(one->get("n", 0s) + " " + two->get("n", 0s) + " " + other->get("n", 0s), "60 60 5");
}

TEST_F(FileLogTest, AThreadSaysThatAnotherOneWaitsForTheFile) {
  const auto store = make_file_store(path_);
  store->set("k", "v");
  FileLog other = open();
  auto held = std::make_unique<FileLog::Turn>(other.turn(Lock::exclusive, later()).value());
  auto waits = std::async(std::launch::async, [&] { return store->get("k", 90s); });
  store->set_default_timeout(1ms);
  std::string why;
  EXPECT_TRUE(comes_true([&] {
    const auto error = error_of([&] { store->set("k", "w"); });
    EXPECT_EQ(error.first, Code::timed_out);
    why = error.second;
    return why.find("another thread of this process") != std::string::npos;
  })) << why;
  held.reset();
  EXPECT_EQ(waits.get(), "v");
  store->set_default_timeout(60s);
  store->set("k", "w");
  EXPECT_EQ(store->get("k", 0s), "w");
}

}  // namespace
}  // namespace c10dd::client
