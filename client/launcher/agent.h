// SPDX-License-Identifier: Apache-2.0
// The agent of one node: joins the group "c10drun" with the agents of the other nodes, runs this
// node's workers in each generation, and decides with the others when to restart and when to stop.
// All state belongs to one thread, which runs an event loop; blocking calls run on other threads.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/launcher/address.h"
#include "client/launcher/background.h"
#include "client/launcher/failure_report.h"
#include "client/launcher/options.h"
#include "client/launcher/standalone.h"
#include "client/launcher/workers.h"
#include "client/membership.h"

namespace c10dd::run {

class Agent {
 public:
  /// `scratch` is a temporary folder, which the orphan killer removes.
  Agent(Options options, std::string program, std::map<std::string, std::string> inherited,
        std::string scratch, OrphanKiller& orphan_killer, Console& console);
  /// Destroys client_ before daemon_, because the client says goodbye to the daemon. Destroys
  /// daemon_ here, before the other members, because the destructor of daemon_ runs the event loop.
  /// Handlers of the loop use the other members.
  ~Agent() {
    watching_.reset();
    workers_.reset();
    membership_.reset();
    client_.reset();
    daemon_.reset();
  }
  Agent(const Agent&) = delete;

  /// Runs the launch to its end and returns the exit code of the launcher. Throws Fatal.
  int run();
  /// Returns whether this agent may be destroyed. If false, a blocking call on another thread still
  /// uses the agent, so the process must end without destroying the agent.
  bool idle() const { return background_.idle(); }
  /// Kills the workers and ends the daemon that --standalone has started.
  void end_processes() {
    workers_.reset();
    daemon_.reset();
  }

 private:
  enum class Outcome { done, again, failed };
  using Condition = std::function<bool()>;
  struct Stopped {};  ///< thrown by every wait when this node has to leave

  // ---- agent.cc: the steps of a launch
  int go();
  void connect();
  void rendezvous();
  void say_who_has_joined(const std::shared_ptr<boost::asio::steady_timer>& timer);
  void hold_off();
  void count_flaps();
  void refuse_disagreement();
  Outcome work();
  bool prepare();
  Outcome report_failure();
  Outcome after_end();
  bool rejoin();
  bool wait_for_others();
  int finish();
  int end_failed();
  int leave_by_request();
  void say_goodbye(const std::function<void()>& last_call);

  // ---- agent_wait.cc: signals, the status of the group, waiting
  void receive_signals();
  void forward(int signal);
  void stop_for(int signal);
  void watch_group();
  void take_state(const GroupState& state);
  bool over() const;
  bool generation_has_ended() const;
  bool newcomers() const;
  bool others_drain() const;
  std::optional<FailureReport> reported_failure() const;
  bool too_many(std::uint32_t failures) const;
  void wait(const Condition& until);
  bool wait(Duration limit, const Condition& until);
  void throw_if_stopped() const;
  void stop_workers(int signal);
  void note(const std::string& text) { console_.note(text); }

  /// Runs a blocking call on another thread and returns its value. Returns nothing if
  /// `stop_waiting` is true before the call ends. Throws Stopped, Fatal, and the exceptions of the
  /// call.
  template <class Call>
  auto call(Call blocking, const Condition& stop_waiting) {
    throw_if_stopped();
    auto value = background_.run(std::move(blocking),
                                 [&] { return signal_ != 0 || daemon_ended() || stop_waiting(); });
    if (!value) throw_if_stopped();
    return value;
  }
  template <class Call>
  auto call(Call blocking) {
    return *call(std::move(blocking), [] { return false; });
  }
  bool daemon_ended() const { return daemon_ && !daemon_->running(); }

  Options options_;
  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{
      loop_.get_executor()};
  boost::asio::signal_set signals_{loop_};
  Background background_{loop_};
  OrphanKiller& orphan_killer_;
  Console& console_;
  WorkersContext home_;
  std::unique_ptr<Standalone> daemon_;

  // Whether client_ has a connection. A thread of the client sets it.
  std::shared_ptr<std::atomic<bool>> connected_ = std::make_shared<std::atomic<bool>>(true);
  bool untold_ = false;  // the daemon did not answer the last call
  std::shared_ptr<Client> client_;
  std::shared_ptr<Membership> membership_;
  std::shared_ptr<void> watching_;
  Generation generation_;
  std::chrono::steady_clock::time_point generation_began_ = {};
  GroupState state_;
  std::optional<std::uint32_t> base_;    ///< number of the group's failures before this launch
  std::optional<FailureReport> report_;  ///< newest failure report of any node
  /// Number of workers of this node that were stopped because one of them had failed.
  std::size_t others_stopped_ = 0;
  std::optional<PromisedPort> promised_;  ///< of rank 0, if it is on this node
  Plan plan_;
  bool threads_told_ = false;
  std::unique_ptr<Workers> workers_;

  int signal_ = 0;  ///< the first signal, or SIGTERM for a drain notice; 0 if none so far
  std::chrono::steady_clock::time_point signalled_at_ = {};
  bool hurry_ = false;                 ///< the workers are to be killed at once
  bool leaving_ = false;               ///< the node is leaving because of signal_
  std::optional<DrainNotice> notice_;  ///< the drain notice that names this node
};

}  // namespace c10dd::run
