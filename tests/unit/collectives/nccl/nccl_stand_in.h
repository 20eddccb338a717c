// SPDX-License-Identifier: Apache-2.0
// What the stand-in for libnccl.so.2 consists of: teams of communicators, and the operations that
// these put on streams.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collectives/nccl/api.h"

namespace c10dd::stand_in {

using collectives::nccl::Comm;
using collectives::nccl::Op;
using collectives::nccl::Type;

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, recv };

/// One operation of one rank.
struct Issued {
  Kind kind{};
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;  // as in the call
  Type type{};
  Op op{};
  double factor = 1;  // of an operator of ncclRedOpCreatePreMulSum
  int root = 0;       // or the peer
  void* stream = nullptr;
  bool stuck = false;
};

/// A send that waits for its recv.
struct Sent {
  const void* data;
  std::size_t bytes;
  bool taken = false;
};

/// The communicators of one group.
struct Team {
  int ranks = 0;
  int joined = 0;
  struct Round {
    std::map<int, const Issued*> arrived;  // by rank
    bool done = false;
  };
  std::map<std::uint64_t, Round> rounds = {};
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Sent>>> mail =
      {};  // by sender and receiver
  struct Split {
    std::map<int, std::pair<int, int>> wishes;   // color and key, by rank
    std::map<int, std::shared_ptr<Team>> parts;  // by color
  };
  std::vector<Split> splits = {};
};

/// Guards all teams and communicators.
std::mutex& world_mutex();
std::condition_variable& world_changed();

/// Computes a collective for all ranks of a team, whose operations are in the order of the ranks.
void compute(const std::vector<const Issued*>& ranks);

std::size_t size_of_type(Type type);

/// Returns one element as a number.
double number_of(const void* element, Type type);

}  // namespace c10dd::stand_in

namespace c10dd::collectives::nccl {

/// A communicator. Never freed, so that a wrong use is seen.
struct Communicator {
  std::shared_ptr<c10dd::stand_in::Team> team;
  int rank = 0;
  int device = 0;
  bool connecting = false;
  int polls = 0;                           // that will return ncclInProgress
  std::function<void()> effect;            // happens after them
  c10dd::stand_in::Comm* child = nullptr;  // of a split that is in progress
  std::size_t splits = 0;                  // that this rank has begun
  std::pair<int, std::string> child_name;  // of the split: blocking, name
  std::uint64_t rounds = 0;                // collectives that the stream has come to
  int running = 0;                         // tasks on the stream
  int stuck = 0;                           // of them, that never end
  bool aborting = false;
  bool aborted = false;
  bool gone = false;
  std::map<int, double> factors;  // of its own operators
};

}  // namespace c10dd::collectives::nccl
