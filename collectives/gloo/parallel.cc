// SPDX-License-Identifier: Apache-2.0
// Uses the calling thread and up to 15 more. Each thread handles the next peer until none is left.
#include "collectives/gloo/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>

namespace c10dd::collectives {

namespace {
constexpr std::size_t kThreads = 16;
}

void for_each_of(const std::vector<int>& peers, const std::function<void(int)>& each) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&] {
    for (std::size_t i = next++; i < peers.size(); i = next++) {
      try {
        each(peers[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < std::min(peers.size(), kThreads); ++i) {
    threads.emplace_back(run);
  }
  run();
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void for_each_peer(int rank, int size, const std::function<void(int)>& each) {
  std::vector<int> peers;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) peers.push_back(peer);
  }
  for_each_of(peers, each);
}

}  // namespace c10dd::collectives
