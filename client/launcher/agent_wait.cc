// SPDX-License-Identifier: Apache-2.0
// The functions of the agent that handle signals, follow the status of the group and wait for
// conditions. They all run on the loop's thread.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "client/launcher/agent.h"
#include "client/launcher/output.h"
#include "client/launcher/signals.h"
#include "protocol/exit_codes.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::run {
namespace {

using Clock = std::chrono::steady_clock;

/// Signals within this time are one event.
constexpr Duration kOneEvent = std::chrono::seconds(1);

bool names(const DrainNotice& notice, std::uint32_t rank) {
  return std::find(notice.ranks.begin(), notice.ranks.end(), rank) != notice.ranks.end();
}

}  // namespace

void Agent::receive_signals() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    const bool forwarded = std::ranges::count(forwarded_signals(), number) > 0;
    forwarded ? forward(number) : stop_for(number);
    receive_signals();
  });
}

/// Passes a signal on to the workers, which decide what to do.
void Agent::forward(int signal) {
  const std::size_t sent = workers_ ? workers_->forward(signal) : 0;
  if (signal == SIGCONT || signal == SIGWINCH) return;
  note("received " + signal_name(signal) +
       (sent > 0 ? format("; passed it on to {} process{}", sent, sent > 1 ? "es" : "")
                 : "; not passed on, because no worker process handles it"));
}

/// Begins to stop the workers. Schedulers, shells and terminals often send two signals for one
/// event. So a second one only hurries if it is SIGINT, and not of the same moment.
void Agent::stop_for(int signal) {
  const auto now = Clock::now();
  if (signal_ == 0) {
    note("received " + signal_name(signal) + "; stopping the workers");
    signal_ = signal;
    signalled_at_ = now;
  } else if (signal == SIGINT && now - signalled_at_ > kOneEvent) {
    note("received SIGINT again; killing the workers");
    hurry_ = true;
  } else {
    note("received " + signal_name(signal) + ", too; the workers still have the rest of --grace " +
         human(options_.grace) + "; SIGINT kills them at once");
  }
}

/// Watches the status of the group. The callback runs on a thread of the membership and posts to
/// the loop.
void Agent::watch_group() {
  watching_ = membership_->on_change([this](const GroupState& state) {
    boost::asio::post(loop_, [this, state] { take_state(state); });
  });
}

void Agent::take_state(const GroupState& state) {
  state_ = state;
  if (state.generation != generation_.number || signal_ != 0) return;
  for (const DrainNotice& notice : state.notices) {
    if (!names(notice, generation_.rank)) continue;
    notice_ = notice;
    signal_ = SIGTERM;
    signalled_at_ = Clock::now();
    return note("this node was asked to leave: " + notice.reason + "; stopping the workers");
  }
}

/// Returns whether the workers of the generation must stop. Ignores a status of an older
/// generation: such a status may still arrive after this agent has joined the present generation.
bool Agent::over() const {
  // A launch of one node has no others that might go on without it.
  return (state_.fenced && options_.max_nodes > 1) || generation_has_ended();
}

/// Returns whether the daemon has said that the generation has ended.
bool Agent::generation_has_ended() const {
  if (state_.generation > generation_.number) return true;
  return state_.generation == generation_.number &&
         (state_.phase == GroupState::Phase::broken || state_.phase == GroupState::Phase::forming);
}

bool Agent::newcomers() const {
  return state_.generation == generation_.number && state_.waiting > 0 &&
         generation_.size < options_.max_nodes;
}

bool Agent::others_drain() const {
  return state_.generation == generation_.number &&
         std::any_of(state_.notices.begin(), state_.notices.end(),
                     [this](const DrainNotice& notice) {
                       return !notice.ranks.empty() && !names(notice, generation_.rank);
                     });
}

std::optional<FailureReport> Agent::reported_failure() const {
  if (state_.generation != generation_.number || !over()) return std::nullopt;
  return read_failure_report(state_.reason);
}

bool Agent::too_many(std::uint32_t failures) const {
  return failures - std::min(failures, base_.value_or(0)) > options_.max_restarts;
}

void Agent::throw_if_stopped() const {
  if (signal_ != 0 && !leaving_) throw Stopped{};
  if (daemon_ended())
    throw Fatal(exit_code::kUnreachable, "the daemon of --standalone " + daemon_->end());
}

void Agent::wait(const Condition& until) {
  for (throw_if_stopped(); !until(); throw_if_stopped()) loop_.run_one();
}

/// Waits until the condition holds, but at most `limit`. Returns whether the condition holds.
bool Agent::wait(Duration limit, const Condition& until) {
  const auto deadline = Clock::now() + limit;
  for (throw_if_stopped(); !until() && Clock::now() < deadline; throw_if_stopped()) {
    loop_.run_one_until(deadline);
  }
  return until();
}

/// Sends `signal` to the workers, unless they were already signalled. Kills the workers that still
/// run when options_.grace has passed or a second signal arrives. Returns when all have ended.
void Agent::stop_workers(int signal) {
  if (!workers_) return;
  if (!workers_->stopping()) workers_->pass_on(signal);
  const auto none_left = [this] { return workers_->running() == 0; };
  const bool in_time = wait(options_.grace, [&] { return none_left() || hurry_; });
  if (!in_time) {
    note(format("{} did not stop within --grace {} and {} killed",
                plural(workers_->running(), "worker"), human(options_.grace),
                workers_->running() == 1 ? "is" : "are"));
  }
  if (!none_left()) workers_->kill();
  wait(none_left);
  workers_.reset();
}

}  // namespace c10dd::run
