// SPDX-License-Identifier: Apache-2.0
// The listeners of leased endpoints: opens and closes them as core::DirectoryHost says, chooses the
// port of a new one, and tries again each second where a port is taken after a restart. Reports to
// the directory whether an endpoint has connections. All functions are called on the loop that
// accepts connections.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/core/directory/directory_host.h"
#include "daemon/net/admission.h"
#include "daemon/net/listener.h"
#include "daemon/net/session_context.h"

namespace c10dd::daemon {

class EndpointListeners final : public core::EndpointPorts {
 public:
  /// The parts of the daemon that it uses. They outlive it.
  struct Daemon {
    boost::asio::io_context& loop;
    const Options& options;
    Admission& admission;
    const SessionContext& context;
    core::DirectoryHost& directory;
    /// Returns the protocols of a listener, whose TCPStore connections keep what `count` returns.
    std::function<Protocols(const ListenerSettings& settings,
                            std::function<std::shared_ptr<const void>()> count)>
        protocols;
  };

  /// `host` is the address to listen on, `retry` how long after a failure it tries again.
  EndpointListeners(Daemon of, std::string host,
                    std::chrono::milliseconds retry = std::chrono::seconds(1));
  ~EndpointListeners() override;

  Result<std::uint16_t> open(const core::Endpoint& endpoint,
                             const core::Endpoints& leased) override;
  void close(const core::Endpoint& endpoint, std::string_view how) override;
  void restore(const std::vector<core::Endpoint>& leased) override;
  bool in_use(const core::Endpoint& endpoint) const override;
  const std::string& host() const override { return host_; }

  /// Stops to listen, because the daemon ends.
  void drain();

  /// Returns the number of open connections of an endpoint.
  std::size_t connections(const core::Endpoint& endpoint) const;
  /// Returns why an endpoint cannot be reached; empty if it can.
  std::string problem(const core::Endpoint& endpoint) const;
  /// Returns one sentence about the endpoints that cannot be reached; empty if there are none.
  std::string note() const;

 private:
  class Use;
  struct Entry {
    core::Endpoint endpoint;
    Ticket ticket;                       ///< counts the listener
    std::unique_ptr<Listener> listener;  ///< null: it could not be opened
    std::shared_ptr<Use> use;
    std::string problem;        ///< why it could not be opened
    bool at_neighbour = false;  ///< its port is taken by another daemon of the fleet
  };

  ErrorCode listen(Entry& entry, std::uint16_t port);
  Result<std::uint16_t> choose(Entry& entry, const core::Endpoints& leased);
  void leave_to_neighbour(Entry& entry);
  void try_again(Entry& entry);
  void try_all_again();
  void retry_later();
  void add(Entry entry);
  const Entry* find(const core::Endpoint& endpoint) const;

  const Daemon of_;
  const std::string host_;
  const std::chrono::milliseconds again_;  ///< after a failure
  std::map<core::Endpoints::Name, Entry> entries_;
  boost::asio::steady_timer retry_;
  bool retries_ = false;  ///< retry_ is set
  bool drained_ = false;
};

}  // namespace c10dd::daemon
