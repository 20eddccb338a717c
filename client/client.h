// SPDX-License-Identifier: Apache-2.0
// The connection of a trainer to its job. One session on one multiplexed connection that
// reconnects by itself and re-issues what was pending: nothing that the trainer called fails
// because the daemon restarted. Thread-safe. Standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10dd/errors.h>
#include <c10dd/exchange.h>
#include <c10dd/job_store.h>
#include <c10dd/membership.h>
#include <c10dd/store.h>

namespace c10dd {

class Client;
namespace client {
class Connection;
std::shared_ptr<Connection> connection_of(const Client& client);
}  // namespace client

/// What has become of a client's connection.
struct ConnectionChange {
  bool connected = false;
  std::string daemon;                ///< host:port
  std::string reason;                ///< why there is none, for people; empty when connected
  std::chrono::nanoseconds away{0};  ///< how long there was none
};

struct ClientOptions {
  std::string run = {};    ///< incarnation of the job; empty: its permanent name space
  std::int64_t rank = -1;  ///< reported to the daemon, so that it can name who is missing
  std::int64_t world_size = -1;
  std::string host = {};  ///< reported; empty: the machine's host name
  /// How long connect() tries to reach the daemon, and calls without a time-out of their own may
  /// be held up by its absence.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  /// How long the daemon keeps the session when there is no connection: its ephemeral keys, and
  /// what makes changes happen exactly once. 0: the daemon's default; else 1 s to 24 h, and less or
  /// more is taken as these.
  std::chrono::nanoseconds session_expiry{0};
  /// Called when there is a connection, when it is lost, and while there is none after 2 s and
  /// again every 30 s; on a thread of the client, so it must not block, throw or call the client.
  /// The last two, and the end of such an absence, also write one line to stderr, unless the
  /// environment has C10DD_LOG=off.
  std::function<void(const ConnectionChange&)> on_connection = {};
};

/// What the connection has gone through.
struct ClientStats {
  std::uint64_t connects = 0;        ///< successful, the first one included
  std::uint64_t reissued = 0;        ///< calls sent again after a reconnect
  std::uint64_t calls = 0;           ///< calls started
  std::uint64_t failures = 0;        ///< calls that ended in an error
  std::chrono::nanoseconds away{0};  ///< total time without a session since the first one
  std::uint64_t sessions_lost = 0;   ///< ended by the daemon: away for longer than session_expiry
};

struct BarrierOptions {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;  ///< 0: rank and world size are the client's
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

/// One finished (or failed) collective, for the daemon's metrics.
struct CollectiveSample {
  std::string_view process_group;  ///< kind: dp, tp, pp, ...
  std::string_view collective;     ///< all_reduce, ...
  std::string_view backend;
  std::chrono::nanoseconds duration{0};
  std::uint64_t payload_bytes = 0;
  std::uint64_t bus_bytes = 0;
  bool succeeded = true;
};

/// Totals of one kind of collective in this process.
struct CollectiveCount {
  std::string process_group;
  std::string collective;
  std::string backend;
  std::uint64_t count = 0;
  std::uint64_t failures = 0;
  std::uint64_t payload_bytes = 0;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  /// url: c10dd://host:port/job. Throws InvalidArgument for a bad URL, TimedOut when no daemon
  /// answers in time, Error with the daemon's reason when it refuses.
  static std::shared_ptr<Client> connect(const std::string& url, ClientOptions options = {});

  /// From C10DD_URL (or C10DD_ADDR and C10DD_JOB), C10DD_RUN, and rank and world size of the
  /// launcher: C10DD_RANK and C10DD_WORLD_SIZE, RANK and WORLD_SIZE, or those of Slurm, MPI or
  /// Kubernetes (client/internal/launch_environment.h). Throws InvalidArgument naming the variable
  /// that is wrong.
  static std::shared_ptr<Client> from_environment();

  /// Sends the last report and goodbye within a short time, then closes.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::shared_ptr<JobStore> store();

  /// Joins a group: blocks until a generation has formed that has this process. Throws TimedOut
  /// saying who is here and who is missing, InvalidArgument, or Error when the members disagree on
  /// the group's options. The membership keeps the connection.
  std::shared_ptr<Membership> rendezvous(const RendezvousOptions& options);

  /// Returns when all ranks of the group have called it as often as this one, or throws with the
  /// same reason for all of them: the first time-out ends it for everybody. Counts the calls per
  /// (name, generation).
  void barrier(const std::string& name, const BarrierOptions& options = {});

  /// A barrier that carries data: what to bring and what comes back is decided by the shape.
  ///   all        bring 1 part, get all world_size parts by rank
  ///   to_root    bring 1 part; the root gets all, the others nothing
  ///   from_root  the root brings world_size parts or 1, the others none; each gets 1
  ///   transpose  bring world_size parts, get the part that each rank meant for this one
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    const ExchangeOptions& options = {});

  /// Counts a collective; costs a short lock. Reported to the daemon once a second and at the end.
  void record(const CollectiveSample& sample);
  std::vector<CollectiveCount> recorded() const;

  /// Sends what was recorded now; returns when the daemon has it.
  void flush_report();

  const std::string& job() const;
  /// The incarnation of the job; empty: its permanent name space.
  const std::string& run() const;
  /// What the launcher, or ClientOptions, have said of this process. Throw InvalidArgument when
  /// they have not.
  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  /// Of this process, as the daemon was told.
  const std::string& host() const;
  /// host:port of the daemon.
  const std::string& address() const;
  ClientStats stats() const;

 private:
  class Impl;
  friend std::shared_ptr<client::Connection> client::connection_of(const Client& client);
  explicit Client(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace c10dd
