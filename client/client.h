// SPDX-License-Identifier: Apache-2.0
// Client connects a training process to its job. All calls of a client share one session and one
// connection. The client reconnects by itself and sends pending calls again, so a restart of the
// daemon does not make a call fail. Includes the standard library only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10dd/credentials.h>
#include <c10dd/errors.h>
#include <c10dd/exchange.h>
#include <c10dd/job_store.h>
#include <c10dd/membership.h>
#include <c10dd/store.h>

namespace c10dd {

class Client;
namespace client {
class ActivityReporter;
class Connection;
std::shared_ptr<ActivityReporter> activity_of(const Client& client);
std::shared_ptr<Connection> connection_of(const Client& client);
}  // namespace client

/// A change of a client's connection, as passed to ClientOptions::on_connection.
struct ConnectionChange {
  bool connected = false;
  std::string daemon;  ///< address of the daemon, host:port; when not connected, the next one tried
  std::string reason;  ///< human-readable reason why there is no connection; empty when connected
  std::chrono::nanoseconds away{0};  ///< time without a connection, up to this change
};

struct ClientOptions {
  /// Name of this run of the job. Each run has its own keys, queues, barriers and groups, which the
  /// daemon erases some time after the run has ended. If the name is empty, the client uses the
  /// permanent keys, queues, barriers and groups of the job.
  std::string run = {};
  std::int64_t rank = -1;        ///< rank of this process, reported to the daemon; -1 if not known
  std::int64_t world_size = -1;  ///< number of processes of the job; -1 if not known
  std::string host = {};         ///< host name to report; if empty, the machine's host name
  /// Where rank and world size come from, for error texts. Client::from_environment() sets it.
  std::string launcher = {};
  /// Limits how long connect() tries to reach the daemon, and how long a call without a time-out of
  /// its own waits for an unreachable daemon. At most 30 days.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  /// How long the daemon keeps the session and its ephemeral keys while the client has no
  /// connection. If the client reconnects within this time, the daemon makes each requested change
  /// exactly once. 0 means the daemon's default. A negative value is refused. Any other value below
  /// 1 s counts as 1 s, and a value above 24 h counts as 24 h.
  std::chrono::nanoseconds session_expiry{0};
  /// The client calls this function when it connects and when it loses the connection. If the
  /// client is still disconnected after 2 s, it calls the function again and writes a line to
  /// stderr. The call and the line are repeated every 30 s. A last line follows when the client has
  /// reconnected. The environment variable C10DD_LOG=off turns the lines off. The function runs on
  /// a thread of the client, so it must not block, throw or call the client.
  std::function<void(const ConnectionChange&)> on_connection = {};
  /// How the client shows who it is. If none is given, those of the environment: C10DD_TOKEN,
  /// C10DD_TOKEN_FILE, C10DD_CA_FILE, C10DD_CERT_FILE and C10DD_KEY_FILE. With any of them the
  /// client speaks TLS.
  Credentials credentials = {};
};

/// Totals of a client since it was created.
struct ClientStats {
  std::uint64_t connects = 0;        ///< successful connects, including the first one
  std::uint64_t reissued = 0;        ///< calls sent again after a reconnect
  std::uint64_t calls = 0;           ///< calls started
  std::uint64_t failures = 0;        ///< calls that ended with an error
  std::chrono::nanoseconds away{0};  ///< time without a session, counted from the first connect
  std::uint64_t sessions_lost = 0;   ///< sessions that expired or were replaced (SessionReplaced)
};

/// Options of Client::lease_endpoint().
struct EndpointOptions {
  /// The run that all clients of the endpoint use. Its state is durable, and a client of the SDK
  /// with the same ClientOptions::run shares it. If the name is empty, the daemon gives each launch
  /// of PyTorch a run of its own, which lives in memory.
  std::string run = {};
  /// How long the daemon keeps the endpoint while it has no connection: 1 s to 30 days; 0 means 10
  /// minutes.
  std::chrono::nanoseconds ttl{0};
  std::uint32_t world_size = 0;  ///< number of ranks, for the daemon's status pages; 0: not known
};

/// An address for unmodified PyTorch trainers, as MASTER_ADDR and MASTER_PORT.
struct LeasedEndpoint {
  std::string host;
  std::uint16_t port = 0;
  std::chrono::nanoseconds ttl{0};  ///< EndpointOptions::ttl, or the daemon's default
};

struct BarrierOptions {
  /// Rank of this process, and number of ranks that take part. If `world_size` is 0, the client's
  /// rank and world size are used, and `rank` must be 0.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  /// Ranks wait for each other only if they give the same name and generation.
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

/// One collective that has succeeded or failed, for the daemon's metrics.
struct CollectiveSample {
  std::string_view process_group;        ///< kind: dp, tp, pp, ...
  std::string_view collective;           ///< all_reduce, ...
  std::string_view backend;              ///< gloo, ...
  std::chrono::nanoseconds duration{0};  ///< time in the backend
  std::chrono::nanoseconds queued{0};    ///< time between issue and start
  std::uint64_t payload_bytes = 0;       ///< bytes of the tensors
  std::uint64_t bus_bytes = 0;           ///< payload multiplied by the bus factor of nccl-tests
  bool succeeded = true;
};

/// Counts the collectives of one kind. Thread-safe.
class CollectiveSeries {
 public:
  virtual ~CollectiveSeries() = default;
  /// Counts a collective that has ended after it was started. The arguments are as in
  /// CollectiveSample. Holds a lock briefly; does not allocate memory.
  virtual void record(std::chrono::nanoseconds duration, std::chrono::nanoseconds queued,
                      std::uint64_t payload_bytes, std::uint64_t bus_bytes,
                      bool succeeded) noexcept = 0;
  /// Changes the number of collectives that were issued and have not ended.
  virtual void add_in_flight(std::int64_t change) noexcept = 0;
};

/// Totals of one kind of collective in this process, as counted by Client::record().
struct CollectiveCount {
  std::string process_group;
  std::string collective;
  std::string backend;
  std::uint64_t count = 0;
  std::uint64_t failures = 0;
  std::uint64_t payload_bytes = 0;
};

/// A session of one process in one job. A call that needs the daemon blocks until the daemon has
/// replied. A failed call throws c10dd::Error or a subclass. It throws TimedOut if the daemon stays
/// unreachable until the call's time-out, and Forked in a process that was forked from the client's
/// process. Thread-safe.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Opens a session. `url` is c10dd://host:port/job. If several daemons share an engine, the URL
  /// names up to 16 of them: c10dd://a:29500,b:29500/job. The client begins at a random one,
  /// follows it to the daemon that owns the job, and learns the addresses of the others. It leaves
  /// a daemon that does not reply for 1 s, if it knows another one. Blocks up to
  /// ClientOptions::timeout. Throws InvalidArgument for an invalid URL or option, TimedOut if no
  /// daemon replies in time, and Error with the daemon's reason if the daemon refuses.
  static std::shared_ptr<Client> connect(const std::string& url, ClientOptions options = {});

  /// Connects as the environment says:
  ///   URL                  C10DD_URL, or C10DD_ADDR (host:port, or several with commas between)
  ///                        and C10DD_JOB
  ///   run name             C10DD_RUN
  ///   rank and world size  C10DD_RANK and C10DD_WORLD_SIZE, RANK and WORLD_SIZE, or the variables
  ///                        of Slurm, MPI or Kubernetes (client/internal/launch_environment.h)
  /// If C10DD_ADDR is set without C10DD_JOB, the job name comes from the launcher, and so does the
  /// run name unless C10DD_RUN is set. Throws as connect() does. Also throws InvalidArgument naming
  /// a variable that is missing or invalid.
  static std::shared_ptr<Client> from_environment();

  /// Calls close().
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Sends the last report and a request that ends the session, then closes the connection. Blocks
  /// up to 1 s for each of these requests. Pending and later calls of this client, of its store and
  /// of its memberships throw Error with Code::closed. The second call does nothing, and so does a
  /// call in a forked process, because the parent process still uses the session.
  void close();

  /// Returns the store of the job, the same object at each call. Does not block.
  std::shared_ptr<JobStore> store();

  /// Joins a group. Blocks up to RendezvousOptions::timeout until a generation forms that includes
  /// this process. Throws TimedOut, which names the present and the missing members. Throws
  /// InvalidArgument for invalid options. Throws Error if the members give different options for
  /// the group. The returned membership keeps the client alive.
  std::shared_ptr<Membership> rendezvous(const RendezvousOptions& options);

  /// Blocks until all ranks have arrived. For one name and generation, the n-th call of each rank
  /// joins the n-th barrier. All ranks get the same outcome: if one rank times out, the barrier
  /// fails for all. Throws TimedOut, whose missing() has the ranks that did not arrive. Throws
  /// InvalidArgument if the rank or world size is not known. Throws Error if world sizes differ.
  void barrier(const std::string& name, const BarrierOptions& options = {});

  /// Exchanges data at a barrier. The shape decides which parts a rank gives and gets:
  ///   all        each rank gives 1 part and gets the parts of all ranks, in the order of ranks
  ///   to_root    each rank gives 1 part; the root gets the parts of all ranks, the others get none
  ///   from_root  the root gives 1 part for all ranks or 1 part per rank; each rank gets 1 part
  ///   transpose  each rank gives 1 part per rank, and gets 1 part from each rank
  /// Blocks and throws as barrier() does. Also throws Error with Code::too_large if the parts of
  /// this rank exceed 16 MiB together.
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    const ExchangeOptions& options = {});

  /// Leases a port of the daemon, an endpoint, on which the clients of PyTorch's TCPStore find this
  /// client's job. They cannot name a job themselves. If the job has an endpoint of this name, it
  /// keeps its port and is renewed: it gets the ttl and the world size of this call. Different
  /// processes that give the same name get the same port. The endpoint outlives this client and a
  /// restart of the daemon. It ends when it has had no connection for its ttl since the last
  /// renewal, or when it is released over HTTP (DELETE /v1/jobs/JOB/endpoints/NAME); its open
  /// connections go on. The name has 1 to 255 bytes. Blocks until the lease is durable, up to
  /// ClientOptions::timeout. Throws InvalidArgument for an invalid name or option, or if the
  /// endpoint of this name has another run. Throws Error with Code::quota_exceeded if the daemon
  /// has no free port or too many endpoints or jobs.
  LeasedEndpoint lease_endpoint(const std::string& name, const EndpointOptions& options = {});

  /// Counts a collective. The totals are reported to the daemon once a second and when the client
  /// is destroyed. Holds a lock briefly; does not wait for the daemon. Does nothing in a forked
  /// process.
  void record(const CollectiveSample& sample);
  /// Returns what counts the collectives of one kind, faster than record() does. The names are as
  /// in CollectiveSample.
  std::shared_ptr<CollectiveSeries> collective_series(std::string_view process_group,
                                                      std::string_view collective,
                                                      std::string_view backend);
  /// Returns the totals that were counted so far.
  std::vector<CollectiveCount> recorded() const;

  /// Reports the totals now. Blocks until the daemon has received them, for at most
  /// ClientOptions::timeout.
  void flush_report();

  const std::string& job() const;
  /// Returns the run name, see ClientOptions::run.
  const std::string& run() const;
  /// Return the rank and the world size that the launcher or ClientOptions gave this process. Throw
  /// InvalidArgument if either is not known.
  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  /// Returns the host name that was reported to the daemon.
  const std::string& host() const;
  /// Returns the address of the daemon that has this client's session, host:port; while the client
  /// has no session, the address that it tries next. In a forked process, the first address of the
  /// URL.
  std::string address() const;
  ClientStats stats() const;

 private:
  class Impl;
  friend std::shared_ptr<client::ActivityReporter> client::activity_of(const Client& client);
  friend std::shared_ptr<client::Connection> client::connection_of(const Client& client);
  explicit Client(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace c10dd
