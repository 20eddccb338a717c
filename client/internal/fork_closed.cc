// SPDX-License-Identifier: Apache-2.0
// A table of atomics, because a fork may come while another thread changes the table.
#include "client/internal/fork_closed.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

namespace c10dd::client {
namespace {

constexpr int kFree = 0;  // the table holds descriptors plus 1

std::array<std::atomic<int>, ForkClosed::kMost> table;
std::atomic<std::size_t> used = 0;  // all places from here on have always been free

void close_in_child() {
  for (std::size_t i = 0; i < used.load(); ++i) {
    if (const int stored = table[i].exchange(kFree); stored != kFree) close(stored - 1);
  }
}

void close_in_children() {
  static const int registered = pthread_atfork(nullptr, nullptr, close_in_child);
  static_cast<void>(registered);
}

std::size_t keep(int descriptor) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    int expected = kFree;
    std::size_t seen = used.load();
    while (seen <= i && !used.compare_exchange_weak(seen, i + 1)) {
    }
    if (table[i].compare_exchange_strong(expected, descriptor + 1)) return i;
  }
  return table.size();
}

}  // namespace

ForkClosed::ForkClosed(int descriptor) {
  close_in_children();
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // Asio does not set it
  place_ = keep(descriptor);
}

ForkClosed::ForkClosed(ForkClosed&& other) noexcept : place_(std::exchange(other.place_, kMost)) {}

ForkClosed& ForkClosed::operator=(ForkClosed&& other) noexcept {
  std::swap(place_, other.place_);
  return *this;
}

bool ForkClosed::closed() const { return place_ < kMost && table[place_].load() == kFree; }

ForkClosed::~ForkClosed() {
  if (place_ < kMost) table[place_].store(kFree);
}

}  // namespace c10dd::client
