// SPDX-License-Identifier: Apache-2.0
// The connection of a trainer to its job: one session on one multiplexed connection. The client
// reconnects by itself and sends pending calls again, so a restart of the daemon does not make a
// call fail. Standard library only.
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

/// A change of a client's connection, as passed to ClientOptions::on_connection.
struct ConnectionChange {
  bool connected = false;
  std::string daemon;  ///< address of the daemon, host:port
  std::string reason;  ///< human-readable reason why there is no connection; empty when connected
  std::chrono::nanoseconds away{0};  ///< time without a connection, up to this change
};

struct ClientOptions {
  std::string run = {};          ///< name of the job's incarnation; empty: the permanent name space
  std::int64_t rank = -1;        ///< rank of this process, reported to the daemon; -1 if not known
  std::int64_t world_size = -1;  ///< number of processes of the job; -1 if not known
  std::string host = {};         ///< host name to report; if empty, the machine's host name
  /// Limits how long connect() tries to reach the daemon, and how long a call without a time-out of
  /// its own waits for an unreachable daemon. At most 30 days.
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
  /// How long the daemon keeps the session and its ephemeral keys while the client has no
  /// connection. Within this time each change is made exactly once. 0 means the daemon's default. A
  /// value outside 1 s to 24 h is raised or lowered to the nearest bound; a negative value is
  /// refused.
  std::chrono::nanoseconds session_expiry{0};
  /// The client calls this function when it connects and when it loses the connection. While it is
  /// disconnected, it calls the function again after 2 s and then every 30 s. At these repeated
  /// calls, and at the reconnect that follows them, the client also writes a line to stderr, unless
  /// the environment has C10DD_LOG=off. The function runs on a thread of the client, so it must not
  /// block, throw or call the client.
  std::function<void(const ConnectionChange&)> on_connection = {};
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

struct BarrierOptions {
  /// Rank of this process, and number of ranks that take part. If `world_size` is 0, the client's
  /// rank and world size are used, and `rank` must be 0.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  /// Ranks wait for each other only if they give the same name and generation.
  std::uint64_t generation = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(300);
};

/// One finished or failed collective, for the daemon's metrics.
struct CollectiveSample {
  std::string_view process_group;  ///< kind: dp, tp, pp, ...
  std::string_view collective;     ///< all_reduce, ...
  std::string_view backend;        ///< gloo, ...
  std::chrono::nanoseconds duration{0};
  std::uint64_t payload_bytes = 0;  ///< bytes of the tensors
  std::uint64_t bus_bytes = 0;      ///< payload times the bus factor of nccl-tests
  bool succeeded = true;
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

/// A session of one process in one job. Calls that need the daemon block, and throw c10dd::Error or
/// a subclass. While the daemon is unreachable they wait until their time-out, then throw TimedOut.
/// In a process that was forked from the client's process they throw Forked. Thread-safe.
class Client : public std::enable_shared_from_this<Client> {
 public:
  /// Opens a session. `url` is c10dd://host:port/job. Blocks up to ClientOptions::timeout. Throws
  /// InvalidArgument for an invalid URL or option, TimedOut if no daemon replies in time, and Error
  /// with the daemon's reason if the daemon refuses.
  static std::shared_ptr<Client> connect(const std::string& url, ClientOptions options = {});

  /// Connects to the URL in C10DD_URL, or to the job C10DD_JOB at the address C10DD_ADDR. Reads the
  /// run name from C10DD_RUN. Reads the rank and world size from C10DD_RANK and C10DD_WORLD_SIZE,
  /// from RANK and WORLD_SIZE, or from the variables of Slurm, MPI or Kubernetes (see
  /// client/internal/launch_environment.h). Throws as connect() does. Also throws InvalidArgument
  /// naming a variable that is missing or invalid.
  static std::shared_ptr<Client> from_environment();

  /// Sends the last report and a request that ends the session, then closes the connection. Blocks
  /// up to 1 s for each of these requests. Pending and later calls of the client's store throw
  /// Error with Code::closed.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Returns the store of the job, the same object at each call. Does not block.
  std::shared_ptr<JobStore> store();

  /// Joins a group. Blocks up to RendezvousOptions::timeout until a generation forms that includes
  /// this process. Throws TimedOut naming the members that are present and those that are missing,
  /// InvalidArgument for invalid options, and Error if the members give different options for the
  /// group. The returned membership keeps the client alive.
  std::shared_ptr<Membership> rendezvous(const RendezvousOptions& options);

  /// Blocks until all ranks have arrived. For one name and generation, the n-th call of each rank
  /// joins the n-th barrier. All ranks get the same outcome: if one rank times out, the barrier
  /// fails for all. Throws TimedOut (missing() has the ranks that did not arrive), InvalidArgument
  /// if the rank or world size is not known, and Error if the ranks give different world sizes.
  void barrier(const std::string& name, const BarrierOptions& options = {});

  /// Exchanges data at a barrier. The shape decides which parts a rank gives and gets:
  ///   all        each rank gives 1 part and gets the parts of all ranks, in the order of ranks
  ///   to_root    each rank gives 1 part; the root gets the parts of all ranks, the others get none
  ///   from_root  the root gives 1 part for all ranks or 1 part per rank; each rank gets 1 part
  ///   transpose  each rank gives 1 part per rank, and gets 1 part from each rank
  /// Blocks and throws as barrier() does; throws Error with Code::too_large if the parts of this
  /// rank exceed 16 MiB together.
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    const ExchangeOptions& options = {});

  /// Counts a collective. The totals are reported to the daemon once a second and when the client
  /// is destroyed. Holds a lock briefly; does not wait for the daemon. Does nothing in a forked
  /// process.
  void record(const CollectiveSample& sample);
  /// Returns the totals that record() has counted so far.
  std::vector<CollectiveCount> recorded() const;

  /// Reports the totals now. Blocks up to ClientOptions::timeout until the daemon has received
  /// them.
  void flush_report();

  const std::string& job() const;
  /// Returns the incarnation of the job; empty for the permanent name space.
  const std::string& run() const;
  /// Return the rank and the world size that the launcher or ClientOptions gave this process. Throw
  /// InvalidArgument if either is not known.
  std::uint32_t rank() const;
  std::uint32_t world_size() const;
  /// Returns the host name that was reported to the daemon.
  const std::string& host() const;
  /// Returns the address in the URL, host:port.
  const std::string& address() const;
  ClientStats stats() const;

 private:
  class Impl;
  friend std::shared_ptr<client::Connection> client::connection_of(const Client& client);
  explicit Client(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace c10dd
