// SPDX-License-Identifier: Apache-2.0
// Does the I/O of one client::ProxiedClient: the connection of the local client, and that to the
// daemon, which is made again when it is lost. Used by the thread of the proxy only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/core/proxied_client.h"
#include "client/internal/fork_closed.h"
#include "client/internal/resolver.h"
#include "client/internal/socket.h"
#include "client/internal/tls.h"

namespace c10dd::proxy {

/// Returns whether the failure means that this process or the system has no more descriptors.
inline bool is_shortage(const boost::system::error_code& failed) {
  return failed == boost::system::errc::too_many_files_open ||
         failed == boost::system::errc::too_many_files_open_in_system;
}

/// What the connections of a proxy share.
struct ProxyLoop {
  boost::asio::io_context& loop;
  boost::asio::thread_pool& look_ups;  ///< where names are resolved
  Bytes buffer;                        ///< for all reads
  std::shared_ptr<client::Tls> tls;    ///< null: the connections are not encrypted
  /// Called when a connection has ended. The last argument is why the proxy has closed it, or null.
  std::function<void(const class ProxiedConnection&, const Failure*)> ended;
  /// Called when a session was opened or lost.
  std::function<void()> changed;
  /// Called when the local client has sent its first message.
  std::function<void(const class ProxiedConnection&)> heard;
  /// Called when a connection to the daemon could not be opened for lack of descriptors.
  std::function<void(const boost::system::error_code&)> no_descriptors;
};

class ProxiedConnection : public std::enable_shared_from_this<ProxiedConnection> {
 public:
  /// `number`: of the client, for the owner.
  ProxiedConnection(ProxyLoop& shared, std::uint64_t number, boost::asio::ip::tcp::socket local,
                    client::CoreOptions options, tcpstore::LegacyClients legacy);

  std::uint64_t number() const { return number_; }
  void start();
  /// Closes the local connection and says goodbye to the daemon.
  void leave();
  /// Ends at once.
  void drop();

  /// Returns whether the session is open, or not needed yet.
  bool is_served() const { return !client_.core() || client_.core()->open(); }
  const client::ProxiedClient& client() const { return client_; }
  /// Returns a text about the absence of the daemon.
  std::string absence() const;

 private:
  using Tcp = boost::asio::ip::tcp;
  using Socket = Tcp::socket;
  using ErrorCode = boost::system::error_code;

  void turn();
  void read_local();
  void take_messages(TimePoint now);
  void write_local();
  void close_local(const Failure* why);
  void settle_later();

  void read_remote();
  void show_credential();
  void write_remote();
  void dial();
  void try_next_address();
  void dialled(const ErrorCode& failed);
  void limit_dial(Duration patience);
  void shake_hands();
  void opened();
  void failed_to_dial(const Failure& why);
  void close_remote();
  void lost(const ErrorCode& failed);
  void set_timer();
  void finish();

  ProxyLoop& shared_;
  const std::uint64_t number_;
  client::ProxiedClient client_;
  Socket local_;
  Socket remote_;
  client::ForkClosed local_in_child_;
  client::ForkClosed remote_in_child_;
  boost::asio::steady_timer timer_;     // deadlines of the session
  boost::asio::steady_timer patience_;  // of an attempt to connect
  Bytes in_;                            // from the local client, not taken
  Bytes out_;                           // for the local client, not written
  std::size_t out_at_ = 0;
  std::vector<client::SocketAddress> targets_;  // of the present attempt
  std::size_t next_target_ = 0;
  client::DialFailures failures_;
  std::uint64_t attempt_ = 0;  // counts the attempts to connect; an older one has no effect
  client::Tls::Begun begun_;   // of the attempt
  std::unique_ptr<client::TlsChannel> channel_;  // of remote_; null: it is not encrypted
  bool dialling_ = false;
  bool local_reads_ = false;  // waits for bytes
  bool local_writes_ = false;
  bool remote_reads_ = false;
  bool remote_writes_ = false;
  bool local_open_ = true;
  bool heard_ = false;
  bool in_turn_ = false;
  bool again_ = false;
  bool over_ = false;
  bool was_served_ = true;
};

}  // namespace c10dd::proxy
