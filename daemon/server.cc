// SPDX-License-Identifier: Apache-2.0
// Start, turn, drain. Exit codes: 0 drained; 64 bad option; 69 engine not reachable; 73 state
// directory not usable; 75 address or state directory held by another process; 78 state that this
// program must not open.
#include "daemon/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "daemon/version.h"

namespace c10dd::daemon {
namespace {

constexpr int kTurnHandlers = 256;  // per turn, so that answers leave under constant load

int exit_code(Code code) {
  switch (code) {
    case Code::unavailable:
      return 75;
    case Code::permission_denied:
      return 73;
    case Code::malformed:
    case Code::version_unsupported:
      return 78;
    case Code::not_owner:
    case Code::internal:
      return 69;
    default:
      return 64;
  }
}

/// Tells systemd, where it asked for that: one datagram to $NOTIFY_SOCKET.
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

Server::Server(Options options) : options_(std::move(options)) {}
Server::~Server() = default;

Result<void> Server::start() {
  listener_ = std::make_unique<Listener>(loop_, *this);
  renderer_ = std::make_unique<asio::thread_pool>(1);
  // The address first: two daemons of one configuration then disagree about the port, which is
  // what the operator sees; nothing is answered before the loop turns.
  if (Result<void> bound = listener_->open(options_.listen_host, options_.listen_port); !bound) {
    return bound;
  }
  Result<std::unique_ptr<store::Engine>> engine =
      store::open_engine(options_.engine, options_.durability);
  if (!engine) return engine.error();
  metrics_ = std::make_unique<Metrics>(
      MetricsInfo{kVersion, std::string((*engine)->name()), std::string((*engine)->durability())});
  shard_ = std::make_unique<Shard>(loop_, *metrics_, options_.engine, options_.durability);
  return shard_->adopt(std::move(*engine));
}

int Server::run() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  if (const Result<void> started = start(); !started) {
    std::fprintf(stderr, "c10dd: %s\n", started.error().detail.c_str());
    return exit_code(started.error().code);
  }
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const ErrorCode& failed, int) {
    if (!failed) drain();
  });
  std::printf("listening on %s\n", listener_->address().c_str());
  std::fflush(stdout);
  spdlog::info("event=serving version={} listen={} engine={} durability={} pid={}", kVersion,
               listener_->address(), shard_->engine_name(), shard_->durability(), ::getpid());
  metrics_->ready(true);
  notify("READY=1");
  while (!stopped_) turn();
  shard_.reset();  // finishes the rounds that were submitted
  renderer_->join();
  spdlog::info("event=stopped");
  return 0;
}

void Server::turn() {
  loop_.run_one();
  for (int i = 0; i < kTurnHandlers && loop_.poll_one() > 0; ++i) {
  }
  shard_->end_turn();
}

/// Accepts nothing new, lets held answers leave, then stops. A second signal stops at once.
void Server::drain() {
  draining_ = true;
  metrics_->ready(false);
  notify("STOPPING=1");
  spdlog::info("event=draining held={}", shard_->unfinished());
  listener_->close();
  signals_.async_wait([this](const ErrorCode& failed, int) {
    if (!failed) stopped_ = true;
  });
  const auto timer = std::make_shared<asio::steady_timer>(loop_);
  const auto deadline = std::chrono::steady_clock::now() + options_.drain_timeout;
  const auto poll = [this, timer, deadline](auto& self) -> void {
    if (shard_->unfinished() == 0 || std::chrono::steady_clock::now() >= deadline) {
      stopped_ = true;
      return;
    }
    timer->expires_after(std::chrono::milliseconds(10));
    timer->async_wait([self](const ErrorCode&) mutable { self(self); });
  };
  poll(poll);
}

std::string Server::not_ready() const {
  return draining_ ? "the daemon is shutting down" : shard_->not_ready();
}

asio::awaitable<std::string> Server::metrics_text() {
  shard_->publish();
  co_return co_await asio::co_spawn(
      *renderer_,
      [metrics = metrics_.get()]() -> asio::awaitable<std::string> { co_return metrics->render(); },
      asio::use_awaitable);
}

}  // namespace c10dd::daemon
