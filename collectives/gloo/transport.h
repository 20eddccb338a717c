// SPDX-License-Identifier: Apache-2.0
// Transport: a Gloo transport context that can be stopped. All waits of Gloo's collectives go
// through Transport, which enforces the deadline and watches the peers. After a stop, all waits end
// and throw. Gloo alone is not enough: its collectives continue after an aborted wait, close
// connections when a wait times out, and overlook a peer that dies in the middle of a message.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/backend.h"
#include "collectives/gloo/exit_messages.h"
#include "collectives/timer_thread.h"

namespace c10dd::collectives {

/// Thrown by a wait after the transport was stopped, to leave Gloo's collective.
/// Transport::stopped() returns the reason.
struct Stopped : std::exception {
  const char* what() const noexcept override { return "collective stopped"; }
};

class StoppableBuffer;

/// Owns the connections of one rank to its peers. Once the transport is stopped, no further
/// collective can begin. stop() and stopped() are thread-safe. While the group is being opened,
/// several threads call getPair(), for different peers. Only one thread at a time calls the other
/// methods: first the thread that opens the group, then the thread that runs the collectives.
class Transport final : public ::gloo::transport::Context, private TimerThread::Task {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Transport(std::shared_ptr<::gloo::transport::Context> inner);

  /// Sends the exit message if it was not sent yet, and then closes all connections. No collective
  /// may be running.
  ~Transport() override;

  std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override;
  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                        std::size_t bytes) override;

  /// Starts to watch the peers, on the timer thread. Called once, after all peers are connected.
  /// `processes` lists the addresses of the ranks in rank order; the list may be empty.
  void watch(std::vector<ProcessAddress> processes);

  /// Waits until every rank watches its peers, at most for `timeout`: before that, a rank that
  /// exits would break connections that others are still opening. Called once, after watch().
  /// Fails, and stops the transport, if a peer is lost or does not come.
  Result<void> await_peers(Duration timeout);

  /// Begins a collective, which the timer thread then watches until end(). Must be called before
  /// each collective; if it succeeds, end() must be called after the collective. Fails if the
  /// transport is stopped.
  Result<void> begin(const Operation& operation);
  void end();

  /// Says when the transport sends the exit message and then closes the connections: `now` (by a
  /// thread of its own) or `at_destruction` (by the destructor).
  enum class Closing { now, at_destruction };
  /// Stops the transport and wakes every waiter. Does nothing if the transport is already stopped.
  /// `closing` says when `exit_message` is sent to the peers. stop() does not wait for that.
  /// Thread-safe.
  void stop(Failure reason, Failure exit_message, Closing closing);

  /// Returns why the transport was stopped, or nothing if it was not stopped. Thread-safe.
  std::optional<Failure> stopped() const;

  /// Stops the transport because Gloo has failed with `message`. Blocks for up to about 0.1 s to
  /// find out which peer caused it. `what` names the operation that has failed; if it is empty, the
  /// running collective.
  void stop_for_lost_peer(const std::string& what, const std::string& message);

  /// Sets a function to call once, with the lock held, when the transport is stopped; or none.
  void on_stop(std::function<void()> callback);

  /// Returns the connections without the wrapper, for buffers that their users can stop by
  /// themselves.
  ::gloo::transport::Context& inner() { return *inner_; }

  /// Returns the peer with its host and process id, if these are known.
  MissingRank missing_peer(Rank rank, MissingRank::Cause cause, std::string how) const;

 private:
  friend class StoppableBuffer;

  using Ended = std::vector<ExitMessages::Ended>;

  void set_opening(bool opening);
  Clock::time_point on_time(Clock::time_point now) noexcept override;
  void guard_collective(std::unique_lock<std::mutex>& lock);
  std::string what_locked() const;
  std::vector<Rank> awaited_locked() const;
  void stop_locked(Failure reason, Failure exit_message, Closing closing);
  void stop_late_locked();
  void stop_lost_locked(const Ended& ended, const std::string& what, const std::string& message);
  void stop_after_exit_locked(const ExitMessages::Ended& peer, const std::string& what);
  void leave();

  const std::shared_ptr<::gloo::transport::Context> inner_;
  ExitMessages exit_messages_;
  std::vector<ProcessAddress> processes_;
  bool watched_ = false;  // watch() was called

  mutable std::mutex mutex_;              // guards all members below
  std::set<StoppableBuffer*> buffers_;    // those that exist
  std::atomic<bool> is_stopped_ = false;  // true if reason_ is set; may be read without the lock
  std::optional<Failure> reason_;         // the first reason for which the transport was stopped
  Failure exit_message_;                  // the message that the peers get when this rank leaves
  std::function<void()> on_stop_;         // see on_stop()
  std::thread leaver_;                    // runs leave()

  // The running collective, if any.
  bool running_ = false;
  bool opening_ = false;     // it is await_peers()
  std::uint64_t begun_ = 0;  // number of begin() calls; lets the guard notice a new collective
  std::atomic<std::uint64_t> waits_ = 0;  // number of waits that have begun
  std::uint64_t checked_waits_ = 0;       // value of waits_ when the guard last checked the peers
  int checks_ = 0;                        // checks since then that have found no new wait
  std::uint64_t seen_ = 0;                // value of begun_ when the guard was last called or woken
  Collective collective_ = Collective::barrier;               // of the running operation
  std::uint64_t sequence_ = 0;                                // of the running operation
  Duration timeout_{0};                                       // of the running operation
  Clock::time_point deadline_;                                // of the running collective
  Clock::time_point guard_wakes_ = Clock::time_point::max();  // when on_time() is called next
};

}  // namespace c10dd::collectives
