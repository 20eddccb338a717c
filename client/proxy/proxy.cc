// SPDX-License-Identifier: Apache-2.0
#include "client/proxy/proxy.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "client/core/announcements.h"
#include "client/core/proxy_places.h"
#include "client/errors.h"
#include "client/internal/boot_time.h"
#include "client/internal/fork_guard.h"
#include "client/internal/start_thread.h"
#include "client/proxy/peer_user.h"
#include "client/proxy/proxied_connection.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/random.h"
#include "protocol/wording.h"

namespace c10dd::proxy {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::chrono::seconds kGoodbye{1};
constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::chrono::seconds kLinePause{10};
constexpr std::chrono::milliseconds kAcceptAgain{100};  // after a failure, such as no descriptor

/// Why a client is not served.
enum class Cause { full, silent, other_user, unclear, gone, no_descriptors };
constexpr std::size_t kCauses = 6;

/// What was told of a cause. Clients try again and again, so people get a line at most once in
/// kLinePause, with the number of clients since the line before.
struct Told {
  std::uint64_t count = 0;  ///< not told yet
  std::optional<TimePoint> at;
};

/// A client that waits for a place.
struct Waiting {
  Tcp::socket local;
  client::ForkClosed in_child;
};

/// Returns for example "1 client was" or "3 clients were".
std::string clients(std::uint64_t count) {
  return count == 1 ? "1 client was" : format("{} clients were", count);
}

}  // namespace

/// Everything but the constructor, the destructor and counts() runs on the thread of the proxy.
class Proxy::Shell {
 public:
  explicit Shell(ProxySettings settings)
      : settings_(std::move(settings)),
        acceptor_(loop_),
        again_(loop_),
        making_room_(loop_),
        announcing_(loop_),
        announcements_(client::boot_time()),
        shared_{loop_,
                look_ups_,
                Bytes(kReadBytes, '\0'),
                client::tls_of(settings_.credentials),
                [this](const ProxiedConnection& one, const Failure* why) { ended(one, why); },
                [this] { announce(); },
                [this](const ProxiedConnection& one) { heard(one); },
                [this](const ErrorCode& failed) { free_descriptors(failed); }} {}

  void start();
  void stop();
  bool forked() const { return home_.forked(); }
  std::uint16_t port() const { return port_; }
  ProxyCounts counts();
  const std::shared_ptr<ClientsLeft>& clients_left() const { return clients_left_; }

 private:
  void accept();
  void accept_later();
  void free_descriptors(const ErrorCode& failed);
  bool may_enter(Tcp::socket& local);
  void arrived(Tcp::socket local);
  void serve(std::uint64_t number, Tcp::socket local);
  void heard(const ProxiedConnection& one);
  void make_room();
  void close_silent(std::uint64_t number);
  void ended(const ProxiedConnection& one, const Failure* why);
  void announce();
  void refuse(Cause cause, const std::string& detail = "");
  void tell(Cause cause, const std::string& detail = "");
  std::string line(Cause cause, std::uint64_t count, const std::string& detail) const;
  void note_seen(const ProxiedConnection& of) {
    if (const client::Core* core = of.client().core()) seen_ = std::max(seen_, core->seen());
  }
  void say(const std::string& line) const {
    if (settings_.say) settings_.say(line);
  }
  ProxyCounts count() const;

  const ProxySettings settings_;
  const client::HomeProcess home_;
  asio::io_context loop_{1};
  asio::thread_pool look_ups_{1};
  Tcp::acceptor acceptor_;
  client::ForkClosed acceptor_in_child_;
  std::uint16_t port_ = 0;
  PeerUsers users_;
  asio::steady_timer again_;
  asio::steady_timer making_room_;
  asio::steady_timer announcing_;
  client::Announcements announcements_;
  ProxyLoop shared_;
  client::ProxyPlaces places_{limits::kProxyClients};
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::shared_ptr<ProxiedConnection>> connections_;  ///< by number
  std::map<std::uint64_t, Waiting> waiting_;
  Stamp seen_;  ///< the newest of all clients
  ProxyCounts sums_;
  const std::shared_ptr<ClientsLeft> clients_left_ = std::make_shared<ClientsLeft>();
  std::array<Told, kCauses> told_;
  bool making_room_now_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

void Proxy::Shell::start() {
  ErrorCode failed;
  const Tcp::endpoint any(asio::ip::address_v4::loopback(), 0);
  acceptor_.open(Tcp::v4(), failed);
  if (!failed) acceptor_.bind(any, failed);
  if (!failed) acceptor_.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    throw Error(Code::unavailable, "proxy: cannot listen on 127.0.0.1: " + failed.message());
  acceptor_in_child_ = client::ForkClosed(acceptor_.native_handle());
  Result<PeerUsers> users = PeerUsers::open(acceptor_.native_handle());
  if (!users) {
    throw Error(
        Code::unavailable,
        "proxy: the system does not tell which user a connection is of: " + users.error().detail +
            "; allow a socket of AF_NETLINK, or mount /proc (open files: ulimit -n)");
  }
  users_ = std::move(*users);
  acceptor_.non_blocking(true, failed);
  port_ = acceptor_.local_endpoint().port();
  announcements_.next(true, client::boot_time());  // nobody needs the daemon yet
  thread_ = client::start_thread("proxy", [this] {
    const auto work = asio::make_work_guard(loop_);
    accept();
    loop_.run();
  });
}

/// Waits until the sessions have said goodbye, at most kGoodbye.
void Proxy::Shell::stop() {
  asio::post(loop_, [this] {
    stopping_ = true;
    ErrorCode ignored;
    acceptor_in_child_ = client::ForkClosed();  // first, because the number may be used again
    acceptor_.close(ignored);
    waiting_.clear();
    for (const auto& [number, one] : std::map(connections_)) one->leave();
    if (connections_.empty()) return loop_.stop();
    again_.expires_after(kGoodbye);
    again_.async_wait([this](const ErrorCode&) {
      for (const auto& [number, one] : std::map(connections_)) one->drop();
      loop_.stop();
    });
  });
  thread_.join();
  look_ups_.join();
}

// ---- local clients -----------------------------------------------------------------------------

void Proxy::Shell::accept() {
  acceptor_.async_accept([this](const ErrorCode& failed, Tcp::socket local) {
    if (stopping_) return;
    if (is_shortage(failed)) free_descriptors(failed);
    if (failed) return accept_later();
    if (may_enter(local)) arrived(std::move(local));
    accept();
  });
}

void Proxy::Shell::accept_later() {
  again_.expires_after(kAcceptAgain);
  again_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && !stopping_) accept();
  });
}

/// All descriptors are used: the silent clients give way. Each that is served needs two.
void Proxy::Shell::free_descriptors(const ErrorCode& failed) {
  tell(Cause::no_descriptors, client::error_text(failed.value()));
  while (const auto silent = places_.gives_way(client::boot_time())) close_silent(*silent);
}

bool Proxy::Shell::may_enter(Tcp::socket& local) {
  switch (users_.look(local.native_handle())) {
    case PeerUser::own:
      return true;
    case PeerUser::other:
      refuse(Cause::other_user, std::to_string(users_.user()));
      break;
    case PeerUser::unclear:
      refuse(Cause::unclear, users_.problem());
      break;
    case PeerUser::gone: {
      ErrorCode ignored;
      if (local.available(ignored) > 0) refuse(Cause::gone);
      break;
    }
  }
  return false;
}

void Proxy::Shell::arrived(Tcp::socket local) {
  const std::uint64_t number = ++last_number_;
  switch (places_.arrive(number, client::boot_time())) {
    case client::ProxyPlaces::Entry::served:
      return serve(number, std::move(local));
    case client::ProxyPlaces::Entry::refused:
      return refuse(Cause::full);
    case client::ProxyPlaces::Entry::waits:
      break;
  }
  client::ForkClosed in_child(local.native_handle());
  waiting_.emplace(number, Waiting{std::move(local), std::move(in_child)});
  make_room();
}

void Proxy::Shell::serve(std::uint64_t number, Tcp::socket local) {
  ++sums_.accepted;
  client::CoreOptions options;
  options.addresses = settings_.daemons;
  options.seed = random_number();
  options.hello.session = {random_number(), random_number()};
  options.hello.job = settings_.job;
  options.hello.run = settings_.run;
  options.hello.host = settings_.host;
  // A daemon that has lost its state must not serve an empty store to a later client.
  for (const auto& [other, connection] : connections_) note_seen(*connection);
  options.hello.seen = seen_;
  const auto one = std::make_shared<ProxiedConnection>(shared_, number, std::move(local),
                                                       std::move(options), settings_.legacy);
  connections_.emplace(number, one);
  clients_left_->set(false);
  one->start();
}

void Proxy::Shell::heard(const ProxiedConnection& one) {
  places_.heard(one.number());
  if (!waiting_.empty()) make_room();
}

/// Lets silent clients give way to those that wait for a place.
void Proxy::Shell::make_room() {
  if (std::exchange(making_room_now_, true)) return;
  while (const auto move = places_.next(client::boot_time())) {
    if (move->kind == client::ProxyPlaces::Move::Kind::close) {
      close_silent(move->client);
      continue;
    }
    auto waiting = waiting_.extract(move->client);
    if (move->kind == client::ProxyPlaces::Move::Kind::refuse) {
      refuse(Cause::full);
      continue;
    }
    waiting.mapped().in_child = {};
    serve(move->client, std::move(waiting.mapped().local));
  }
  making_room_now_ = false;
  const auto due = places_.next_deadline();
  if (!due) return;
  making_room_.expires_after(std::max<Duration>(*due - client::boot_time(), Duration{0}));
  making_room_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled && !stopping_) make_room();
  });
}

void Proxy::Shell::close_silent(std::uint64_t number) {
  ++sums_.closed;
  tell(Cause::silent);
  places_.heard(number);  // it gives way once
  const auto found = connections_.find(number);
  if (found != connections_.end()) std::shared_ptr(found->second)->leave();
}

void Proxy::Shell::refuse(Cause cause, const std::string& detail) {
  ++sums_.refused;
  tell(cause, detail);
}

void Proxy::Shell::tell(Cause cause, const std::string& detail) {
  const TimePoint now = client::boot_time();
  Told& told = told_.at(static_cast<std::size_t>(cause));
  ++told.count;
  if (told.at && now - *told.at < kLinePause) return;
  say("proxy: " + line(cause, std::exchange(told.count, 0), detail));
  told.at = now;
}

std::string Proxy::Shell::line(Cause cause, std::uint64_t count, const std::string& detail) const {
  const std::size_t connected = connections_.size();
  switch (cause) {
    case Cause::full:
      return format("{} refused: {} are connected, limit {}", clients(count), connected,
                    limits::kProxyClients);
    case Cause::silent:
      return format(
          "{} closed, because others wait and it had sent nothing for {}: {} are "
          "connected, limit {}",
          clients(count), human(client::ProxyPlaces::kSilence), connected, limits::kProxyClients);
    case Cause::other_user:
      return format(
          "{} refused, the last one of uid {}: the proxy serves only uid {}, which has "
          "started it; run the client as that user, or start it with a proxy of its own "
          "(c10drun, c10dd://)",
          clients(count), detail, geteuid());
    case Cause::unclear:
      return format("{} refused, because the system does not tell which user it is: {}",
                    clients(count), detail);
    case Cause::gone:
      return format(
          "{} not served: it had closed its connection before the proxy could see which "
          "user it is; its messages are lost",
          clients(count));
    case Cause::no_descriptors:
      break;
  }
  return format(
      "cannot accept a connection: {}; {} are connected; raise the limit of open files "
      "(ulimit -n)",
      detail, connected);
}

/// Called when the local connection has ended, with the reason if the proxy has closed it, and when
/// the session has.
void Proxy::Shell::ended(const ProxiedConnection& one, const Failure* why) {
  if (why != nullptr) {
    ++sums_.closed;
    const auto pid = one.client().pid();
    say(format("proxy: closed the connection of {}: {}",
               pid ? format("process {}", *pid) : "a client", why->detail));
  }
  note_seen(one);
  if (!one.client().done()) return;
  const auto found = connections_.find(one.number());
  if (found == connections_.end()) return;
  if (const client::Core* core = one.client().core()) {
    sums_.reissued += core->stats(client::boot_time()).reissued;
  }
  asio::post(loop_, [kept = found->second] {});  // it is still in a call
  connections_.erase(found);
  places_.leave(one.number());
  if (stopping_) {
    if (connections_.empty()) loop_.stop();
    return;
  }
  make_room();
  clients_left_->set(connections_.empty() && waiting_.empty());
}

// ---- announcements -----------------------------------------------------------------------------

/// Announces an absence once for all clients.
void Proxy::Shell::announce() {
  if (!settings_.says_absences) return;
  const auto away =
      std::ranges::find_if(connections_, [](const auto& o) { return !o.second->is_served(); });
  const auto due = announcements_.next(away == connections_.end(), client::boot_time());
  if (due && due->to_people && due->connected) {
    say("proxy: connected to the daemon again after " + human(due->away));
  } else if (due && due->to_people && away != connections_.end()) {
    say("proxy: " + away->second->absence() + "; the clients wait");
  }
  const auto next = announcements_.due();
  if (!next || away == connections_.end()) return;
  announcing_.expires_after(std::max<Duration>(*next - client::boot_time(), Duration{0}));
  announcing_.async_wait([this](const ErrorCode& cancelled) {
    if (!cancelled) announce();
  });
}

// ---- counts ------------------------------------------------------------------------------------

ProxyCounts Proxy::Shell::count() const {
  ProxyCounts counts = sums_;
  counts.clients = connections_.size();
  for (const auto& [number, one] : connections_) {
    const client::ProxiedClient& client = one->client();
    counts.waits += client.waits() ? 1 : 0;
    counts.unanswered += client.unanswered();
    if (client.core()) counts.reissued += client.core()->stats(client::boot_time()).reissued;
  }
  return counts;
}

ProxyCounts Proxy::Shell::counts() {
  std::promise<ProxyCounts> told;
  auto counted = told.get_future();
  asio::post(loop_, [&] { told.set_value(count()); });
  return counted.get();
}

Proxy::Proxy(ProxySettings settings) {
  try {
    shell_ = std::make_unique<Shell>(std::move(settings));
  } catch (const boost::system::system_error& failed) {
    throw Error(Code::unavailable,
                "the proxy cannot open its file descriptors: " + failed.code().message() +
                    "; raise the limit of open files (ulimit -n)");
  }
  shell_->start();
}

Proxy::~Proxy() {
  if (shell_->forked()) {
    static_cast<void>(shell_.release());  // its thread does not exist here: leak it
    return;
  }
  shell_->stop();
}

std::uint16_t Proxy::port() const { return shell_->port(); }
ProxyCounts Proxy::counts() const { return shell_->counts(); }
std::shared_ptr<ClientsLeft> Proxy::clients_left() const { return shell_->clients_left(); }

}  // namespace c10dd::proxy
