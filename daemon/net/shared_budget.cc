// SPDX-License-Identifier: Apache-2.0
// A connection is closed only after ConnectionBudget::look() has been called many times. A timer
// makes these calls. After a pause of the process, the timer makes only one call, so that a pause
// alone closes no connection.
#include "daemon/net/shared_budget.h"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace c10dd::daemon {

namespace asio = boost::asio;

SharedBudget::SharedBudget(Loop& loop, std::uint64_t max_bytes, Duration look)
    : budget_(std::max(max_bytes / limits::kConnectionShare, limits::kConnectionBytesMin)),
      loop_(loop),
      look_(look),
      timer_(loop) {}

std::uint64_t SharedBudget::held() const {
  const std::lock_guard lock(mutex_);
  return budget_.held();
}

template <class F>
void SharedBudget::decide(F&& step) {
  const std::lock_guard lock(mutex_);
  carry_out(step());
  scarce_ = budget_.scarce();
  if (scarce_ && !std::exchange(looking_, true)) asio::post(loop_, [this] { start_timer(); });
}

void SharedBudget::carry_out(const Decisions& decisions) {
  const auto post = [this](Connection connection, auto what) {
    const auto known = sinks_.find(connection);
    std::shared_ptr<BudgetSink> sink = known == sinks_.end() ? nullptr : known->second.lock();
    if (!sink) return;
    const auto executor = sink->budget_executor();
    // Moves `sink`, so that no connection is destroyed here. The destructor of a connection locks
    // mutex_, but this thread already holds mutex_.
    asio::post(executor, [sink = std::move(sink), what] { what(*sink); });
  };
  for (const Connection connection : decisions.read_on) {
    post(connection, [](BudgetSink& sink) { sink.read_on(); });
  }
  for (const auto& [connection, reason] : decisions.close) {
    post(connection, [reason = reason](BudgetSink& sink) { sink.close_for_room(reason); });
  }
}

void SharedBudget::start_timer() {
  timer_.expires_after(look_);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    {
      const std::lock_guard lock(mutex_);
      looking_ = false;
    }
    decide([this] { return budget_.look(); });
  });
}

void BudgetShare::enter() {
  if (number_ != 0) return;
  const std::lock_guard lock(budget_.mutex_);
  number_ = ++budget_.connections_;
  budget_.sinks_[number_] = sink_;
}

bool BudgetShare::begin_frame(std::size_t size) {
  if (size <= std::max(limits::kUncountedBytes, frame_)) return true;
  enter();
  frame_ = size;
  bool fits = false;
  budget_.decide([&] {
    fits = budget_.budget_.begin_frame(number_, size);
    return SharedBudget::Decisions{};
  });
  return fits;
}

void BudgetShare::give_back_frame() {
  frame_ = 0;
  budget_.decide([this] { return budget_.budget_.end_frame(number_); });
}

void BudgetShare::report_replies(std::size_t bytes) {
  enter();
  replies_ = bytes <= limits::kUncountedBytes ? 0 : bytes;
  budget_.decide([this] { return budget_.budget_.set_replies(number_, replies_); });
}

void BudgetShare::leave() {
  if (number_ == 0) return;
  budget_.decide([this] { return budget_.budget_.leave(number_); });
  const std::lock_guard lock(budget_.mutex_);
  budget_.sinks_.erase(std::exchange(number_, 0));
  frame_ = 0;
  replies_ = 0;
}

}  // namespace c10dd::daemon
