// SPDX-License-Identifier: Apache-2.0
// Client: builds the public API from the connection, the store, the barriers, the recorder and the
// reporter of activity.
#include "client/client.h"

#include <unistd.h>

#include <algorithm>

#include "client/core/rank_claim.h"
#include "client/internal/activity_reporter.h"
#include "client/internal/announcer.h"
#include "client/internal/barrier_calls.h"
#include "client/internal/caller.h"
#include "client/internal/connection.h"
#include "client/internal/daemon_membership.h"
#include "client/internal/fork_guard.h"
#include "client/internal/local_address.h"
#include "client/internal/recorder.h"
#include "client/internal/throw_failure.h"
#include "client/internal/url.h"
#include "client/stores/daemon_store.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/random.h"
#include "protocol/wording.h"

namespace c10dd {
namespace {

using client::expect;

constexpr Duration kCloseLimit = std::chrono::seconds(1);  // time-out per request in close()

std::string host_name() {
  char name[limits::kNameBytes + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

client::CoreOptions core_options(const client::Url& url, const ClientOptions& options,
                                 bool encrypts) {
  client::CoreOptions core;
  core.probes = !encrypts;
  for (const client::HostPort& daemon : url.daemons) core.addresses.push_back(daemon.text());
  core.seed = random_number();
  core.hello.version_min = kProtocolVersion;
  core.hello.version_max = kProtocolVersion;
  core.hello.session = {random_number(), random_number()};
  core.hello.job = url.job;
  core.hello.run = options.run;
  core.hello.host = options.host.empty() ? host_name() : options.host;
  core.hello.pid = static_cast<std::uint64_t>(getpid());
  core.hello.rank = options.rank;
  core.hello.expiry = options.session_expiry;
  if (options.world_size >= 0) {
    core.hello.labels["world_size"] = std::to_string(options.world_size);
  }
  return core;
}

/// Reports the totals. After a reconnect also unchanged ones, because the daemon may have lost
/// them.
client::Connection::Periodic totals_of(std::shared_ptr<client::Recorder> recorder) {
  return {.period = std::chrono::seconds(1),
          .request = [counts = std::move(recorder)](bool again) -> std::optional<Request> {
            if (!counts->changed() && !(again && !counts->counts().empty())) return std::nullopt;
            return counts->report();
          }};
}

}  // namespace

class Client::Impl {
 public:
  Impl(const client::Url& url, ClientOptions options)
      : job(url.job),
        first_address(url.daemons.front().text()),
        host(options.host.empty() ? host_name() : options.host),
        run(options.run),
        claim{options.rank, options.world_size, options.launcher},
        limit(std::clamp<Duration>(options.timeout, Duration::zero(), limits::kTimeoutMax)),
        recorder(std::make_shared<client::Recorder>()),
        activity(std::make_shared<client::ActivityReporter>()),
        tls(client::tls_of(options.credentials)),
        connection(std::make_shared<client::Connection>(
            core_options(url, options, tls != nullptr),
            std::vector<client::Connection::Periodic>{totals_of(recorder), activity->periodic()},
            client::announcer(client::process_environment(), std::move(options.on_connection)),
            tls)),
        barriers(connection),
        store(client::make_daemon_store(connection, limit)) {}

  void require_home() const { home.require("client", "connect again"); }

  client::BarrierRank known_rank(const std::string& what) const {
    const Result<client::BarrierRank> known = client::known_rank(claim, what);
    if (!known) client::throw_failure(known.error());
    return *known;
  }

  /// If `options` has no world size, copies the rank and world size of the client into `options`.
  /// Throws InvalidArgument if the client has no rank or no world size, or if `options` has a rank
  /// without a world size.
  template <class Options>
  void rank_in(const char* what, const std::string& name, Options& options) const {
    const Result<client::BarrierRank> found = client::rank_in_barrier(
        claim, format("{} \"{}\"", what, name), options.rank, options.world_size);
    if (!found) client::throw_failure(found.error());
    options.rank = found->rank;
    options.world_size = found->world_size;
  }

  /// Sends the last report and a Goodbye, each with the time-out kCloseLimit. Ends the connection.
  void close() {
    std::vector<Request> last_calls;
    if (!recorder->counts().empty()) last_calls.emplace_back(recorder->report());
    last_calls.emplace_back(Goodbye{});
    connection->close(std::move(last_calls), kCloseLimit);
  }

  const std::string job;
  const std::string first_address;  // of the URL
  const std::string host;
  const std::string run;
  const client::RankClaim claim;
  const Duration limit;
  const client::HomeProcess home;
  std::shared_ptr<client::Recorder> recorder;
  std::shared_ptr<client::ActivityReporter> activity;
  const std::shared_ptr<client::Tls> tls;  // null: the connection is not encrypted
  std::shared_ptr<client::Connection> connection;
  client::BarrierCalls barriers;
  std::shared_ptr<JobStore> store;
};

std::shared_ptr<client::ActivityReporter> client::activity_of(const Client& client) {
  return client.impl_->activity;
}

std::shared_ptr<client::Connection> client::connection_of(const Client& client) {
  return client.impl_->connection;
}

Client::Client(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::shared_ptr<Client> Client::connect(const std::string& url, ClientOptions options) {
  if (options.session_expiry < Duration::zero()) {
    client::throw_failure(
        failure(Code::invalid_argument,
                "session_expiry is {}, below 0: give 0 for the daemon's default, or 1 s to 24 h",
                human(options.session_expiry)));
  }
  const client::RankClaim claim{options.rank, options.world_size, {}};
  if (const Result<void> good = client::check_rank_claim(claim); !good) {
    client::throw_failure(good.error());
  }
  const Result<client::Url> parsed = client::parse_url(url);
  if (!parsed) client::throw_failure(parsed.error());
  auto impl = std::make_shared<Impl>(*parsed, std::move(options));
  if (Result<void> good = impl->connection->wait_open(client::call_limit(impl->limit)); !good) {
    client::throw_failure(good.error());
  }
  return std::shared_ptr<Client>(new Client(std::move(impl)));
}

std::shared_ptr<Client> Client::from_environment() {
  Result<client::Launch> launch = client::read_environment(client::process_environment());
  if (!launch) client::throw_failure(launch.error());
  return connect(launch->url, std::move(launch->options));
}

Client::~Client() { close(); }

void Client::close() {
  if (!impl_->home.forked()) impl_->close();
}

std::shared_ptr<JobStore> Client::store() { return impl_->store; }

std::shared_ptr<Membership> Client::rendezvous(const RendezvousOptions& options) {
  impl_->require_home();
  RendezvousOptions ranked = options;
  ranked.rank = client::requested_rank(impl_->claim, options.rank, options.min, options.max);
  return client::join_group(shared_from_this(), impl_->connection, ranked);
}

void Client::barrier(const std::string& name, const BarrierOptions& options) {
  impl_->require_home();
  BarrierOptions ranked = options;
  impl_->rank_in("barrier", name, ranked);
  impl_->barriers.barrier(name, ranked);
}

std::vector<std::string> Client::exchange(const std::string& name, std::vector<std::string> parts,
                                          const ExchangeOptions& options) {
  impl_->require_home();
  ExchangeOptions ranked = options;
  impl_->rank_in("exchange", name, ranked);
  return impl_->barriers.exchange(name, std::move(parts), ranked);
}

LeasedEndpoint Client::lease_endpoint(const std::string& name, const EndpointOptions& options) {
  impl_->require_home();
  const LeaseEndpoint request{name, options.run, options.ttl, options.world_size};
  EndpointLease lease = expect<EndpointLease>(impl_->connection->call(request, impl_->limit));
  // A daemon that listens on all addresses is reached where this client reaches it.
  const bool everywhere = lease.host == "0.0.0.0" || lease.host == "::";
  if (!everywhere) return {std::move(lease.host), lease.port, lease.ttl};
  const std::string daemon = address();
  std::string host(split_address(daemon)->host);
  // The ranks may run on other machines, which cannot use a loopback address of this one.
  if (is_loopback(host)) {
    if (std::string own = client::own_address(); !own.empty()) host = std::move(own);
  }
  return {std::move(host), lease.port, lease.ttl};
}

void Client::record(const CollectiveSample& sample) {
  if (impl_->home.forked()) return;
  impl_->recorder->record(sample);
}

std::shared_ptr<CollectiveSeries> Client::collective_series(std::string_view process_group,
                                                            std::string_view collective,
                                                            std::string_view backend) {
  impl_->require_home();
  return impl_->recorder->series(process_group, collective, backend);
}

std::vector<CollectiveCount> Client::recorded() const {
  impl_->require_home();
  return impl_->recorder->counts();
}

void Client::flush_report() {
  impl_->require_home();
  expect<Done>(impl_->connection->call(impl_->recorder->report(), impl_->limit));
}

const std::string& Client::job() const { return impl_->job; }
const std::string& Client::run() const { return impl_->run; }
std::uint32_t Client::rank() const { return impl_->known_rank("rank()").rank; }
std::uint32_t Client::world_size() const { return impl_->known_rank("world_size()").world_size; }
const std::string& Client::host() const { return impl_->host; }
std::string Client::address() const {
  return impl_->home.forked() ? impl_->first_address : impl_->connection->address();
}

ClientStats Client::stats() const {
  impl_->require_home();
  const client::CoreStats core = impl_->connection->stats();
  return {core.connects, core.reissued, core.calls, core.failures, core.away, core.sessions_lost};
}

}  // namespace c10dd
