// SPDX-License-Identifier: Apache-2.0
// Starts, runs and drains the daemon. code_to_exit_with() chooses the exit code; deploy/README.md
// tells operators what to do about each exit code.
#include "daemon/server.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "daemon/config/option_values.h"
#include "daemon/config/version.h"
#include "daemon/http/http_session.h"
#include "daemon/net/native_session.h"
#include "daemon/net/tcpstore_session.h"
#include "daemon/shard/log_line.h"
#include "protocol/address.h"
#include "protocol/exit_codes.h"
#include "protocol/limits.h"
#include "protocol/random.h"
#include "protocol/utf8.h"

namespace c10dd::daemon {
namespace {

/// Returns the addresses of a listener with commas between them.
std::string listened(const Listener& listener) {
  std::string text;
  for (const std::string& one : listener.addresses()) text += (text.empty() ? "" : ",") + one;
  return text;
}

/// The part of the drain timeout that is reserved for closing the engine.
constexpr std::chrono::nanoseconds kClosing = std::chrono::seconds(1);

/// The part of the daemon that failed to start. `address`: the listener. `directory`: an engine
/// that uses a directory. `server`: an engine that uses a server.
enum class Part : std::uint8_t { address, directory, server };

int code_to_exit_with(Code code, Part part) {
  switch (code) {
    case Code::unavailable:  // server unreachable, port in use, or directory in use
      return part == Part::server ? exit_code::kUnreachable : exit_code::kTryAgain;
    case Code::permission_denied:
      return part == Part::directory ? exit_code::kCannotCreate : exit_code::kNoPermission;
    case Code::malformed:
    case Code::version_unsupported:
    case Code::state_rolled_back:
      return exit_code::kBadState;
    case Code::invalid_argument:
    case Code::unsupported:
      return exit_code::kUsage;
    default:
      return exit_code::kBug;
  }
}

int refuse(const Failure& why, Part part) {
  std::fprintf(stderr, "c10dd: %s\n", printable(why.detail, std::string::npos).c_str());
  return code_to_exit_with(why.code, part);
}

std::size_t shard_count(std::size_t wanted) {
  if (wanted > 0) return wanted;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, limits::kShards);
}

/// Returns three quarters of the machine's memory, in bytes.
/// The outcomes of a job may take one of so many parts of --max-bytes.
constexpr std::uint64_t kOutcomeShare = 16;

std::uint64_t most_of_the_memory() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 4 * 3;
}

/// Sends `state` to systemd as sd_notify() does. Does nothing if $NOTIFY_SOCKET is not set.
void notify(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  ::sendto(fd, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
           static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  ::close(fd);
}

}  // namespace

Server::Server(Options options)
    : options_(std::move(options)),
      growth_(options_.max_bytes.value_or(most_of_the_memory())),
      budget_(std::make_unique<SharedBudget>(loop_, growth_.memory().max_bytes())) {
  std::size_t& outcomes = options_.quotas.outcome_bytes;
  outcomes = std::min<std::size_t>(outcomes, growth_.memory().max_bytes() / kOutcomeShare);
}
Server::~Server() { close(); }

/// Binds the listeners. The ports are bound before the engine is opened, so that a second daemon
/// with the same options fails with the usual error for an address in use. No connection is served
/// before the loop runs.
Result<void> Server::listen() {
  Result<std::unique_ptr<Access>> access = open_access(loop_, options_);
  if (!access) return access.error();
  access_ = std::move(*access);
  admission_ = std::make_unique<Admission>(options_);
  listener_ = std::make_unique<Listener>(loop_, main_listener(options_), *admission_);
  if (Result<void> bound = listener_->open(); !bound) return bound;
  if (options_.listen_metrics.empty()) return {};
  metrics_listener_ = std::make_unique<Listener>(loop_, metrics_listener(options_), *admission_);
  const Result<void> bound = metrics_listener_->open();
  if (bound) return bound;
  return failure(bound.error().code, "--listen-metrics: {}", bound.error().detail);
}

/// Accepts connections from now on.
void Server::serve() {
  listener_->serve(*context_, protocols(main_listener(options_), {}));
  if (!metrics_listener_) return;
  // Asks nobody, and speaks no TLS.
  metrics_context_.emplace(*context_);
  metrics_context_->decrypt = {};
  metrics_context_->roles_of = {};
  metrics_context_->serves_plain = true;
  WireProtocol http = metrics_protocol(*metrics_context_, *operations_);
  metrics_listener_->serve(
      *metrics_context_,
      Protocols({native_protocol(*metrics_context_), std::move(http),
                 tcpstore_protocol(tcpstore_listener(main_listener(options_), {}))}));
}

/// Starts everything except the listener.
Result<void> Server::start() {
  store::OpenOptions how = open_options(options_);
  how.accept_rollback = options_.accept_rollback;
  Result<std::unique_ptr<store::Engine>> engine = store::open_engine(options_.engine, how);
  if (!engine) return engine.error();
  metrics_ = std::make_unique<Metrics>(
      MetricsInfo{kVersion, std::string((*engine)->name()), std::string((*engine)->durability())});
  host_ =
      std::make_unique<EngineHost>(loop_, *metrics_, options_, [this] { disk_->engine_failed(); });
  disk_ = std::make_unique<DiskWatch>(
      loop_, options_, growth_, *metrics_,
      DiskWatch::Engine{[this](std::function<void(bool)> then) { host_->relieve(std::move(then)); },
                        [this] { return host_->room_to_tidy(); }});
  const ShardContext context{*metrics_, options_, growth_};
  shards_ = std::make_unique<Shards>(loop_, shard_count(options_.shards), *host_, context);
  if ((*engine)->shared()) {
    if (Result<void> joined = host_->join_fleet(advertised_addresses()); !joined) return joined;
  }
  if (Result<void> adopted = host_->adopt(std::move(*engine), *shards_); !adopted) return adopted;
  disk_->start();
  context_.emplace(SessionContext{options_, *metrics_, *budget_, draining_, shards_->first(), {}});
  context_->admission = admission_.get();
  if (access_) {
    const bool in_fleet = host_->directory().fleet().has_value();
    access_->serve(*context_, *metrics_,
                   in_fleet ? advertised_addresses() : std::vector<std::string>());
  }
  if (shards_->size() > 1) {
    context_->shard_of = [this](const std::string& job, const std::string& run,
                                const core::JobAsker& asker) {
      return host_->shard_of(job, run, asker);
    };
  }
  if (host_->directory().fleet()) {
    const auto listener = [this](const ListenerSettings& settings) {
      return tcpstore_listener(settings, {});
    };
    relay_ = std::make_unique<Relay>(
        Relay::Daemon{loop_, *context_, *admission_, host_->directory(), listener});
    context_->relay = relay_.get();
  }
  const EndpointListeners::Daemon parts{loop_,
                                        options_,
                                        *admission_,
                                        *context_,
                                        host_->directory(),
                                        [this](const ListenerSettings& settings, auto count) {
                                          return protocols(settings, std::move(count));
                                        }};
  endpoints_ =
      std::make_unique<EndpointListeners>(parts, listener_->endpoint().address().to_string());
  operations_ = std::make_unique<ServerOperations>(
      loop_, ServerOperations::Daemon{
                 *metrics_, *shards_, *host_, growth_, *budget_, launches_, *endpoints_, draining_,
                 *context_, access_.get(), advertised_addresses(), options_.engine,
                 options_.protocols.has(Protocol::tcpstore) ? options_.tcpstore_job : ""});
  host_->directory().serve_endpoints(*endpoints_);
  return {};
}

/// Returns the addresses at which clients and other daemons reach this daemon.
std::vector<std::string> Server::advertised_addresses() const {
  if (!options_.advertise.empty()) return advertised(options_);
  const auto endpoint = listener_->endpoint();
  if (!endpoint.address().is_unspecified()) return {listener_->address()};
  char name[HOST_NAME_MAX + 1] = {};
  ::gethostname(name, sizeof name - 1);
  return {address_text(name, endpoint.port())};
}

std::shared_ptr<LaunchRuns> Server::make_launches(const std::string& job) {
  LaunchRuns::Directory directory = core::JobLaunches::volatile_runs(
      host_->directory(), job, [this] { return shards_->first().host().job_time(); });
  return std::make_shared<LaunchRuns>(loop_, job, std::move(directory), make_claim(job, ""));
}

/// Returns the claim of a run whose connections the other daemons pass on; null if there are none.
std::shared_ptr<core::RunClaim> Server::make_claim(const std::string& job, const std::string& run) {
  if (!relay_) return nullptr;
  const auto later = [this](Duration time, std::function<void()> then) {
    after(loop_, time, std::move(then));
  };
  const auto alone = [this] { return host_->directory().fleet()->addresses().empty(); };
  const auto engine_works = [this] { return host_->not_ready().empty(); };
  return std::make_shared<core::RunClaim>(
      shards_->first().host(),
      core::RunClaim::Settings{job, run, random_number(), later, alone, engine_works});
}

std::shared_ptr<TcpStoreListener> Server::tcpstore_listener(
    const ListenerSettings& settings, std::function<std::shared_ptr<const void>()> count) {
  const std::string& job = settings.tcpstore_job;
  const std::string& run = settings.tcpstore_run;
  std::shared_ptr<TcpStoreRuns> runs;
  if (run.empty()) {
    runs = launches_.of(job);
  } else {
    runs = std::make_shared<FixedRun>(run, make_claim(job, run));
  }
  return std::make_shared<TcpStoreListener>(*context_, settings, std::move(runs), std::move(count));
}

/// Returns the entries of all wire protocols for a listener. TCPStore connections keep what `count`
/// returns; it may be null.
Protocols Server::protocols(const ListenerSettings& settings,
                            std::function<std::shared_ptr<const void>()> count) {
  return Protocols({native_protocol(*context_), http_protocol(*context_, *operations_),
                    tcpstore_protocol(tcpstore_listener(settings, std::move(count)))});
}

int Server::run() {
  // Ignores the signals for a closed socket, a file over its size limit and a closed terminal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  if (const Result<void> bound = listen(); !bound) return refuse(bound.error(), Part::address);
  if (const Result<void> started = start(); !started) {
    const bool remote = options_.engine.starts_with("redis");
    return refuse(started.error(), remote ? Part::server : Part::directory);
  }
  serve();
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const ErrorCode& failed, int) {
    if (!failed) drain();
  });
  if (access_) reload_at_hang_up();
  std::printf("listening on %s\n", listener_->name().c_str());
  std::fflush(stdout);
  log_info("event=serving version={} listen={} engine={}{} durability={} shards={} pid={}",
           kVersion, listened(*listener_), host_->engine_name(),
           OptionalField{"path", state_path(options_)}, host_->durability(), shards_->size(),
           ::getpid());
  warn_of_loopback();
  notify("READY=1");
  shards_->start();
  host_->start_fleet();
  while (!stopped_) {
    Shards::turn(loop_, shards_->first());
    host_->end_turn();
  }
  close();
  log_info("event=stopped");
  end_by_.cancel();
  return 0;
}

/// Logs a warning if other machines cannot connect, or would be sent to their own loopback address,
/// although the options ask for other addresses.
void Server::warn_of_loopback() const {
  if (listener_->is_loopback() && !is_loopback(options_.listen_host)) {
    log_warn(
        "event=listens_on_loopback_only listen={} detail={}", listened(*listener_),
        Sentence{"the name " + printable(options_.listen_host, limits::kNameShown) +
                 " resolves only to loopback on this machine, so other machines cannot connect; "
                 "give --listen an address, or 0.0.0.0"});
  }
  if (listener_->is_loopback()) return;
  for (const std::string& address : advertised(options_)) {
    if (!is_loopback(split_address(address)->host)) continue;
    log_warn("event=advertises_loopback address={} detail={}", address,
             Sentence{"clients and daemons on other machines cannot connect to this address; set "
                      "--advertise to an address of this machine that they can reach"});
  }
}

/// Reads the files of --tls again at SIGHUP, which is ignored without --tls.
void Server::reload_at_hang_up() {
  hang_up_.clear();
  hang_up_.add(SIGHUP);
  hang_up_.async_wait([this](const ErrorCode& failed, int) {
    if (failed) return;
    access_->reload();
    reload_at_hang_up();
  });
}

/// Stops all loops and closes the engine. The handshakes and the engine end before the loops are
/// destroyed, because their threads post to the loops.
void Server::close() {
  if (shards_) shards_->stop();
  if (access_) access_->stop();
  if (host_) host_->close();
  if (operations_) operations_->close();
  shards_.reset();
}

/// Refuses new connections and requests, sends the pending replies, then stops the daemon. A second
/// signal stops the daemon without waiting.
void Server::drain() {
  draining_ = true;
  notify("STOPPING=1");
  log_info("event=draining");
  listener_->close();
  if (metrics_listener_) metrics_listener_->close();
  endpoints_->drain();
  host_->drain();
  shards_->each([](Shard& shard) { shard.drain(); });
  signals_.async_wait([this](const ErrorCode& failed, int) {
    if (!failed) stopped_ = true;
  });
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds closing = std::min(kClosing, options_.drain_timeout / 4);
  end_by_.set(now + std::max(options_.drain_timeout, kClosing));
  stop_when_finished(now + options_.drain_timeout - closing);
}

/// Stops the daemon when no shard has unfinished work, or at `deadline`. Asks the shards every 10
/// ms.
void Server::stop_when_finished(std::chrono::steady_clock::time_point deadline) {
  const auto then = [this, deadline](const std::vector<std::size_t>& unfinished) {
    if (drain_.finished(unfinished) || std::chrono::steady_clock::now() >= deadline) {
      stopped_ = true;
      return;
    }
    drain_timer_.expires_after(std::chrono::milliseconds(10));
    drain_timer_.async_wait([this, deadline](const ErrorCode&) { stop_when_finished(deadline); });
  };
  shards_->ask<std::size_t>([](Shard& shard) { return shard.unfinished(); }, then);
}

}  // namespace c10dd::daemon
