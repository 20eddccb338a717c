// SPDX-License-Identifier: Apache-2.0
// Locks ActivityReports, and calls `hopeless` after it has unlocked.
#include "client/internal/activity_reporter.h"

#include <algorithm>
#include <utility>

#include "client/internal/boot_time.h"
#include "client/internal/caller.h"

namespace c10dd::client {

void ActivityReporter::open(WatchedGroup group, std::function<bool()> blocked) {
  if (home_.forked()) return;
  const Lock lock(mutex_);
  const std::uint64_t id = group.opened.process_group;
  hopeless_[id] = std::exchange(group.hopeless,
                                [this, id](const ActivityDiagnosis&) { given_up_.push_back(id); });
  reports_.open(std::move(group));
  blocked_ = std::move(blocked);
  changed();
}

void ActivityReporter::close(std::uint64_t process_group) {
  if (home_.forked()) return;
  Lock lock(mutex_);
  reports_.close(process_group);
  hopeless_.erase(process_group);
  changed();
  if (caller_ == std::this_thread::get_id()) return;
  returned_.wait(lock, [&] { return called_ != process_group; });
}

Connection::Periodic ActivityReporter::periodic() {
  const auto self = shared_from_this();
  return {.period = ActivityReports::kPeriod,
          .request = [self](bool again) { return self->next(again); },
          .replied = [self](const Reply& reply) { self->replied(reply); },
          .wanted = [self] { return self->wanted_.load(std::memory_order_relaxed); }};
}

std::optional<Request> ActivityReporter::next(bool again) {
  const Lock lock(mutex_);
  auto report = reports_.next(again, blocked(), boot_time());
  if (!report) return std::nullopt;
  return Request(std::move(*report));
}

void ActivityReporter::replied(const Reply& reply) {
  Lock lock(mutex_);
  reports_.replied(reply, boot_time());
  changed();
  for (const std::uint64_t id : std::exchange(given_up_, {})) {
    const auto it = hopeless_.find(id);
    if (it == hopeless_.end()) continue;  // closed while another one was called
    if (Hopeless hopeless = std::exchange(it->second, {})) {
      called_ = id;
      caller_ = std::this_thread::get_id();
      lock.unlock();
      hopeless(std::get<ActivityDiagnosis>(*reply));
      hopeless = {};  // close() also waits for the end of what it refers to
      lock.lock();
      called_.reset();
      caller_ = {};
      returned_.notify_all();
    }
  }
}

std::optional<ActivityDiagnosis> ActivityReporter::known(std::uint64_t process_group) const {
  const ActivityDiagnosis* said = reports_.diagnosis(process_group, boot_time());
  return said == nullptr ? std::nullopt : std::optional(*said);
}

std::optional<ActivityDiagnosis> ActivityReporter::explain(Connection& connection,
                                                           std::uint64_t process_group,
                                                           Duration patience, bool anew) {
  if (home_.forked()) return std::nullopt;
  Lock lock(mutex_);
  auto said = known(process_group);
  const bool hopeless = said && std::ranges::count(said->hopeless, process_group) > 0;
  if (said && (!anew || hopeless)) return said;
  auto report = reports_.timed_out(process_group, blocked());
  if (!report) return std::nullopt;
  lock.unlock();
  if (!connection.open()) return std::nullopt;
  const Caller own{.limit = patience};  // a longer time-out of this thread's calls does not count
  const CallerScope scope(own);
  const Reply reply = connection.call(*report, patience);
  lock.lock();
  reports_.explained(*report, reply, boot_time());
  changed();
  return known(process_group);
}

}  // namespace c10dd::client
