// SPDX-License-Identifier: Apache-2.0
#include "client/proxy/proxy.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "client/core/announcements.h"
#include "client/errors.h"
#include "client/internal/boot_time.h"
#include "client/internal/fork_guard.h"
#include "client/internal/start_thread.h"
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
constexpr std::chrono::seconds kRefusedPause{10};
constexpr std::chrono::milliseconds kAcceptAgain{100};  // after a failure, such as no descriptor

}  // namespace

/// Everything but the constructor, the destructor and counts() runs on the thread of the proxy.
class Proxy::Shell {
 public:
  explicit Shell(ProxySettings settings)
      : settings_(std::move(settings)),
        acceptor_(loop_),
        again_(loop_),
        announcing_(loop_),
        announcements_(client::boot_time()),
        shared_{loop_,
                look_ups_,
                Bytes(kReadBytes, '\0'),
                client::tls_of(settings_.credentials),
                [this](const ProxiedConnection& one, const Failure* why) { ended(one, why); },
                [this] { announce(); }} {}

  void start();
  void stop();
  bool forked() const { return home_.forked(); }
  std::uint16_t port() const { return port_; }
  ProxyCounts counts();

 private:
  void accept();
  void serve(Tcp::socket local);
  void ended(const ProxiedConnection& one, const Failure* why);
  void announce();
  void say_refused();
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
  asio::steady_timer again_;
  asio::steady_timer announcing_;
  client::Announcements announcements_;
  ProxyLoop shared_;
  std::set<std::shared_ptr<ProxiedConnection>> connections_;
  Stamp seen_;  ///< the newest of all clients
  ProxyCounts sums_;
  std::uint64_t refused_told_ = 0;  ///< of sums_.refused
  TimePoint refused_at_;            ///< when people were told
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
    for (const auto& one : std::set(connections_)) one->leave();
    if (connections_.empty()) return loop_.stop();
    again_.expires_after(kGoodbye);
    again_.async_wait([this](const ErrorCode&) {
      for (const auto& one : std::set(connections_)) one->drop();
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
    if (!failed) {
      serve(std::move(local));
      return accept();
    }
    again_.expires_after(kAcceptAgain);
    again_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled && !stopping_) accept();
    });
  });
}

void Proxy::Shell::serve(Tcp::socket local) {
  if (connections_.size() >= limits::kProxyClients) {
    ++sums_.refused;
    return say_refused();
  }
  ++sums_.accepted;
  client::CoreOptions options;
  options.addresses = settings_.daemons;
  options.seed = random_number();
  options.hello.session = {random_number(), random_number()};
  options.hello.job = settings_.job;
  options.hello.run = settings_.run;
  options.hello.host = settings_.host;
  // A daemon that has lost its state must not serve an empty store to a later client.
  for (const auto& other : connections_) note_seen(*other);
  options.hello.seen = seen_;
  const auto one = std::make_shared<ProxiedConnection>(shared_, std::move(local),
                                                       std::move(options), settings_.legacy);
  connections_.insert(one);
  one->start();
}

/// Says how many clients were refused, at most once in kRefusedPause: clients try again and again.
void Proxy::Shell::say_refused() {
  const TimePoint now = client::boot_time();
  if (refused_told_ != 0 && now - refused_at_ < kRefusedPause) return;
  say(format("proxy: {} clients were refused: {} are connected, limit {}",
             sums_.refused - refused_told_, connections_.size(), limits::kProxyClients));
  refused_told_ = sums_.refused;
  refused_at_ = now;
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
  const auto found =
      std::ranges::find_if(connections_, [&](const auto& o) { return o.get() == &one; });
  if (found == connections_.end()) return;
  if (const client::Core* core = one.client().core()) {
    sums_.reissued += core->stats(client::boot_time()).reissued;
  }
  asio::post(loop_, [kept = *found] {});  // it is still in a call
  connections_.erase(found);
  if (stopping_ && connections_.empty()) loop_.stop();
}

// ---- announcements -----------------------------------------------------------------------------

/// Announces an absence once for all clients.
void Proxy::Shell::announce() {
  if (!settings_.says_absences) return;
  const auto away =
      std::ranges::find_if(connections_, [](const auto& o) { return !o->is_served(); });
  const auto due = announcements_.next(away == connections_.end(), client::boot_time());
  if (due && due->to_people && due->connected) {
    say("proxy: connected to the daemon again after " + human(due->away));
  } else if (due && due->to_people && away != connections_.end()) {
    say("proxy: " + (*away)->absence() + "; the clients wait");
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
  for (const auto& one : connections_) {
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

}  // namespace c10dd::proxy
