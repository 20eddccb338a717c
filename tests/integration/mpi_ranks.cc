// SPDX-License-Identifier: Apache-2.0
// What the ranks of mpi_test.py do: each command is a situation in which a rank can find itself.
// Prints one line for each thing that is worth a look.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/errors.h"
#include "collectives/process_group.h"
#include "tests/unit/entries.h"

namespace c10dd {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::shared_ptr<ProcessGroup> open(Duration timeout = 60s) {
  return ProcessGroup::open(
      Client::from_environment(),
      GroupOptions{.backend = "mpi", .timeout = timeout, .open_timeout = 20s});
}

/// Prints the error that the call throws, and after how many tenths of a second.
void print_error(const ProcessGroup& group, const std::function<void()>& call) {
  const auto start = Clock::now();
  std::string text = "no error";
  try {
    call();
  } catch (const Error& error) {
    text = error.what();
  }
  const auto tenths = (Clock::now() - start) / 100ms;
  std::printf("rank %u after %ld tenths: %s\n", group.rank(), static_cast<long>(tenths),
              text.c_str());
  std::fflush(stdout);
}

/// The ranks issue operations of different sizes.
void mismatch() {
  const auto group = open();
  std::vector<float> values(group->rank() == 1 ? 3 : 4);
  print_error(*group, [&] { group->all_reduce(tensor_of(values)); });
}

/// Two ranks disagree about a part of a list.
void lists() {
  const auto group = open();
  std::vector<float> values(4);
  std::vector<Tensor> outputs(group->size(), tensor_of(values.data(), 1));
  for (Rank i = 0; i < group->size(); ++i) outputs[i] = tensor_of(values.data() + i, 1);
  if (group->rank() == 0) outputs[1].count = 0;
  float own = 1;
  print_error(*group, [&] { group->all_gather(outputs, tensor_of(&own, 1)); });
}

/// A part of a list has more elements than MPI can count. Nobody looks at them.
void long_lists() {
  const auto group = open();
  std::uint8_t value = 0;
  const std::size_t count = std::size_t{1} << 31;
  const std::vector<Tensor> outputs(group->size(), tensor_of(&value, count));
  print_error(*group, [&] { group->all_gather(outputs, tensor_of(&value, count)); });
}

/// Rank 1 does not come. Rank 0 must get a time-out, be able to destroy the group, and exit.
void late() {
  const auto client = Client::from_environment();
  auto group = ProcessGroup::open(client, {.backend = "mpi", .timeout = 500ms});
  std::vector<float> values(4);
  if (group->rank() == 1) return std::this_thread::sleep_for(30s);
  print_error(*group, [&] { group->all_reduce(tensor_of(values)); });
  print_error(*group, [&] { group->barrier(); });
  group.reset();
  try {
    ProcessGroup::open(client, World{.name = "alone"}, {.backend = "mpi"});
  } catch (const Error& error) {
    std::printf("again: %s\n", error.what());
    std::fflush(stdout);
  }
}

/// A thread aborts a group that waits.
void abort_group() {
  const auto group = open();
  if (group->rank() == 1) return std::this_thread::sleep_for(30s);
  const WorkPtr message = group->irecv(Tensor{}, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(200ms);
    group->abort("enough");
  });
  print_error(*group, [&] { group->barrier(); });
  print_error(*group, [&] { message->wait(); });
  other.join();
}

/// A message that does not fit, and a group that goes on.
void long_message() {
  const auto group = open();
  std::vector<float> values(group->rank() == 0 ? 5 : 4, 1);
  print_error(*group, [&] {
    group->rank() == 0 ? group->send(tensor_of(values), 1) : group->recv(tensor_of(values), 0);
  });
  values.resize(group->rank() == 0 ? 4 << 20 : 4);
  try {
    group->rank() == 0 ? group->send(tensor_of(values), 1) : group->recv(tensor_of(values), 0);
    std::printf("rank %u: the long one ended\n", group->rank());
  } catch (const Error& error) {
    std::printf("rank %u: the long one: %s\n", group->rank(), error.what());
  }
  float one = 1;
  group->all_reduce(tensor_of(&one, 1));
  std::printf("rank %u goes on: %g\n", group->rank(), static_cast<double>(one));
}

/// A receive that nobody answers.
void late_message() {
  const auto client = Client::from_environment();
  const auto group = ProcessGroup::open(client, {.backend = "mpi"});
  std::vector<float> values(4);
  if (group->rank() == 0) {
    print_error(*group, [&] { group->recv(tensor_of(values), 1, 3, {.timeout = 500ms}); });
  }
  // MPI has nothing of the group's, so that another group can be opened.
  const auto again = ProcessGroup::open(
      client, World{.rank = group->rank(), .size = group->size(), .name = "again"},
      {.backend = "mpi"});
  again->barrier();
  std::printf("rank %u: another group works\n", group->rank());
}

/// Waits until `settled` holds, for 1 s at most.
void wait_for(const std::function<bool()>& settled) {
  for (int i = 0; i < 100 && !settled(); ++i) std::this_thread::sleep_for(10ms);
}

/// Returns the number of threads of this process once it has stayed the same for 100 ms, or the
/// number after 1 s: a thread that ends is still counted for a moment.
std::size_t settled_threads() {
  std::size_t threads = test::threads_here();
  int same = 0;
  wait_for([&] {
    const std::size_t now = test::threads_here();
    same = now == threads ? same + 1 : 0;
    threads = now;
    return same == 10;
  });
  return threads;
}

/// How many more there are than before; 0 if there are fewer, since only growth is a leak.
std::size_t growth(std::size_t before, std::size_t now) { return now - std::min(before, now); }

/// Groups that are opened and closed leave nothing.
void many() {
  const auto group = open();
  const auto once = [&] {
    const auto child = group->split(0);
    child->barrier();
    float value = 1;
    if (child->rank() == 0) child->send(tensor_of(&value, 1), 1);
    if (child->rank() == 1) child->recv(tensor_of(&value, 1), 0);
  };
  for (int i = 0; i < 20; ++i) once();
  const std::size_t threads = settled_threads();
  const std::size_t files = test::entries("/proc/self/fd");
  for (int i = 0; i < 1000; ++i) once();
  wait_for([&] { return test::threads_here() <= threads; });
  std::printf("rank %u: %zu more threads, %zu more files\n", group->rank(),
              growth(threads, test::threads_here()), growth(files, test::entries("/proc/self/fd")));
}

/// 64 MiB both ways at once, with blocking calls after both were issued.
void both_ways() {
  const auto group = open();
  std::vector<float> mine(16 << 20, static_cast<float>(group->rank() + 1));
  std::vector<float> theirs(mine.size());
  const WorkPtr sent = group->isend(tensor_of(mine), 1 - group->rank());
  const WorkPtr got = group->irecv(tensor_of(theirs), 1 - group->rank());
  sent->wait();
  got->wait();
  const float expected = static_cast<float>(2 - group->rank());
  std::printf("rank %u: %s\n", group->rank(),
              theirs == std::vector<float>(mine.size(), expected) ? "right" : "wrong");
}

/// Four threads use groups at the same time: collectives of two groups, messages, asynchronous
/// calls.
void threads() {
  const auto group = open();
  const auto second = group->split(0);
  const auto third = group->split(0);
  const Rank peer = 1 - group->rank();
  constexpr int kRounds = 300;
  std::vector<std::function<void()>> bodies = {
      [&] {
        for (int i = 0; i < kRounds; ++i) {
          std::vector<float> values(i * 7 % 3000, 1);
          group->all_reduce(tensor_of(values));
        }
      },
      [&] {
        for (int i = 0; i < kRounds; ++i) {
          std::vector<WorkPtr> works;
          std::vector<std::vector<float>> values(4, std::vector<float>(100, 1));
          for (auto& one : values) {
            works.push_back(second->all_reduce(tensor_of(one), ReduceOp::sum, {.async = true}));
          }
          for (const WorkPtr& work : works) work->wait();
        }
      },
      [&] {
        for (int i = 0; i < kRounds; ++i) {
          std::vector<float> mine(i * 11 % 5000, 1);
          std::vector<float> theirs(5000);
          const WorkPtr sent = third->isend(tensor_of(mine), peer, 5);
          third->recv(tensor_of(theirs), peer, 5);
          sent->wait();
        }
      },
      [&] {
        for (int i = 0; i < kRounds; ++i) third->barrier();
      }};
  std::vector<std::thread> running;
  for (const auto& body : bodies) running.emplace_back(body);
  for (std::thread& thread : running) thread.join();
  std::printf("rank %u: all threads have ended\n", group->rank());
}

/// Callbacks drop the last reference to their group: of a collective, and of a message.
void callback() {
  const auto client = Client::from_environment();
  for (const bool message : {false, true}) {
    auto group = std::make_shared<std::shared_ptr<ProcessGroup>>(ProcessGroup::open(
        client, World{.rank = client->rank(), .size = 2, .name = message ? "two" : "one"},
        {.backend = "mpi"}));
    std::vector<float> values(4);
    const Rank peer = 1 - (*group)->rank();
    WorkPtr work;
    if (message) {
      work = peer == 1 ? (*group)->isend(tensor_of(values), peer)
                       : (*group)->irecv(tensor_of(values), peer);
    } else {
      work = (*group)->all_reduce(tensor_of(values), ReduceOp::sum, {.async = true});
    }
    std::promise<void> dropped;
    work->on_end([&](Work&) {
      group->reset();
      dropped.set_value();
    });
    dropped.get_future().wait();
  }
  std::printf("rank %u: both groups are gone\n", client->rank());
}

/// The callback of a message drops the last reference to its group. A second message has then ended
/// in the same poll, and a third one waits.
void callback_with_others() {
  auto group = open();
  std::vector<float> values(4);
  if (group->rank() == 1) {
    group->send(tensor_of(values), 0, 0);
    std::this_thread::sleep_for(100ms);
    const WorkPtr one = group->isend(tensor_of(values), 0, 1);
    group->send(tensor_of(values), 0, 2);
    one->wait();
    std::printf("rank 1: sent\n");
    return;
  }
  std::vector<std::vector<float>> into(4, values);
  std::vector<WorkPtr> works;
  for (std::uint32_t tag = 0; tag < into.size(); ++tag) {
    works.push_back(group->irecv(tensor_of(into[tag]), 1, tag));
  }
  works[0]->on_end([](Work&) { std::this_thread::sleep_for(500ms); });
  std::promise<void> dropped;
  works[1]->on_end([&](Work&) {
    group.reset();
    dropped.set_value();
  });
  dropped.get_future().wait();
  std::string codes;
  for (int i = 1; i <= 3; ++i) codes += " " + std::string(name_of(works[i]->code()));
  std::printf("rank 0:%s\n", codes.c_str());
}

std::shared_ptr<ProcessGroup> never_dropped;

/// A group is destroyed after MPI was ended.
void at_exit() {
  never_dropped = open();
  never_dropped->barrier();
  std::printf("rank %u leaves\n", never_dropped->rank());
}

/// A process exits with an operation inside MPI.
void exit_inside() {
  const auto client = Client::from_environment();
  never_dropped = ProcessGroup::open(client, {.backend = "mpi"});
  std::vector<float> values(4);
  std::vector<float> into(4);
  if (client->rank() == 1) return std::this_thread::sleep_for(30s);
  const WorkPtr one = never_dropped->all_reduce(tensor_of(values), ReduceOp::sum, {.async = true});
  const WorkPtr two = never_dropped->irecv(tensor_of(into), 1);
  std::this_thread::sleep_for(200ms);
  std::printf("rank 0 leaves\n");
  std::fflush(stdout);
  std::exit(0);
}

/// A forked process can neither use nor end the MPI of its parent.
void forked() {
  const auto group = open();
  group->barrier();
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    try {
      ProcessGroup::open(Client::from_environment(),
                         World{.name = "child of " + std::to_string(group->rank())},
                         {.backend = "mpi"});
    } catch (const Error& error) {
      std::printf("child: %s\n", error.what());
    }
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  group->barrier();
  std::printf("rank %u: child ended with %d\n", group->rank(), status);
}

/// Rank 1 falls asleep after the exchange of identities.
class SleepyBootstrap final : public Bootstrap {
 public:
  explicit SleepyBootstrap(std::shared_ptr<Client> client) : client_(std::move(client)) {}
  std::vector<std::string> transpose(std::vector<std::string> parts, Duration) override {
    auto all = client_->exchange("sleepy", std::move(parts), {.shape = ExchangeShape::transpose});
    if (client_->rank() == 1) std::this_thread::sleep_for(30s);
    return all;
  }
  std::string local_address() const override { return "127.0.0.1"; }

 private:
  const std::shared_ptr<Client> client_;
};

/// The group of a rank that does not open it to the end has a time-out.
void late_opening() {
  const auto client = Client::from_environment();
  const auto start = Clock::now();
  try {
    ProcessGroup::open(std::make_shared<SleepyBootstrap>(client),
                       World{.rank = client->rank(), .size = 2},
                       GroupOptions{.backend = "mpi", .open_timeout = 1s});
  } catch (const Error& error) {
    std::printf("after %ld tenths: %s\n", static_cast<long>((Clock::now() - start) / 100ms),
                error.what());
  }
}

int run(const std::string& command) {
  const std::map<std::string, void (*)()> commands = {
      {"mismatch", mismatch},
      {"lists", lists},
      {"long_lists", long_lists},
      {"late", late},
      {"late_opening", late_opening},
      {"abort", abort_group},
      {"long_message", long_message},
      {"late_message", late_message},
      {"many", many},
      {"both_ways", both_ways},
      {"threads", threads},
      {"callback", callback},
      {"at_exit", at_exit},
      {"exit_inside", exit_inside},
      {"forked", forked},
      {"callback_with_others", callback_with_others}};
  try {
    commands.at(command)();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace c10dd

int main(int argc, char** argv) { return c10dd::run(argc > 1 ? argv[1] : ""); }
