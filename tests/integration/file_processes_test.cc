// SPDX-License-Identifier: Apache-2.0
// A file store among processes that are killed at any moment: what was acknowledged stays, what
// was not is there whole or not at all, and nobody waits for the dead.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "client/store.h"
#include "tests/unit/temporary_directory.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;

/// A child that adds, pushes and sets until it is killed, and says so after each round.
class Worker {
 public:
  Worker(const std::string& path, int number) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) work(path, number, ends[1]);
    close(ends[1]);
    rounds_ = ends[0];
  }

  /// How many rounds it has acknowledged.
  int kill() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    int rounds = 0;
    char bytes[4096];
    for (ssize_t n = 0; (n = read(rounds_, bytes, sizeof bytes)) > 0;) {
      rounds += static_cast<int>(n);
    }
    close(rounds_);
    return rounds;
  }
  bool was_killed() const { return WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL; }

 private:
  [[noreturn]] static void work(const std::string& path, int number, int rounds) {
    try {
      const auto store = make_file_store(path);
      const std::string large(30'000, static_cast<char>('a' + number));
      for (;;) {
        store->add("n", 1);
        store->queue_push("q", "x");
        store->append("text", "1234567890");
        store->multi_set({"left", "right"}, {large, large});
        if (::write(rounds, "r", 1) != 1) _exit(3);
      }
    } catch (const Error& e) {
      std::fprintf(stderr, "worker: %s\n", e.what());
    }
    _exit(2);
  }

  pid_t pid_ = -1;
  int rounds_ = -1;
  int status_ = 0;
};

TEST(FileProcesses, LoseNothingThatWasAcknowledgedWhenTheyAreKilled) {
  constexpr int kWorkers = 3;
  constexpr int kKills = 40;
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/store";
  const auto store = make_file_store(path);
  std::mt19937_64 random(11);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < kWorkers; ++i) workers.push_back(std::make_unique<Worker>(path, i));
  std::int64_t acknowledged = 0;
  const auto kill = [&](std::unique_ptr<Worker>& worker) {
    acknowledged += worker->kill();
    EXPECT_TRUE(worker->was_killed());
    worker.reset();
  };
  for (int i = 0; i < kKills; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 40));
    kill(workers[i % kWorkers]);
    workers[i % kWorkers] = std::make_unique<Worker>(path, i % 26);
    if (i % 10 != 0) continue;
    const std::vector<std::string> pair = store->multi_get({"left", "right"}, 10s);
    EXPECT_EQ(pair[0], pair[1]) << "set in one change";
  }
  for (auto& worker : workers) kill(worker);

  const std::int64_t most = acknowledged + kKills + kWorkers;  // one in doubt for each kill
  EXPECT_GT(acknowledged, kKills);
  for (const auto& reader : {store, make_file_store(path)}) {
    const std::int64_t adds = std::stoll(reader->get("n", 10s));
    EXPECT_GE(adds, acknowledged);
    EXPECT_LE(adds, most);
    const auto pushes = static_cast<std::int64_t>(reader->queue_length("q"));
    EXPECT_GE(pushes, acknowledged);
    EXPECT_LE(pushes, most);
    const std::string text = reader->get("text", 10s);
    EXPECT_EQ(text.size() % 10, 0u);
    EXPECT_GE(static_cast<std::int64_t>(text.size()), 10 * acknowledged);
  }
  EXPECT_LT(std::filesystem::file_size(path), 8u * 1024 * 1024) << "it was put in order";
  RecordProperty("acknowledged", static_cast<int>(acknowledged));
}

TEST(FileProcesses, PassItemsAndMeetAtKeys) {
  constexpr int kTakers = 3;
  constexpr int kItems = 200;
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/store";
  std::vector<pid_t> takers;
  for (int t = 0; t < kTakers; ++t) {
    takers.push_back(fork());
    if (takers.back() != 0) continue;
    try {
      const auto store = make_file_store(path);
      for (int taken = 0;; ++taken) {
        const std::string item = store->queue_pop("q", 30s);
        if (item == "stop") break;
        store->add("taken/" + item, 1);
      }
      store->set("done/" + std::to_string(t), "");
      _exit(0);
    } catch (const Error& e) {
      std::fprintf(stderr, "taker: %s\n", e.what());
      _exit(2);
    }
  }
  const auto store = make_file_store(path);
  for (int i = 0; i < kItems; ++i) store->queue_push("q", std::to_string(i));
  for (int t = 0; t < kTakers; ++t) store->queue_push("q", "stop");
  EXPECT_NO_THROW(store->wait({"done/0", "done/1", "done/2"}, 30s));
  for (const pid_t taker : takers) {
    int status = -1;
    EXPECT_EQ(waitpid(taker, &status, 0), taker);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(store->count("taken/"), static_cast<std::uint64_t>(kItems));
  for (int i = 0; i < kItems; ++i) EXPECT_EQ(store->get("taken/" + std::to_string(i), 0s), "1");
}

}  // namespace
}  // namespace c10dd
