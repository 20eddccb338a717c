// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/endpoint_listeners.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

#include "daemon/shard/caused_log.h"
#include "protocol/address.h"
#include "protocol/format.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

constexpr int kChoices = 16;  // how many free ports the kernel may offer before we give up

void log(std::string_view what, const core::Endpoint& endpoint) {
  log_caused("", LogLevel::info, "event=endpoint_{} job={} name={} run={} port={} ttl={}", what,
             endpoint.job, Sentence{endpoint.name}, Sentence{endpoint.run}, endpoint.port,
             Sentence{human(endpoint.ttl)});
}

ListenerSettings settings_of(const core::Endpoint& endpoint, std::uint16_t port,
                             const Options& options, const std::string& host) {
  ListenerSettings settings = main_listener(options);
  settings.host = host;
  settings.port = port;
  settings.protocols = {Protocol::tcpstore};
  settings.tcpstore_job = endpoint.job;
  settings.world_size = endpoint.world_size;
  settings.tcpstore_run = endpoint.run;
  return settings;
}

}  // namespace

/// Counts the connections of an endpoint. Each holds a share, which may be dropped on any thread.
class EndpointListeners::Use : public std::enable_shared_from_this<Use> {
 public:
  Use(boost::asio::io_context& loop, std::function<void(bool)> changed)
      : loop_(loop), changed_(std::move(changed)) {}

  std::shared_ptr<const void> share() {
    if (++count_ == 1 && changed_) changed_(true);
    const auto end = [self = shared_from_this()](const void*) {
      boost::asio::post(self->loop_, [self] {
        if (--self->count_ == 0 && self->changed_) self->changed_(false);
      });
    };
    return std::shared_ptr<const void>(this, end);
  }

  /// From now on, nobody is told.
  void forget() { changed_ = nullptr; }
  std::size_t count() const { return count_; }

 private:
  boost::asio::io_context& loop_;
  std::function<void(bool)> changed_;
  std::size_t count_ = 0;
};

EndpointListeners::EndpointListeners(Daemon of, std::string host, std::chrono::milliseconds retry)
    : of_(std::move(of)), host_(std::move(host)), again_(retry), retry_(of_.loop) {}

EndpointListeners::~EndpointListeners() {
  for (auto& [name, entry] : entries_) entry.use->forget();
}

/// Opens the listener of an entry on this port, and serves it.
ErrorCode EndpointListeners::listen(Entry& entry, std::uint16_t port) {
  const ListenerSettings settings = settings_of(entry.endpoint, port, of_.options, host_);
  auto listener = std::make_unique<Listener>(of_.loop, settings, of_.admission);
  if (const ErrorCode failed = listener->bind()) return failed;
  listener->serve(of_.context, of_.protocols(settings, [use = entry.use] { return use->share(); }));
  entry.listener = std::move(listener);
  entry.problem.clear();
  return {};
}

/// Opens the listener of a new endpoint on a port of the range, the lowest that is free; without a
/// range, on one that the kernel chooses.
Result<std::uint16_t> EndpointListeners::choose(Entry& entry, const core::Endpoints& leased) {
  const auto port_of = [&] { return entry.listener->endpoint().port(); };
  const auto cannot = [](const ErrorCode& why) {
    return failure(Code::unavailable, "the daemon cannot listen for the endpoint: {}",
                   why.message());
  };
  if (!of_.options.endpoint_ports) {
    for (int i = 0; i < kChoices; ++i) {
      if (const ErrorCode failed = listen(entry, 0)) return cannot(failed);
      if (!leased.has_port(port_of())) return port_of();
    }
    return cannot(asio::error::address_in_use);  // each is leased, and was taken by a process
  }
  const auto [low, high] = *of_.options.endpoint_ports;
  std::size_t taken = 0;
  for (std::uint32_t port = low; port <= high; ++port) {
    if (leased.has_port(static_cast<std::uint16_t>(port))) continue;
    const ErrorCode failed = listen(entry, static_cast<std::uint16_t>(port));
    if (!failed) return port_of();
    if (failed != asio::error::address_in_use) return cannot(failed);
    ++taken;
  }
  return failure(Code::quota_exceeded,
                 "no port is free for the endpoint: of the {} ports of --endpoint-ports {}-{}, {} "
                 "are leased and {} are used by other listeners; release endpoints, or give the "
                 "daemon more ports",
                 high - low + 1, low, high, high - low + 1 - taken, taken);
}

void EndpointListeners::add(Entry entry) {
  const core::Endpoints::Name name{entry.endpoint.job, entry.endpoint.name};
  entries_.insert_or_assign(name, std::move(entry));
}

Result<std::uint16_t> EndpointListeners::open(const core::Endpoint& endpoint,
                                              const core::Endpoints& leased) {
  Result<Ticket> ticket = of_.admission.enter_own();
  if (!ticket) return ticket.error();
  const auto use = std::make_shared<Use>(
      of_.loop, [this, endpoint](bool in_use) { of_.directory.endpoint_in_use(endpoint, in_use); });
  Entry entry{endpoint, std::move(*ticket), nullptr, use, {}};
  const Result<std::uint16_t> port = choose(entry, leased);
  if (!port) return port.error();
  entry.endpoint.port = *port;
  log("leased", entry.endpoint);
  add(std::move(entry));
  return *port;
}

void EndpointListeners::close(const core::Endpoint& endpoint, std::string_view how) {
  auto node = entries_.extract({endpoint.job, endpoint.name});
  log(how, endpoint);
  if (!node.empty()) node.mapped().use->forget();
}

void EndpointListeners::restore(const std::vector<core::Endpoint>& leased) {
  std::map<core::Endpoints::Name, Entry> before = std::exchange(entries_, {});
  std::vector<core::Endpoints::Name> added;
  for (const core::Endpoint& endpoint : leased) {
    const auto known = before.find({endpoint.job, endpoint.name});
    const bool same = known != before.end() && known->second.endpoint.port == endpoint.port &&
                      known->second.endpoint.run == endpoint.run;
    if (same) {
      add(std::move(before.extract(known).mapped()));
      continue;
    }
    const auto use = std::make_shared<Use>(of_.loop, [this, endpoint](bool in_use) {
      of_.directory.endpoint_in_use(endpoint, in_use);
    });
    add({endpoint, {}, nullptr, use, {}});
    added.emplace_back(endpoint.job, endpoint.name);
  }
  for (auto& [name, entry] : before) entry.use->forget();
  before.clear();  // frees the ports
  for (const core::Endpoints::Name& name : added) try_again(entries_.at(name));
  retry_later();
}

/// Notes that a port is taken on a host that this daemon shares with another one of the fleet: that
/// one listens on it, and passes the connections on.
void EndpointListeners::leave_to_neighbour(Entry& entry) {
  entry.problem.clear();
  if (!std::exchange(entry.at_neighbour, true)) log("at_neighbour", entry.endpoint);
}

/// Listens for an endpoint whose port is known.
void EndpointListeners::try_again(Entry& entry) {
  const core::Endpoint& endpoint = entry.endpoint;
  std::string why;
  Result<Ticket> ticket = of_.admission.enter_own();
  if (ticket) {
    const ErrorCode failed = listen(entry, endpoint.port);
    const auto& fleet = of_.directory.fleet();
    if (failed == asio::error::address_in_use && fleet && fleet->shares_host()) {
      return leave_to_neighbour(entry);
    }
    if (failed) why = failed.message();
  } else {
    why = ticket.error().detail;
  }
  if (why.empty()) {
    entry.ticket = std::move(*ticket);
    return log("available", endpoint);
  }
  std::string problem = format(
      "endpoint \"{}\" of job \"{}\" cannot listen on {}: {}; end the process that has the port, "
      "or release the endpoint",
      printable_name(endpoint.name), printable_name(endpoint.job),
      address_text(host_, endpoint.port), why);
  if (problem == entry.problem) return;
  log_caused(
      "", LogLevel::warn, "event=endpoint_unavailable job={} name={} port={} retry_ms={} reason={}",
      endpoint.job, Sentence{endpoint.name}, endpoint.port, again_.count(), Sentence{problem});
  entry.problem = std::move(problem);
}

/// Listens for the endpoints that cannot be reached. Comes back after a while if there are any.
void EndpointListeners::try_all_again() {
  for (auto& [name, entry] : entries_) {
    if (!entry.listener) try_again(entry);
  }
  retry_later();
}

/// Tries again after a while those that could not be opened.
void EndpointListeners::retry_later() {
  const bool all = std::ranges::all_of(
      entries_, [](const auto& entry) { return entry.second.listener != nullptr; });
  if (all || std::exchange(retries_, true)) return;
  retry_.expires_after(again_);
  retry_.async_wait([this](const ErrorCode& cancelled) {
    if (cancelled) return;  // then `this` may be gone
    retries_ = false;
    if (!drained_) try_all_again();  // cancel() may have come too late
  });
}

void EndpointListeners::drain() {
  drained_ = true;
  retry_.cancel();
  for (auto& [name, entry] : entries_) entry.listener.reset();
}

// ---- queries -----------------------------------------------------------------------------------

const EndpointListeners::Entry* EndpointListeners::find(const core::Endpoint& endpoint) const {
  const auto found = entries_.find({endpoint.job, endpoint.name});
  return found == entries_.end() ? nullptr : &found->second;
}

std::size_t EndpointListeners::connections(const core::Endpoint& endpoint) const {
  const Entry* const entry = find(endpoint);
  return entry == nullptr ? 0 : entry->use->count();
}

bool EndpointListeners::in_use(const core::Endpoint& endpoint) const {
  return connections(endpoint) > 0;
}

std::string EndpointListeners::problem(const core::Endpoint& endpoint) const {
  const Entry* const entry = find(endpoint);
  return entry == nullptr ? "" : entry->problem;
}

std::string EndpointListeners::note() const {
  std::string first;
  std::size_t more = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry.problem.empty()) continue;
    if (first.empty()) {
      first = entry.problem;
    } else {
      ++more;
    }
  }
  return more == 0 ? first : format("{}; {} more endpoints cannot be reached", first, more);
}

}  // namespace c10dd::daemon
