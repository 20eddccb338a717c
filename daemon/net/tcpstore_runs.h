// SPDX-License-Identifier: Apache-2.0
// Decides which run of its job a TCPStore connection sees: clients of TCPStore cannot name one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/fleet/run_claim.h"
#include "protocol/tcpstore_wire.h"

namespace c10dd::daemon {

/// The runs of one listener. All functions but bind() are thread-safe.
class TcpStoreRuns {
 public:
  /// The client of a connection.
  struct Client {
    std::uint64_t connection = 0;  ///< no other connection of this process has this number
    std::string address;
    std::uint64_t pid = 0;  ///< 0: unknown
    int socket = -1;        ///< its descriptor, while it is bound; -1: none
  };

  virtual ~TcpStoreRuns() = default;

  using Owner = core::RunClaim::Owner;

  /// Finds the daemon that serves the runs of the listener: this one, or another of the fleet, to
  /// which the connection is passed on. Calls `then` as RunClaim::ask() does. Called on the loop
  /// that accepts connections.
  virtual void locate(std::function<void(Result<Owner>)> then) = 0;

  /// Binds a connection, which sends its first store request, to a run. Calls `then` with the run's
  /// name, or with the reason why the connection must be closed. Calls it on the loop that accepts
  /// connections, possibly before bind() returns. Called on that loop.
  virtual void bind(const Client& client, const tcpstore::MessageHead& first,
                    std::function<void(Result<std::string>)> then) = 0;

  /// Notes that a bound connection has opened its session. `close` ends the connection and may be
  /// called on any thread, also when the connection has already ended.
  virtual void opened(std::uint64_t connection, std::function<void(Failure)> close) = 0;

  /// Returns true if a message may be taken only after ask().
  virtual bool concerns(const tcpstore::MessageHead& message) const = 0;
  /// Asks whether a bound connection may send a message. `others_wait` says whether requests of its
  /// run are blocked. Calls `then` with the reply, on any thread.
  virtual void ask(std::uint64_t connection, const tcpstore::MessageHead& message, bool others_wait,
                   std::function<void(Result<void>)> then) = 0;

  /// Notes that a connection that was passed to bind() has ended.
  virtual void ended(std::uint64_t connection) = 0;
};

/// Lets all connections see the same run.
class FixedRun final : public TcpStoreRuns {
 public:
  /// `claim` is that of the run; null if the daemon is in no fleet.
  explicit FixedRun(std::string run, std::shared_ptr<core::RunClaim> claim = nullptr)
      : run_(std::move(run)), claim_(std::move(claim)) {}

  void locate(std::function<void(Result<Owner>)> then) override {
    claim_ ? claim_->ask(std::move(then)) : then(Owner{});
  }
  void bind(const Client&, const tcpstore::MessageHead&,
            std::function<void(Result<std::string>)> then) override {
    then(run_);
  }
  void opened(std::uint64_t, std::function<void(Failure)>) override {}
  bool concerns(const tcpstore::MessageHead&) const override { return false; }
  void ask(std::uint64_t, const tcpstore::MessageHead&, bool,
           std::function<void(Result<void>)> then) override {
    then({});
  }
  void ended(std::uint64_t) override {}

 private:
  const std::string run_;
  const std::shared_ptr<core::RunClaim> claim_;
};

}  // namespace c10dd::daemon
