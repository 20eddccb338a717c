// SPDX-License-Identifier: Apache-2.0
// Serves connections of unmodified PyTorch clients, which speak the TCPStore protocol of
// protocol/tcpstore_wire.h. A connection begins on the loop that accepts connections: a
// TcpStoreReception passes it on if another daemon of the fleet serves the runs of the listener
// (relay.h), else replies to what needs no store. The first store request decides the run that it
// sees. Then it moves to the loop of the run's shard, where a session passes the requests on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/config/listener_settings.h"
#include "daemon/net/protocols.h"
#include "daemon/net/session_context.h"
#include "daemon/net/silent_sockets.h"
#include "daemon/net/stream.h"
#include "daemon/net/tcpstore_runs.h"
#include "protocol/tcpstore_dialogue.h"

namespace c10dd::daemon {

/// What the TCPStore connections of one listener share. Each connection keeps it alive.
struct TcpStoreListener : std::enable_shared_from_this<TcpStoreListener> {
  /// `count` returns what each connection keeps until it ends; null: nothing.
  TcpStoreListener(const SessionContext& its_context, ListenerSettings its_settings,
                   std::shared_ptr<TcpStoreRuns> its_runs,
                   std::function<std::shared_ptr<const void>()> count = {});

  /// Counts a connection that it serves from now on.
  void begin(Stream& stream);

  const SessionContext& context;
  const ListenerSettings settings;
  const std::shared_ptr<TcpStoreRuns> runs;
  const std::function<std::shared_ptr<const void>()> count;
  SilentSockets silent;
};

/// A connection that is bound to a run.
struct TcpStoreConnection {
  std::shared_ptr<TcpStoreListener> listener;
  TcpStoreRuns::Client client;
  boost::asio::ip::address address;
  std::string run;
  tcpstore::TcpStoreDialogue dialogue;
  Bytes in;  ///< received, not taken yet
};

/// Returns the TCPStore protocol's entry in the list of protocols of a listener.
WireProtocol tcpstore_protocol(const std::shared_ptr<TcpStoreListener>& listener);

/// Serves a connection that another daemon passes on, because this one owns the listener's job.
void receive_passed_on(std::shared_ptr<Stream> stream,
                       const std::shared_ptr<TcpStoreListener>& listener);

/// Serves a connection on the loop of `shard`, which must be the stream's loop.
void serve_tcpstore(std::shared_ptr<Stream> stream, TcpStoreConnection connection, Shard& shard);

/// Notes that a bound connection has ended. May be called on any loop.
void end_tcpstore(const TcpStoreConnection& connection);

}  // namespace c10dd::daemon
