// SPDX-License-Identifier: Apache-2.0
// Finds out under the mutex what is due, and calls it without the mutex. Meanwhile other threads
// change an entry only if it has a call, and run() leaves these entries alone.
#include "client/internal/periodics.h"

#include <algorithm>
#include <utility>

#include "client/internal/boot_time.h"

namespace c10dd::client {
namespace {

constexpr Duration kPeriodicLimit = std::chrono::minutes(1);  // time-out of a request

bool is_wanted(const Periodic& periodic) { return !periodic.wanted || periodic.wanted(); }

}  // namespace

Periodics::Periodics(std::vector<Periodic> all) {
  for (Periodic& one : all) all_.push_back({.does = std::move(one)});
}

TimePoint Periodics::due() const {
  TimePoint first = TimePoint::max();
  for (const Entry& entry : all_) {
    if (!entry.call && is_wanted(entry.does)) first = std::min(first, entry.next);
  }
  return first;
}

bool Periodics::take(const Completion& done) {
  const auto it = std::ranges::find(all_, done.call, &Entry::call);
  if (it == all_.end()) return false;
  it->call.reset();
  if (it->does.replied) it->reply = done.reply;
  return it->reply.has_value();
}

void Periodics::run(std::unique_lock<std::mutex>& lock, Core& core, bool closing) {
  struct Work {
    Entry& entry;
    bool asks;
    std::optional<Request> request = {};
  };
  const TimePoint now = boot_time();
  std::vector<Work> works;
  for (Entry& entry : all_) {
    const bool asks =
        core.open() && !closing && !entry.call && now >= entry.next && is_wanted(entry.does);
    if (asks || entry.reply) works.push_back({entry, asks});
  }
  if (works.empty()) return;
  const std::uint64_t connects = core.stats(now).connects;
  lock.unlock();
  for (Work& work : works) {
    Entry& entry = work.entry;
    if (const auto reply = std::exchange(entry.reply, {})) entry.does.replied(*reply);
    if (!work.asks) continue;
    work.request = entry.does.request(connects != entry.connects);
    entry.connects = connects;
    entry.next = now + entry.does.period;
  }
  lock.lock();
  for (Work& work : works) {
    if (work.request) {
      work.entry.call = core.call(std::move(*work.request), kPeriodicLimit, boot_time());
    }
  }
}

}  // namespace c10dd::client
