// SPDX-License-Identifier: Apache-2.0
// Clients of TCPStore can connect to any daemon of a fleet, although one daemon owns the job of the
// listener, and cannot be told to go there. So the daemon that has accepted such a connection, the
// relay, connects to the owner, says for whom in a frame (protocol/relay_frame.h), and copies bytes
// in both directions (splice.h). The owner serves the connection as one of its own listener's, with
// the client's address. It never passes one on again.
// All functions are called on the loop that accepts connections, so that the end of one launch is
// passed on before the connections of the next.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core/directory/directory_host.h"
#include "daemon/net/admission.h"
#include "daemon/net/tcpstore_session.h"
#include "protocol/relay_frame.h"

namespace c10dd::daemon {

class Relay {
 public:
  /// The parts of the daemon that it uses. They outlive it.
  struct Daemon {
    asio::io_context& loop;
    const SessionContext& context;
    Admission& admission;
    const core::DirectoryHost& directory;  ///< of a fleet
    /// Makes the listener of connections that other daemons pass on.
    std::function<std::shared_ptr<TcpStoreListener>(const ListenerSettings& settings)> listener;
    /// How long an owner may take to accept a connection and to reply to the frame.
    std::chrono::milliseconds patience = std::chrono::seconds(1);
  };

  explicit Relay(Daemon of) : of_(std::move(of)) {}

  /// Connects to the owner of the job of a listener, for a client of that listener; tries the
  /// addresses in order. Calls `then` with a connection that carries the bytes of the client.
  /// Fails with quota_exceeded if this daemon or the owner has no room for it, and otherwise with
  /// unavailable if the owner has not taken it; the reason is in the log.
  void connect(const std::string& client, const ListenerSettings& settings,
               const std::vector<std::string>& addresses,
               std::function<void(Result<std::shared_ptr<Stream>>)> then);

  /// Returns whether the first bytes of a connection are the whole frame of a relay.
  static bool is_asked_for(std::string_view head);

  /// Takes a connection whose head begins with a frame of a relay. Refuses it if the frame is
  /// wrong, does not have the key of this daemon, or this daemon does not own the job.
  void take(const std::shared_ptr<Stream>& stream);

 private:
  asio::awaitable<void> connect_to_any(std::vector<std::string> addresses, native::RelayFrame frame,
                                       std::function<void(Result<std::shared_ptr<Stream>>)> then);
  asio::awaitable<Result<std::shared_ptr<Stream>>> connect_to(const std::string& address, bool tls,
                                                              const native::RelayFrame& frame);
  Result<std::shared_ptr<TcpStoreListener>> admit(Stream& stream, const native::RelayFrame& frame);
  std::shared_ptr<TcpStoreListener> listener_of(const native::RelayFrame& frame);
  void refuse(const std::shared_ptr<Stream>& stream, const Failure& reason);

  const Daemon of_;
  /// By job, run and the setting for old clients.
  using Settings = std::tuple<std::string, std::string, tcpstore::LegacyClients>;
  std::map<Settings, std::weak_ptr<TcpStoreListener>> listeners_;
};

}  // namespace c10dd::daemon
