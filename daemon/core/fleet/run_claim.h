// SPDX-License-Identifier: Apache-2.0
// Which daemon of a fleet has the connections of a listener, if they must not be spread over
// several: the owner of one run of the directory. The daemon that is asked first claims the run, as
// for a hello. A session of its own keeps the run, so that nobody retires it, and so that the host
// says when it is lost. Pure: the caller has the timer. All calls are made on the loop of the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/host/job_host.h"

namespace c10dd::core {

/// Owned by shared pointers: its session has one.
class RunClaim final : public ReplySink, public std::enable_shared_from_this<RunClaim> {
 public:
  /// Where the run is served: here, if there are no addresses; else by the daemon that has them.
  struct Owner {
    std::vector<std::string> addresses = {};
    bool here() const { return addresses.empty(); }
  };

  /// What it is made of. `sessions` is random: no other session has an ID with these bits.
  struct Settings {
    std::string job;
    std::string run;
    std::uint64_t sessions = 0;
    /// Calls the function on the loop after this time.
    std::function<void(Duration, std::function<void()>)> later;
    /// Returns true if no other daemon was heard when the fleet was read last.
    std::function<bool()> alone;
    /// Returns false while the engine is closed, or the lease is over.
    std::function<bool()> engine_works;
  };

  /// `host` must outlive the claim.
  RunClaim(JobHost& host, Settings settings) : host_(host), settings_(std::move(settings)) {}

  /// Finds the owner. Claims the run if it has none. Calls `then` when it is certain who the owner
  /// is: not before the lease of this daemon holds, if it is the owner, and not while the silence
  /// of the owner is counted. But a daemon that is alone has all connections, so it does not wait
  /// for an engine that cannot be reached. Fails if the directory refuses the run. Calls `then`
  /// possibly before ask() returns.
  void ask(std::function<void(Result<Owner>)> then);

  /// Keeps the run, which this daemon owns. If it is lost, claims it again, unless another daemon
  /// has claimed it: then calls `deposed`, and does not keep the run any more.
  void keep(std::function<void(const Failure& reason)> deposed);
  /// Undoes keep(). The run can be retired if nobody asks for it for a while.
  void release();
  /// Returns true between keep() and release(), unless another daemon has claimed the run.
  bool keeps() const { return deposed_ != nullptr; }

  void deliver(std::uint32_t channel, const OutgoingReply& reply, const Stamp&) override;
  void end_session(std::uint32_t channel, const Failure& reason) override;
  void flush() override {}

  /// How long a daemon that is alone waits for the engine.
  static constexpr Duration kPatience = std::chrono::milliseconds(250);
  /// How long a run that nobody needs is kept: more connections may come soon.
  static constexpr Duration kLinger = std::chrono::seconds(5);

 private:
  enum class State : std::uint8_t { none, asking, held };

  bool does_without() const { return settings_.alone() && (overdue_ || !settings_.engine_works()); }
  bool needed() const { return deposed_ || !asks_.empty(); }
  void claim();
  void lost(const Failure& reason);
  void answer(const Result<Owner>& owner);
  void settle();
  void tick();
  void tick_after(Duration time);

  JobHost& host_;
  const Settings settings_;
  State state_ = State::none;
  std::uint32_t attempt_ = 0;  ///< of the newest hello: its channel, and part of its session
  std::uint64_t ticks_ = 0;    ///< number of the newest tick that was asked for
  bool ticking_ = false;       ///< it has not come yet
  bool overdue_ = false;       ///< the reply to the newest hello has not come in time
  bool unused_ = false;        ///< nobody has needed the run since it was asked for
  JobRef slot_;
  AttachmentRef attachment_;
  std::function<void(const Failure&)> deposed_;  ///< null: the run is not kept
  std::vector<std::function<void(Result<Owner>)>> asks_;
};

}  // namespace c10dd::core
