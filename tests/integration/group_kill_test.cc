// SPDX-License-Identifier: Apache-2.0
// SIGKILL of a rank, with ranks that are processes: within 0.5 s the collectives of every survivor
// fail, in groups with and without the dead rank, with its host and process id, and the next
// generation's groups open within 1 s. C10DD_KILLS sets how often (3).
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/membership.h"
#include "collectives/process_group.h"
#include "protocol/random.h"
#include "tests/integration/daemon_process.h"
#include "tests/unit/slowdown.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 4;
constexpr auto kLastCall = 100ms;

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);  // one clock for all processes of the host
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// In which groups the ranks run collectives when one of them is killed.
enum class Where { world, pairs };

/// What a rank tells the test: that it runs, that its collective has failed, that it has gone on.
struct News {
  enum class Kind { running, failed, went_on } kind = Kind::running;
  double at = 0;
  char text[1024] = {};
};

void tell(int pipe, News::Kind kind, double at, const std::string& text = {}) {
  News news{kind, at, {}};
  std::strncpy(news.text, text.c_str(), sizeof news.text - 1);
  if (write(pipe, &news, sizeof news) != sizeof news) _exit(3);
}

/// Runs collectives until one fails.
std::string text_of_failure(ProcessGroup& group) {
  std::vector<float> values(100'000);
  try {
    while (true) group.all_reduce(tensor_of(values));
  } catch (const Aborted& lost) {
    return lost.what();
  } catch (const std::exception& other) {
    return std::string("not Aborted: ") + other.what();
  }
}

/// The life of one rank, in a process of its own.
void run_rank(const std::string& url, int number, Where where, int pipe) {
  ClientOptions options;
  options.host = "node-" + std::to_string(number);
  const auto client = Client::connect(url, options);
  const auto membership =
      client->rendezvous({.min = kRanks - 1, .max = kRanks, .last_call = kLastCall});
  const GroupOptions tcp{.timeout = 60s, .hostname = "127.0.0.1"};
  auto group = ProcessGroup::open(membership, tcp);
  const Rank rank = group->rank();
  auto pair = group->new_group(rank < 2 ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3});
  group->barrier();
  tell(pipe, News::Kind::running, now());
  const std::string text = text_of_failure(where == Where::world ? *group : *pair);
  const double failed_at = now();
  tell(pipe, News::Kind::failed, failed_at, text);
  pair.reset();
  group.reset();
  membership->next();
  group = ProcessGroup::open(membership, tcp);
  std::vector<float> one = {1};
  group->all_reduce(tensor_of(one));
  tell(pipe, News::Kind::went_on, now(), std::to_string(one[0]));
}

/// Four ranks, of which the test kills one.
class Drill {
 public:
  Drill(const std::string& url, Where where) {
    for (int number = 0; number < kRanks; ++number) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
      pids_[number] = fork();
      if (pids_[number] == 0) {
        try {
          run_rank(url, number, where, ends[1]);
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank on node-%d: %s\n", number, error.what());
          _exit(1);
        }
        _exit(0);
      }
      close(ends[1]);
      pipes_[number] = ends[0];
    }
  }
  Drill(const Drill&) = delete;
  ~Drill() {
    for (int number = 0; number < kRanks; ++number) {
      ::kill(pids_[number], SIGKILL);
      waitpid(pids_[number], nullptr, 0);
      close(pipes_[number]);
    }
  }

  /// Returns when the rank was killed.
  double kill(int number) {
    const double at = now();
    ::kill(pids_[number], SIGKILL);
    return at;
  }

  News next(int number) {
    pollfd ready{pipes_[number], POLLIN, 0};
    News news;
    if (poll(&ready, 1, 30'000) != 1 || read(pipes_[number], &news, sizeof news) != sizeof news) {
      throw std::runtime_error("node-" + std::to_string(number) + " says nothing");
    }
    return news;
  }

  pid_t pid(int number) const { return pids_[number]; }

 private:
  std::array<pid_t, kRanks> pids_{};
  std::array<int, kRanks> pipes_{};
};

int kills() {
  const char* const set = std::getenv("C10DD_KILLS");
  return set == nullptr ? 3 : std::atoi(set);
}

class GroupKill : public testing::TestWithParam<Where> {};

TEST_P(GroupKill, EverySurvivorLearnsInHalfASecondWhoWasKilled) {
  test::DaemonProcess daemon("memory:");
  daemon.start();
  std::mt19937_64 random(kills() == 3 ? 11 : random_number());
  double slowest = 0;
  double slowest_next = 0;
  for (int round = 0; round < kills(); ++round) {
    Drill drill("c10dd://" + daemon.address() + "/drill-" + std::to_string(round), GetParam());
    for (int number = 0; number < kRanks; ++number) drill.next(number);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    const int victim = static_cast<int>(random() % kRanks);
    const double killed = drill.kill(victim);
    const std::string process =
        "node-" + std::to_string(victim) + " (pid " + std::to_string(drill.pid(victim)) + ")";
    double last_failure = 0;
    for (int number = 0; number < kRanks; ++number) {
      if (number == victim) continue;
      const News failed = drill.next(number);
      EXPECT_NE(std::string(failed.text).find(process), std::string::npos) << failed.text;
      last_failure = std::max(last_failure, failed.at);
    }
    slowest = std::max(slowest, last_failure - killed);
    for (int number = 0; number < kRanks; ++number) {
      if (number == victim) continue;
      const News went_on = drill.next(number);
      EXPECT_EQ(std::stof(went_on.text), kRanks - 1);
      slowest_next = std::max(slowest_next, went_on.at - last_failure);
    }
  }
  std::printf("%d kills: the last survivor failed after at most %.3f s, went on after %.3f s\n",
              kills(), slowest, slowest_next);
  EXPECT_LE(slowest, 0.5 * test::kSlowdown);
  const double last_call = std::chrono::duration<double>(kLastCall).count();
  EXPECT_LE(slowest_next, (1 + last_call) * test::kSlowdown);
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupKill, testing::Values(Where::world, Where::pairs),
                         [](const auto& of) {
                           return of.param == Where::world ? "World" : "Pairs";
                         });

}  // namespace
}  // namespace c10dd
