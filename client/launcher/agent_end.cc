// SPDX-License-Identifier: Apache-2.0
// The three ways in which an agent ends: the job has succeeded, the job has failed, or a signal or
// a drain notice asked this node to leave.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "client/launcher/address.h"
#include "client/launcher/agent.h"
#include "protocol/format.h"

namespace c10dd::run {
namespace {

constexpr Duration kGoodbyeTimeout = std::chrono::seconds(5);
constexpr Duration kAbsentTimeout = std::chrono::seconds(2);  // while there is no connection

/// Wakes the loop of the timer often enough to see that a connection is lost.
void wake_until_cancelled(const std::shared_ptr<boost::asio::steady_timer>& timer) {
  timer->expires_after(std::chrono::milliseconds(200));
  timer->async_wait([timer](const boost::system::error_code& cancelled) {
    if (!cancelled) wake_until_cancelled(timer);
  });
}

}  // namespace

/// Runs `last_call`, which tells the daemon why this node ends. The daemon tells the other nodes.
/// Without this call, the other nodes would see only that the connection of this node has ended.
/// Returns when the call has ended, when a second signal arrives, after kGoodbyeTimeout, or after
/// kAbsentTimeout without a connection. Prints it if the daemon did not answer in that time.
void Agent::say_goodbye(const std::function<void()>& last_call) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    const auto patience = *connected_ ? kGoodbyeTimeout : kAbsentTimeout;
    return std::chrono::steady_clock::now() - start >= patience;
  };
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_);
  wake_until_cancelled(timer);
  try {
    untold_ = !background_.run(last_call, [&] { return is_late() || hurry_; });
    if (untold_ && is_late()) {
      note("the daemon at " + options_.daemon.addresses() +
           " does not answer; it has not been told that this node has ended");
    }
  } catch (const Error& error) {
    note(error.what());
  }
  timer->cancel();
}

/// Ends with success.
int Agent::finish() {
  say_goodbye([m = membership_] { m->finish(); });
  return 0;
}

/// Reports that the job has failed, and returns the exit code of the worker that failed first.
int Agent::end_failed() {
  std::string text = "the job has failed";
  if (plan_.restarts > 0) text += " after " + plural(plan_.restarts, "restart");
  text += ": " + (report_ ? report_->text() : of_nodes(generation_.reason));
  for (const std::string& line : report_ ? report_->last : std::vector<std::string>()) {
    text += "\n    " + line;
  }
  if (others_stopped_ > 0) {
    text += format("\n  {} of this node {} stopped", plural(others_stopped_, "other worker"),
                   others_stopped_ == 1 ? "was" : "were");
  }
  note(text);
  say_goodbye(
      [m = membership_] { m->leave("the job has failed more often than --max-restarts allows"); });
  return report_ ? report_->exit_code : 1;
}

/// Stops the workers and leaves the group after a signal or a drain notice.
int Agent::leave_by_request() {
  leaving_ = true;
  const std::string why =
      notice_ ? "drained: " + notice_->reason : "drained by " + signal_name(signal_);
  if (membership_ && notice_) {
    background_.send([m = membership_, number = notice_->number] { m->acknowledge(number); });
    // The workers are killed one second before the deadline of the notice.
    const Duration left = notice_->left - std::chrono::seconds(1);
    if (notice_->left > Duration::zero()) {
      options_.grace = std::clamp<Duration>(left, Duration::zero(), options_.grace);
    }
  } else if (membership_ && generation_.size > 1) {
    // When the workers of this node end, workers of other nodes may fail, too. This notice tells
    // the other nodes not to count such a failure.
    DrainNotice own;
    own.ranks = {generation_.rank};
    own.left = options_.grace + 2 * kGoodbyeTimeout;
    own.reason = why + " on " + host_name();
    background_.send([m = membership_, own] { m->notify(own); });
  }
  stop_workers(signal_);
  if (membership_) say_goodbye([m = membership_, why] { m->leave(why); });
  return kSignalled + signal_;
}

}  // namespace c10dd::run
