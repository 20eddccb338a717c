// SPDX-License-Identifier: Apache-2.0
// The leased endpoints: ports on which clients of PyTorch's TCPStore, which can name neither a job
// nor a run, find a job. An endpoint has a name in its job, and keeps its port until it is released
// or expires. It expires when it has had no connection for its ttl, counted in job time; the ttl
// starts in full when the endpoint is leased or renewed, when its last connection has ended, and
// after a restart. In a fleet, a daemon knows only its own connections: it renews the endpoints
// that have some, or have had some since the last renewal, at most once in half a ttl, and the
// others count from there. If a daemon dies, they may so end an endpoint half a ttl early. Does no
// I/O: the caller chooses a free port, stores the rows among those of the directory, and says which
// endpoints have connections.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/deadlines.h"
#include "protocol/error.h"
#include "protocol/limits.h"
#include "protocol/ops.h"
#include "protocol/rows.h"

namespace c10dd::core {

struct Endpoint {
  std::string job;
  std::string name;
  std::uint16_t port = 0;
  std::string run;  ///< of all connections; if empty, PlainRuns decides
  Duration ttl{0};
  std::uint32_t world_size = 0;  ///< 0: unknown
  std::uint32_t renewals = 0;    ///< tells the other daemons of a fleet that its ttl starts again

  bool operator==(const Endpoint&) const = default;
};

/// Fails with invalid_argument if no endpoint can have this ttl.
Result<void> check_endpoint_ttl(Duration ttl);
/// Fails with invalid_argument if no endpoint can have this world size. 0 stands for unknown.
Result<void> check_endpoint_world_size(std::int64_t world_size);

class Endpoints {
 public:
  /// The job and the name of an endpoint.
  using Name = std::pair<std::string, std::string>;

  explicit Endpoints(std::size_t most) : most_(most) {}

  static bool owns(const RowView& row) { return row.key.starts_with('e'); }
  static bool owns(const Row& row) { return row.key.starts_with('e'); }
  /// Fails with `malformed` if the row is damaged.
  Result<void> restore(const Row& row);
  /// Starts the ttl of each endpoint, after the last row was restored.
  void resume(TimePoint now);
  /// Takes a row that another daemon has changed. Starts the ttl of an endpoint that is new or was
  /// renewed. Returns whether the row changes anything. Fails with `malformed` if it is damaged.
  Result<bool> follow(const RowView& row, TimePoint now);
  /// Appends the rows of all endpoints.
  void append_rows(Rows& rows) const;

  /// Returns the endpoint that a request asks for. It has the port of the endpoint of this name, or
  /// port 0 if there is none yet. Fails with invalid_argument if a name, the ttl or the world size
  /// is invalid, or if the endpoint of this name is leased for another run; and with quota_exceeded
  /// if there are too many endpoints.
  Result<Endpoint> check(const std::string& job, const LeaseEndpoint& request) const;

  /// Leases or renews an endpoint that check() has returned. A new one has a port that no other
  /// endpoint has.
  void put(const Endpoint& endpoint, TimePoint now, Rows& rows);
  /// Removes and returns an endpoint. Returns nothing if there is none of this name.
  std::optional<Endpoint> release(const Name& name, Rows& rows);
  /// Removes and returns an endpoint whose ttl is over. Returns nothing if there is none.
  std::optional<Endpoint> expire(TimePoint now, Rows& rows);
  std::optional<TimePoint> next_deadline() const { return deadlines_.next(); }

  /// Notes that an endpoint has got its first connection, or that its last one has ended. Has no
  /// effect if there is none of this name.
  void set_in_use(const Name& name, bool in_use, TimePoint now);

  /// Renews an endpoint that has had a connection since it was last renewed, half a ttl ago or
  /// more. Its own ttl goes on here. Returns false if there is none.
  bool renew_used(TimePoint now, Rows& rows);
  std::optional<TimePoint> next_renewal() const { return renewals_.next(); }

  const Endpoint* find(const Name& name) const;
  bool has_port(std::uint16_t port) const { return ports_.contains(port); }
  /// Returns true if an endpoint names this run. An empty run is never named.
  bool names_run(const std::string& job, const std::string& run) const;
  /// Returns the world size that the endpoints of a run tell; for an empty run, those that name no
  /// run. Returns nothing if they tell none, or several.
  std::optional<std::uint32_t> world_size(const std::string& job, const std::string& run) const;
  std::vector<Endpoint> all() const;
  std::vector<Endpoint> of_job(const std::string& job) const;
  std::size_t size() const { return endpoints_.size(); }

 private:
  void start_ttl(const Name& name, TimePoint now);
  void place(const Endpoint& endpoint);
  void displace(const Name& name);

  const std::size_t most_;
  std::map<Name, Endpoint> endpoints_;
  std::map<std::uint16_t, Name> ports_;
  std::map<Name, std::size_t> runs_;  // how many endpoints name this job and run
  std::set<Name> in_use_;
  std::map<Name, TimePoint> renewed_;  // when the other daemons began to count the ttl
  Deadlines<Name> deadlines_;          // of those that are not in use
  Deadlines<Name> renewals_;  // of those that are in use, or have been since the last renewal
};

}  // namespace c10dd::core
