// SPDX-License-Identifier: Apache-2.0
// How the agent ends: with the job's success, with its failure, or because it was told to.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "client/launcher/address.h"
#include "client/launcher/agent.h"

namespace c10dd::run {
namespace {

constexpr Duration kFarewell = std::chrono::seconds(5);

}  // namespace

/// Waits a little for the daemon to have it; without, the end of the connection says less.
void Agent::say_goodbye(const std::function<void()>& last_call) {
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop_, kFarewell);
  timer->async_wait([timer](const boost::system::error_code&) {});  // wakes the loop
  try {
    background_.run(last_call, [&] {
      return std::chrono::steady_clock::now() >= deadline || signals_heard_ > 1;
    });
  } catch (const Error& error) {
    note(error.what());
  }
  timer->cancel();
}

int Agent::finish() {
  say_goodbye([m = membership_] { m->finish(); });
  return 0;
}

int Agent::give_up() {
  std::string text = "the job has failed";
  if (plan_.restarts > 0) text += " after " + plural(plan_.restarts, "restart");
  text += ": " + (report_ ? report_->text() : of_nodes(generation_.reason));
  for (const std::string& line : report_ ? report_->last : std::vector<std::string>()) {
    text += "\n    " + line;
  }
  if (others_stopped_ > 0) {
    text += "\n  " + plural(others_stopped_, "other worker") + " of this node " +
            (others_stopped_ == 1 ? "was" : "were") + " stopped";
  }
  note(text);
  say_goodbye([m = membership_] { m->leave("the job has failed too often"); });
  return report_ ? report_->exit_code : 1;
}

int Agent::leave_by_request() {
  leaving_ = true;
  const std::string why =
      notice_ ? "drained: " + notice_->reason : "drained by " + signal_name(signal_);
  if (membership_ && notice_) {
    background_.send([m = membership_, number = notice_->number] { m->acknowledge(number); });
    const Duration left = notice_->left - std::chrono::seconds(1);
    if (notice_->left > Duration::zero()) {
      options_.grace = std::clamp<Duration>(left, Duration::zero(), options_.grace);
    }
  } else if (membership_ && generation_.size > 1) {
    // So that workers of other nodes that fail for want of ours are no failure.
    DrainNotice own;
    own.ranks = {generation_.rank};
    own.left = options_.grace + 2 * kFarewell;
    own.reason = why + " on " + host_name();
    background_.send([m = membership_, own] { m->notify(own); });
  }
  stop_crew(signal_);
  if (membership_) say_goodbye([m = membership_, why] { m->leave(why); });
  return kSignalled + signal_;
}

}  // namespace c10dd::run
