// SPDX-License-Identifier: Apache-2.0
// One rank of a drill: a member of a group that trains, until the victim does one thing wrong.
// Prints a line of JSON when the fault happens and when an operation fails, and stays until its
// standard input is closed, so that the daemon goes on hearing of it.
//
//     drill_rank URL RANK SIZE BACKEND FAULT VICTIM PEER FIRST LAST STEP TIMEOUT
//
// RANK is - for ranks that mpirun starts. FIRST to LAST are the ranks of the group in which the
// fault happens, at step STEP. TIMEOUT: of its operations, in seconds.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/errors.h"
#include "client/membership.h"
#include "collectives/process_group.h"
#include "tests/drills/memory.h"

namespace {

using namespace std::chrono_literals;
using c10dd::CallOptions;
using c10dd::DType;
using c10dd::Rank;
using c10dd::ReduceOp;
using c10dd::WorkPtr;

constexpr std::uint64_t kSteps = 1'000'000;
constexpr CallOptions kAsync{.async = true};

struct Drill {
  std::string url, backend, fault;
  Rank rank, size, victim, peer, first, last;
  std::uint64_t step;
  std::chrono::seconds timeout;

  bool is_victim() const { return rank == victim; }
  /// The fault happens in the group of all ranks.
  bool is_of_all() const { return first == 0 && last + 1 == size; }
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

int own_rank = 0;

void print_fault() {
  std::printf("{\"rank\": %d, \"event\": \"fault\", \"at\": %.6f}\n", own_rank, now());
  std::fflush(stdout);
}

void print_error(const std::string& text, const std::vector<c10dd::Missing>& missing) {
  std::string ranks;
  for (const c10dd::Missing& one : missing) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(one.rank);
  }
  std::printf("{\"rank\": %d, \"event\": \"error\", \"at\": %.6f, \"ranks\": [%s], \"text\": %s}\n",
              own_rank, now(), ranks.c_str(), quoted(text).c_str());
  std::fflush(stdout);
}

void print_done() {
  std::printf("{\"rank\": %d, \"event\": \"done\", \"at\": %.6f}\n", own_rank, now());
  std::fflush(stdout);
}

/// Blocks until the parent closes the standard input.
void stay() {
  char byte = 0;
  while (std::cin.get(byte)) {
  }
}

class Training {
 public:
  Training(const Drill& drill, c10dd::ProcessGroup& world, c10dd::ProcessGroup* part)
      : drill_(drill), world_(world), part_(part), memory_(world) {}

  /// Goes on for ever, unless its fault is one after which all goes on.
  void run() {
    const bool ends = drill_.fault == "pause";
    for (step_ = 0; step_ < (ends ? drill_.step + 100 : kSteps); ++step_) {
      const bool due = step_ == drill_.step;
      compute();
      if (due && drill_.is_victim()) end_or_stop();
      if (drill_.fault == "crossed" && due && drill_.is_victim()) {
        print_fault();
        all_reduce(world_, 1000);
        if (part_ != nullptr) all_reduce(*part_, 100);
        continue;
      }
      if (drill_.fault == "threads" && due) return threads();
      if (drill_.fault == "streams" && due) {
        cross_on_stream();
        continue;
      }
      if (drill_.fault == "unsent") message(due);
      if (part_ != nullptr) step_in(*part_, 100);
      if (drill_.fault == "queue" && part_ == nullptr && due) {
        hold_up();
        continue;
      }
      part_ == nullptr&& drill_.first == 0 ? step_in(world_, 1000) : all_reduce(world_, 1000);
    }
  }

 private:
  void compute() const {
    auto time = drill_.fault == "slow" ? 100ms : 10ms;
    const bool slow = drill_.fault == "slow" && drill_.is_victim() && step_ >= drill_.step;
    if (slow && step_ == drill_.step) print_fault();
    std::this_thread::sleep_for(slow ? time * 125 / 100 : time);
  }

  void end_or_stop() const {
    if (drill_.fault == "kill" || drill_.fault == "stop") print_fault();
    if (drill_.fault == "kill") raise(SIGKILL);
    if (drill_.fault == "stop") raise(SIGSTOP);
    if (drill_.fault != "pause") return;
    print_fault();
    const pid_t waker = fork();
    if (waker == 0) {
      // With a heartbeat before it, less than four fifths of a member's ttl: then it fences itself.
      usleep(1'300'000);
      kill(getppid(), SIGCONT);
      _exit(0);
    }
    raise(SIGSTOP);
    waitpid(waker, nullptr, 0);
  }

  /// Two threads go on in a group each. On every second rank one of them comes late, on the others
  /// the other one, so for 24 s each rank waits for its neighbours, and nobody is stuck.
  void threads() {
    const auto of_all = world_.new_group(all_ranks(), {.kind = "tp"});
    const auto go_on = [this](c10dd::ProcessGroup& group, bool late) {
      for (int i = 0; i < 100; ++i) {
        if (late && i == 50) std::this_thread::sleep_for(24s);
        wait(group.all_reduce(memory_.elements(100), ReduceOp::sum, kAsync));
        std::this_thread::sleep_for(10ms);
      }
    };
    const bool odd = drill_.rank % 2 == 1;
    if (drill_.is_victim()) print_fault();
    std::thread other([&] { go_on(*of_all, odd); });
    go_on(world_, !odd);
    other.join();
  }

  std::vector<Rank> all_ranks() const {
    std::vector<Rank> ranks;
    for (Rank rank = 0; rank < drill_.size; ++rank) ranks.push_back(rank);
    return ranks;
  }

  /// The peer sends to the victim in each step, but for the one of the fault.
  void message(bool due) {
    if (drill_.rank != drill_.peer && !drill_.is_victim()) return;
    const c10dd::Tensor values = memory_.elements(16);
    if (drill_.is_victim()) return wait(world_.irecv(values, drill_.peer));
    if (due) return print_fault();
    wait(world_.isend(values, drill_.victim));
  }

  /// A collective in the group of the fault, which the victim gets wrong when it is due.
  void step_in(c10dd::ProcessGroup& group, std::size_t count) {
    const bool wrong = step_ == drill_.step && drill_.is_victim();
    const std::string& fault = drill_.fault;
    const c10dd::Tensor values = memory_.elements(count);
    if (fault == "root") {
      if (wrong) print_fault();
      return wait(group.broadcast(values, wrong ? 1 : 0, kAsync));
    }
    if (!wrong ||
        (fault != "operation" && fault != "size" && fault != "type" && fault != "reduction")) {
      return all_reduce(group, count);
    }
    print_fault();
    if (fault == "operation") return wait(group.barrier(kAsync));
    if (fault == "size") return all_reduce(group, count + 16);
    if (fault == "type")
      return wait(group.all_reduce(memory_.elements(count, DType::float64), ReduceOp::sum, kAsync));
    wait(group.all_reduce(values, ReduceOp::max, kAsync));
  }

  /// The victim issues the operations of two groups in the other order, and no thread waits until
  /// both are issued: only the stream does. Sizes are as before, or NCCL might first connect anew,
  /// which waits for kernels.
  void cross_on_stream() {
    c10dd::ProcessGroup* first = part_ == nullptr ? &world_ : part_;
    c10dd::ProcessGroup* second = part_ == nullptr ? nullptr : &world_;
    if (drill_.is_victim()) std::swap(first, second);
    const WorkPtr one =
        first->all_reduce(memory_.elements(count_of(*first)), ReduceOp::sum, kAsync);
    one->wait(memory_.stream());
    WorkPtr two;
    if (second != nullptr)
      two = second->all_reduce(memory_.elements(count_of(*second)), ReduceOp::sum, kAsync);
    if (drill_.is_victim()) print_fault();
    wait(one);
    if (two) wait(two);
  }

  /// The callback of an operation blocks the thread that runs the next ones, or the stream does.
  void hold_up() {
    const WorkPtr one = world_.all_reduce(memory_.elements(1000), ReduceOp::sum, kAsync);
    if (drill_.is_victim() && memory_.on_gpu()) {
      print_fault();
      memory_.hold_up(20s);
    } else if (drill_.is_victim()) {
      one->on_end([](c10dd::Work&) {
        print_fault();
        std::this_thread::sleep_for(20s);
      });
    }
    const WorkPtr two =
        world_.all_reduce(memory_.elements(1000, DType::float32, 1), ReduceOp::sum, kAsync);
    wait(one);
    wait(two);
  }

  std::size_t count_of(const c10dd::ProcessGroup& group) const {
    return &group == &world_ ? 1000 : 100;
  }

  void all_reduce(c10dd::ProcessGroup& group, std::size_t count) {
    wait(group.all_reduce(memory_.elements(count), ReduceOp::sum, kAsync));
  }

  void wait(const WorkPtr& work) {
    try {
      work->wait_on_host();
    } catch (const c10dd::Error& error) {
      print_error(error.what(), work->failed_ranks());
      stay();
      std::_Exit(0);
    }
  }

  const Drill& drill_;
  c10dd::ProcessGroup& world_;
  c10dd::ProcessGroup* const part_;  // null: the fault is in world_, or this rank is not in it
  const c10dd::drills::Memory memory_;
  std::uint64_t step_ = 0;
};

Drill parse(char** argv) {
  const auto number = [&](int at) { return static_cast<Rank>(std::stoul(argv[at])); };
  const char* const of_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  const Rank rank = argv[2][0] != '-'   ? number(2)
                    : of_mpi != nullptr ? static_cast<Rank>(std::stoul(of_mpi))
                                        : 0;
  return {.url = argv[1],
          .backend = argv[4],
          .fault = argv[5],
          .rank = rank,
          .size = number(3),
          .victim = number(6),
          .peer = number(7),
          .first = number(8),
          .last = number(9),
          .step = std::stoull(argv[10]),
          .timeout = std::chrono::seconds(number(11))};
}

void run(const Drill& drill) {
  if (drill.fault == "away" && drill.is_victim()) return stay();
  const auto client =
      c10dd::Client::connect(drill.url, {.rank = drill.rank, .world_size = drill.size});
  const auto membership = client->rendezvous(
      {.min = drill.size, .max = drill.size, .timeout = drill.timeout, .rank = drill.rank});
  const auto world =
      c10dd::ProcessGroup::open(membership, {.backend = drill.backend, .timeout = drill.timeout});
  std::shared_ptr<c10dd::ProcessGroup> part;
  if (!drill.is_of_all() && drill.first <= drill.rank && drill.rank <= drill.last) {
    std::vector<Rank> ranks;
    for (Rank rank = drill.first; rank <= drill.last; ++rank) ranks.push_back(rank);
    part = world->new_group(ranks, {.kind = "tp"});
  }
  Training(drill, *world, part.get()).run();
  print_done();
  stay();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 12) {
    std::fprintf(stderr, "drill_rank: 11 arguments are needed, got %d\n", argc - 1);
    return 64;
  }
  const Drill drill = parse(argv);
  own_rank = static_cast<int>(drill.rank);
  try {
    run(drill);
  } catch (const c10dd::TimedOut& late) {
    print_error(late.what(), late.missing());
    stay();
  } catch (const c10dd::Error& error) {
    print_error(error.what(), {});
    stay();
  }
  std::_Exit(0);
}
