// SPDX-License-Identifier: Apache-2.0
// Limits the number of connections: in total, so that file descriptors remain for the files of the
// state, and per address, so that one machine cannot use up all connections. Clients of TCPStore
// leave an eighth to native clients and HTTP: without these nobody could see what is wrong.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/config/options.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Counts one connection for as long as the ticket lives.
/// May be destroyed on any thread.
class Ticket {
 public:
  using Count = std::atomic<std::size_t>;

  Ticket() = default;
  /// Counts the connection in `a` and, if `b` is not null, also in `b`.
  explicit Ticket(std::shared_ptr<Count> a, std::shared_ptr<Count> b = nullptr)
      : counts_{std::move(a), std::move(b), nullptr} {
    for (const auto& count : counts_) {
      if (count) ++*count;
    }
  }
  Ticket(Ticket&& other) noexcept
      : counts_(std::exchange(other.counts_, {})), kept_(std::move(other.kept_)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(counts_, other.counts_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  /// Counts the connection in `c`, too.
  void also_count(std::shared_ptr<Count> c) {
    if (counts_[2]) --*counts_[2];
    counts_[2] = std::move(c);
    if (counts_[2]) ++*counts_[2];
  }
  /// Keeps `what` until the connection has ended.
  void keep(std::shared_ptr<const void> what) { kept_ = std::move(what); }
  ~Ticket() {
    for (const auto& count : counts_) {
      if (count) --*count;
    }
  }

 private:
  std::array<std::shared_ptr<Count>, 3> counts_;
  std::shared_ptr<const void> kept_;
};

/// Decides which connections are admitted.
/// All listeners share one Admission. All functions are called on the loop that accepts
/// connections.
class Admission {
 public:
  /// Raises the process's soft limit of open files to its hard limit.
  explicit Admission(const Options& options);

  /// Fails with quota_exceeded if the connection must be refused. The text names the number of
  /// connections and the limit.
  Result<void> may_enter(const boost::asio::ip::address& from) const;

  /// Counts a connection that may_enter() has admitted.
  Ticket enter(const boost::asio::ip::address& from);

  /// Counts a socket that the daemon itself has opened, which needs a descriptor as a connection
  /// does: an endpoint's listener, or a connection to another daemon. Fails with quota_exceeded if
  /// there are too many of all.
  Result<Ticket> enter_own();

  /// Fails with quota_exceeded if there are too many connections of TCPStore, of which some are to
  /// other daemons.
  Result<void> may_enter_tcpstore() const;
  /// Ticket::also_count() of the connections of TCPStore.
  const std::shared_ptr<Ticket::Count>& of_tcpstore() const { return tcpstore_; }
  /// Counts a connection to another daemon for a client of TCPStore, whose own connection is
  /// counted already. Fails as may_enter_tcpstore() and enter_own() do.
  Result<Ticket> enter_link();

  /// Counts a connection that is kept only until its refusal is sent. Returns nothing if there are
  /// too many such connections.
  std::optional<Ticket> enter_for_probes();

 private:
  void forget_idle_addresses();

  std::size_t limit_;
  std::size_t per_address_;
  std::shared_ptr<Ticket::Count> all_ = std::make_shared<Ticket::Count>(0);
  std::shared_ptr<Ticket::Count> tcpstore_ = std::make_shared<Ticket::Count>(0);
  std::shared_ptr<Ticket::Count> refused_ = std::make_shared<Ticket::Count>(0);
  std::map<boost::asio::ip::address, std::shared_ptr<Ticket::Count>> by_address_;
};

}  // namespace c10dd::daemon
