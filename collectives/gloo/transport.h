// SPDX-License-Identifier: Apache-2.0
// A Gloo transport context that can be stopped. Gloo's collectives ignore aborted waits, close
// connections when a wait times out, and miss a peer that dies while its data is half way; so all
// waits go through Transport, which owns the deadline, wakes every waiter with one reason, watches
// the peers, and makes the woken wait throw. A stopped transport is never used again.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/backend.h"
#include "collectives/gloo/exit_messages.h"

namespace c10dd::collectives {

/// Leaves a Gloo collective from a wait that was stopped. The reason is in Transport::stopped().
struct Stopped : std::exception {
  const char* what() const noexcept override { return "collective stopped"; }
};

class StoppableBuffer;

class Transport final : public ::gloo::transport::Context {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Transport(std::shared_ptr<::gloo::transport::Context> inner);
  ~Transport() override;  ///< closes all connections; no collective may be running

  std::unique_ptr<::gloo::transport::Pair>& getPair(int rank) override;
  std::unique_ptr<::gloo::transport::Pair>& createPair(int rank) override;
  std::unique_ptr<::gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                        std::size_t bytes) override;

  /// After all pairs are connected: begins to watch the peers. `processes` is where they run.
  void watch(std::vector<ProcessAddress> processes);

  /// Around each collective, from one thread. `what` names it in messages.
  Result<void> begin(const CallContext& context, std::string what);
  void end();

  /// Wakes every waiter with the reason; the first one counts. From any thread. Peers are told
  /// `words` and lose their connections at once or when this object goes.
  enum class Closing { now, at_destruction };
  void stop(Failure reason, Failure words, Closing closing);

  std::optional<Failure> stopped() const;

  /// Stops because Gloo reported `message`; finds out which peer is to blame.
  void stop_for_lost_peer(const std::string& message);

 private:
  friend class StoppableBuffer;

  using Ended = std::vector<ExitMessages::Ended>;

  void attend();  // the guard thread
  void guard_collective(std::unique_lock<std::mutex>& lock);
  std::vector<Rank> awaited_locked() const;
  MissingRank lost_peer(Rank rank, std::string how) const;
  void stop_locked(Failure reason, Failure words, Closing closing);
  void stop_late_locked();
  void stop_lost_locked(const Ended& ended, const std::string& message);
  void stop_told_locked(const ExitMessages::Ended& peer);
  void leave();

  const std::shared_ptr<::gloo::transport::Context> inner_;
  ExitMessages exit_messages_;
  std::vector<ProcessAddress> processes_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<StoppableBuffer*> buffers_;
  std::atomic<bool> is_stopped_ = false;
  std::optional<Failure> reason_;
  Failure words_;  // for the peers, when this rank leaves
  bool leave_now_ = false;
  bool has_left_ = false;
  bool ending_ = false;

  // The running collective, if any.
  bool running_ = false;
  std::uint64_t begun_ = 0;  // counts begin(): lets the guard see that one lasts
  std::string what_;
  CallContext ticket_;
  Clock::time_point guard_wakes_ = Clock::time_point::max();

  std::thread guard_;
};

}  // namespace c10dd::collectives
