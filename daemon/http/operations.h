// SPDX-License-Identifier: Apache-2.0
// The interface through which HTTP routes query and control the daemon.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/host/job_slot.h"
#include "daemon/http/endpoint_page.h"
#include "daemon/http/fleet_page.h"
#include "daemon/http/http_wire.h"
#include "daemon/http/server_facts.h"
#include "protocol/error.h"

namespace c10dd::daemon {

/// Another daemon of the fleet.
struct Peer {
  std::vector<std::string> addresses;
  std::string secret;  ///< see kHttpSecret
  bool tls = false;    ///< its addresses speak TLS
};

/// Which daemons serve the runs of a job.
struct JobPlaces {
  bool here = true;  ///< this daemon serves some of them, or no other daemon does
  std::vector<Peer> elsewhere;
};

/// The functions are called on the loop that accepts connections; coroutines resume on that loop.
class Operations {
 public:
  virtual ~Operations() = default;

  virtual ServerFacts facts() const = 0;

  /// Returns the text of /metrics with current values. `metrics_only`: for the address of
  /// --listen-metrics.
  virtual boost::asio::awaitable<std::string> metrics_text(bool metrics_only) = 0;

  /// Returns the reports of all loaded jobs.
  virtual boost::asio::awaitable<std::vector<core::JobReport>> job_reports() = 0;

  /// Returns the reports of all jobs that are being loaded, by number.
  virtual boost::asio::awaitable<std::vector<core::LoadReport>> job_loads() = 0;

  /// Returns the reports of all loaded runs of a job, by number.
  virtual boost::asio::awaitable<std::vector<core::RunReport>> runs_of(const std::string& job) = 0;

  /// Closes all connections of a launch, see LaunchRuns::end().
  virtual Result<void> end_run(const std::string& job, const std::string& run) = 0;

  /// Returns the address, as HOST:PORT, at which PyTorch trainers find the store of this job: the
  /// daemon's own or that of an endpoint. Empty if the job has neither.
  virtual std::string address_for_trainers(const std::string& job) const = 0;

  // ---- several daemons

  /// Returns the daemons that share the engine; this one alone if it shares it with no other.
  virtual boost::asio::awaitable<DaemonsPage> daemons() = 0;

  /// Returns the owners of all runs: JobsPage without `served`.
  virtual boost::asio::awaitable<JobsPage> owners() = 0;

  /// Returns whether the fleet has a run of the job, served or not. False without a fleet.
  virtual bool is_stored(const std::string& job) const = 0;

  /// Returns which daemons serve the runs of a job. Serves those that a hello to this daemon would
  /// make it serve, but makes no job. Fails with unavailable if that is not known yet.
  virtual boost::asio::awaitable<Result<JobPlaces>> places_of(const std::string& job) = 0;

  /// Passes a request on to another daemon, and returns its reply, or a reply that says why there
  /// is none. `trusted`: the client was asked who it is, is on this machine, or need not say who it
  /// is (--allow-insecure-listen beside --tls).
  virtual boost::asio::awaitable<HttpReply> forward(const HttpRequest& request, const Peer& to,
                                                    bool trusted) = 0;

  /// Returns whether this is the secret of this daemon, which only its fleet knows.
  virtual bool is_fleet_secret(std::string_view secret) const = 0;

  /// Moves the runs of a job that this daemon serves to the daemon with this address. Fails as
  /// core::target_of_move() does, with not_found if the daemon serves no run of the job, and with
  /// unsupported if it shares its engine with no other.
  virtual boost::asio::awaitable<Result<MoveReport>> move_job(const std::string& job,
                                                              const std::string& to) = 0;

  /// Writes a copy of the state to the new directory `path`.
  virtual boost::asio::awaitable<Result<void>> checkpoint(const std::string& path) = 0;

  /// Removes a job, see core::DirectoryHost::remove().
  virtual boost::asio::awaitable<Result<void>> remove_job(const std::string& job) = 0;

  /// Returns the endpoints of a job, by name. Fails with unavailable if the engine is not open.
  virtual Result<std::vector<EndpointReport>> endpoints_of(const std::string& job) = 0;

  /// Leases or renews an endpoint, see core::DirectoryHost::lease_endpoint().
  virtual boost::asio::awaitable<Result<EndpointReport>> lease_endpoint(
      const std::string& job, const LeaseEndpoint& request) = 0;

  /// Releases an endpoint, see core::DirectoryHost::release_endpoint().
  virtual boost::asio::awaitable<Result<void>> release_endpoint(const std::string& job,
                                                                const std::string& name) = 0;
};

}  // namespace c10dd::daemon
