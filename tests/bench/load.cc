// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/load.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>

#include "tests/bench/line.h"
#include "tests/bench/servers.h"

namespace c10dd::bench {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

struct Connection {
  explicit Connection(const Target& target, unsigned number)
      : line(target.addresses[number % target.addresses.size()]),
        conversation(target.converse(number)) {}

  Line line;
  std::unique_ptr<Conversation> conversation;
  Bytes out;  // that the kernel had no room for
  bool waits_for_room = false;
  unsigned open = 0;  // requests
  std::array<std::int64_t, Conversation::kTickets> sent_at{};
};

class Load {
 public:
  Load(const Target& target, const LoadOptions& options)
      : options_(options), process_(target.process), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (epoll_.get() < 0) fail_with_errno("epoll_create1");
    for (unsigned i = 0; i < options.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(target, i));
      converse(*connections_.back(), &Conversation::opening);
      connections_.back()->line.set_blocking(false);
      watch(*connections_.back(), EPOLL_CTL_ADD, EPOLLIN);
    }
  }

  Measurement run() {
    const std::int64_t start = now_ns();
    warm_until_ = start + nanoseconds(options_.warm_up_seconds);
    until_ = warm_until_ + nanoseconds(options_.seconds);
    for (const auto& connection : connections_) fill(*connection);
    while (open_ > 0) turn();
    for (const auto& connection : connections_) {
      connection->line.set_blocking(true);
      converse(*connection, &Conversation::closing);
    }
    return std::move(measured_);
  }

 private:
  /// The opening or the closing, message by message.
  static void converse(Connection& connection, bool (Conversation::*say)(unsigned, Bytes&)) {
    Bytes out;
    for (unsigned step = 0; (connection.conversation.get()->*say)(step, out); ++step) {
      connection.line.send(out);
      out.clear();
      connection.line.receive(1, [&](std::string_view in) {
        const std::size_t taken = connection.conversation->take(in).bytes;
        Bytes own;
        connection.conversation->respond(own);
        connection.line.send(own);
        return taken;
      });
    }
  }

  void watch(Connection& connection, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &connection;
    if (::epoll_ctl(epoll_.get(), operation, connection.line.descriptor(), &event) != 0) {
      fail_with_errno("epoll_ctl");
    }
  }

  void turn() {
    constexpr auto kPatienceMs = std::chrono::milliseconds(kPatience).count();
    std::array<epoll_event, 256> events;
    const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(kPatienceMs));
    throw_if_interrupted();
    if (ready < 0 && errno != EINTR) fail_with_errno("epoll_wait");
    if (ready == 0) {
      throw std::runtime_error("no reply for " + std::to_string(kPatience.count()) + " s, " +
                               std::to_string(open_) + " requests are open");
    }
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (events[static_cast<std::size_t>(i)].events & EPOLLOUT) push(connection);
      if (events[static_cast<std::size_t>(i)].events & ~EPOLLOUT) pull(connection);
    }
  }

  /// Reads what there is, takes the replies, sends as many requests.
  void pull(Connection& connection) {
    const ssize_t length = ::recv(connection.line.descriptor(), buffer_.data(), buffer_.size(), 0);
    const std::int64_t now = now_ns();
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (length < 0) fail_with_errno("receive");
    if (length == 0) throw std::runtime_error("the server closed a connection under load");
    if (measured_from_ == 0 && now >= warm_until_) {
      measured_from_ = now;
      measured_.cpu_seconds = -cpu_seconds(process_);
    }
    std::string_view in =
        connection.line.decrypted({buffer_.data(), static_cast<std::size_t>(length)});
    Bytes& begun = connection.line.input();  // a reply that is not complete
    if (!begun.empty()) in = begun.append(in);
    std::size_t used = 0;
    while (used < in.size()) {
      const Conversation::Taken taken = connection.conversation->take(in.substr(used));
      if (taken.bytes == 0) break;
      used += taken.bytes;
      --connection.open;
      --open_;
      const std::int64_t sent = connection.sent_at[taken.ticket % Conversation::kTickets];
      if (measured_from_ != 0 && !over_) measured_.latency.add(now - sent);
    }
    begun = Bytes(in.substr(used));
    const std::size_t plain = connection.out.size();
    connection.conversation->respond(connection.out);
    connection.line.encrypt(connection.out, plain);
    if (now >= until_ && now > measured_from_ && !over_) {
      over_ = true;
      measured_.cpu_seconds += cpu_seconds(process_);
      measured_.seconds = static_cast<double>(now - measured_from_) * 1e-9;
    }
    if (!over_) fill(connection);
    if (over_ && !connection.waits_for_room) push(connection);
  }

  void fill(Connection& connection) {
    const std::int64_t now = now_ns();
    const std::size_t plain = connection.out.size();
    while (connection.open < options_.depth && connection.conversation->may_request()) {
      const std::uint64_t ticket = connection.conversation->request(connection.out);
      connection.sent_at[ticket % Conversation::kTickets] = now;
      ++connection.open;
      ++open_;
    }
    connection.line.encrypt(connection.out, plain);
    if (!connection.waits_for_room) push(connection);
  }

  void push(Connection& connection) {
    std::string_view left = connection.out;
    while (!left.empty()) {
      const ssize_t sent =
          ::send(connection.line.descriptor(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) break;
      if (sent < 0) fail_with_errno("send");
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
    connection.out.erase(0, connection.out.size() - left.size());
    const bool waits = !connection.out.empty();
    if (waits == connection.waits_for_room) return;
    connection.waits_for_room = waits;
    watch(connection, EPOLL_CTL_MOD, waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  LoadOptions options_;
  pid_t process_;
  Descriptor epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<char> buffer_ = std::vector<char>(256 * 1024);
  std::uint64_t open_ = 0;
  std::int64_t warm_until_ = 0;
  std::int64_t until_ = 0;
  std::int64_t measured_from_ = 0;
  bool over_ = false;
  Measurement measured_;
};

}  // namespace

Measurement run_load(const Target& target, const LoadOptions& options) {
  return Load(target, options).run();
}

}  // namespace c10dd::bench
