// SPDX-License-Identifier: Apache-2.0
// The agent of one node: meets the others in the group "c10drun", runs this node's workers in each
// generation, and decides with the others when to start again and when to stop. One thread with a
// loop; calls that block run beside it.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/launcher/background.h"
#include "client/launcher/crew.h"
#include "client/launcher/failure_report.h"
#include "client/launcher/options.h"
#include "client/launcher/standalone.h"
#include "client/membership.h"

namespace c10dd::run {

class Agent {
 public:
  /// scratch: a folder that is removed with the launcher.
  Agent(Options options, std::string program, std::map<std::string, std::string> inherited,
        std::string scratch, Warden& warden, Console& console);
  /// Before the other members: the end of a daemon runs the loop, which has work that uses them.
  /// And the client before the daemon, for it says goodbye.
  ~Agent() {
    watching_.reset();
    crew_.reset();
    membership_.reset();
    client_.reset();
    daemon_.reset();
  }
  Agent(const Agent&) = delete;

  /// The exit code of the launcher. Throws Fatal.
  int run();
  /// Whether it may be destroyed; if not, a call still uses it and the process must just end.
  bool idle() const { return background_.idle(); }
  void end_processes() {
    crew_.reset();
    daemon_.reset();
  }

 private:
  enum class Outcome { done, again, failed };
  using Condition = std::function<bool()>;
  struct Stopped {};  ///< thrown out of whatever waits when this node has to leave

  // ---- agent.cc: the course of a launch
  int go();
  void connect();
  void rendezvous();
  void refuse_disagreement();
  Outcome work();
  bool prepare();
  Outcome report_failure();
  Outcome after_end();
  bool meet_again();
  bool wait_for_others();
  int finish();
  int give_up();
  int leave_by_request();
  void say_goodbye(const std::function<void()>& last_call);

  // ---- agent_wait.cc: what it knows, and waiting
  void hear_signals();
  void follow();
  void take_state(const GroupState& state);
  bool over() const;
  bool newcomers() const;
  bool others_drain() const;
  std::optional<FailureReport> verdict_of_news() const;
  bool too_many(std::uint32_t failures) const;
  void wait(const Condition& until);
  bool wait(Duration limit, const Condition& until);
  void look_around() const;
  void stop_crew(int signal);
  void note(const std::string& text) { console_.note(text); }

  /// A call that blocks; nothing if `give_up` was true first. Throws Stopped, and what it throws.
  template <class Call>
  auto call(Call blocking, const Condition& give_up) {
    look_around();
    auto value = background_.run(std::move(blocking),
                                 [&] { return signal_ != 0 || daemon_ended() || give_up(); });
    if (!value) look_around();
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
  Warden& warden_;
  Console& console_;
  CrewHome home_;
  std::unique_ptr<Standalone> daemon_;

  std::shared_ptr<Client> client_;
  std::shared_ptr<Membership> membership_;
  std::shared_ptr<void> watching_;
  Generation generation_;
  GroupState state_;
  std::optional<std::uint32_t> base_;    ///< failures of the group before this launch
  std::optional<FailureReport> report_;  ///< the newest
  std::size_t others_stopped_ = 0;       ///< here, because of it
  Plan plan_;
  std::unique_ptr<Crew> crew_;

  int signal_ = 0;  ///< the first; SIGTERM for a notice
  int signals_heard_ = 0;
  bool leaving_ = false;               ///< because of it
  std::optional<DrainNotice> notice_;  ///< that names this node
};

}  // namespace c10dd::run
