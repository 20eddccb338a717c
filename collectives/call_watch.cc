// SPDX-License-Identifier: Apache-2.0
// Decides when a call is published and when its publication is removed, and explains failures.
#include "collectives/call_watch.h"

#include <algorithm>
#include <system_error>

#include "collectives/who_waits.h"
#include "protocol/limits.h"

namespace c10dd::collectives {
namespace {

// Time between two publications of a call. The daemon drops a call that is not published again.
constexpr Duration kRepeat = Duration(limits::kPublishedCallLife) / 3;
// How often the thread checks the connection. It checks while a call is published, and while a call
// cannot be published because there is no connection.
constexpr Duration kConnectionCheck = std::chrono::milliseconds(250);
constexpr Duration kReplyTimeout = std::chrono::milliseconds(250);
// explain() sends no request if the daemon has not replied for longer than this (3 heartbeats).
constexpr Duration kSilenceMax = std::chrono::milliseconds(1500);
constexpr Duration kPublishTimeout = std::chrono::seconds(5);

}  // namespace

CallWatch::CallWatch(std::shared_ptr<client::Connection> connection, Rank rank, Rank world_size)
    : connection_(std::move(connection)), rank_(rank), world_size_(world_size) {
  if (world_size_ > 1) TimerThread::instance().add(*this);
}

CallWatch::~CallWatch() {
  if (world_size_ > 1) TimerThread::instance().remove(*this);
}

void CallWatch::identify(std::uint64_t process_group, std::vector<ProcessAddress> processes) {
  process_group_ = process_group;
  processes_ = std::move(processes);
}

void CallWatch::started(const CollectiveCall& call) noexcept {
  // A message concerns two ranks only, so the others have no call to compare it with.
  if (info_of(call.operation.collective).message) return;
  const std::lock_guard lock(mutex_);
  running_.push_back(&call);
  if (running_.size() == 1) watch_first_locked();
}

void CallWatch::finished(const CollectiveCall& call) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find(running_.begin(), running_.end(), &call);
  if (found == running_.end()) return;  // abandoned
  const bool first = found == running_.begin();
  running_.erase(found);
  if (!first) return;
  // A failed call stays published: other ranks may fail a moment later and read it.
  if (published_ && call.outcome == Code::ok) publish_locked(published(call.operation), true);
  if (!running_.empty()) watch_first_locked();
}

void CallWatch::watch_first_locked() {
  const CollectiveCall& first = *running_.front();
  published_ = false;
  due_ = first.started + first.operation.timeout / 2;
  // Usually the timer thread comes early enough, and needs no call here.
  if (wakes_ <= due_) return;
  try {
    TimerThread::instance().wake(*this, due_);
    wakes_ = due_;
  } catch (const std::system_error&) {
    // Without the thread, the other ranks do not learn of this call.
  }
}

void CallWatch::explain(const CollectiveCall& call, Failure& failure) {
  if (world_size_ < 2 || !process_group_) return;
  if (info_of(call.operation.collective).message) return;
  if (!connection_->open() || connection_->since_confirmed() > kSilenceMax) return;
  // After a time-out, publishes this rank's call and then reads the calls of all ranks. After the
  // loss of a rank, reads first, and publishes only if any call is published. Usually none is,
  // because no rank has waited long enough.
  bool published = failure.code == Code::timed_out;
  for (;;) {
    if (published) {
      const std::lock_guard lock(mutex_);
      publish_locked(collectives::published(call.operation), false);
    }
    const Reply reply = connection_->call(ReadCalls{*process_group_, world_size_}, kReplyTimeout);
    if (!reply) return;
    const auto& calls = std::get<PublishedCalls>(*reply);
    if (published) return collectives::explain(failure, call, calls, processes_);
    if (calls.calls.empty()) return;
    published = true;
  }
}

CallWatch::Clock::time_point CallWatch::on_time(Clock::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  wakes_ = Clock::time_point::max();
  if (running_.empty()) return wakes_;
  // Publishes again after a reconnect, because a restarted daemon has lost the published call.
  if (published_ && connection_->stats().connects != published_in_) due_ = now;
  if (due_ <= now && connection_->open()) {
    publish_locked(published(running_.front()->operation), false);
    due_ = now + kRepeat;
  }
  wakes_ = due_;
  // Without a connection nothing can be published: tries again.
  if (published_ || due_ <= now) wakes_ = now + kConnectionCheck;
  return wakes_;
}

void CallWatch::publish_locked(const PublishedCall& call, bool ended) {
  if (!process_group_) return;
  published_ = !ended;
  published_in_ = connection_->stats().connects;
  connection_->post(PublishCall{*process_group_, rank_, call, ended}, kPublishTimeout);
}

}  // namespace c10dd::collectives
