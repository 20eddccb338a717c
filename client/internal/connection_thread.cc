// SPDX-License-Identifier: Apache-2.0
// The I/O of a Connection, and its thread.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal/connection_state.h"
#include "client/internal/encryption.h"

namespace c10dd::client {
namespace {

constexpr Duration kDialPatienceMin = std::chrono::milliseconds(500);
constexpr Duration kHandshakeSliceMin = std::chrono::milliseconds(100);
constexpr Duration kProbePatience = std::chrono::milliseconds(300);
constexpr Duration kWaitMax = std::chrono::seconds(1);

timespec to_timespec(Duration wait) {
  return {wait / std::chrono::seconds(1), (wait % std::chrono::seconds(1)).count()};
}

}  // namespace

void Connection::State::signal(const Descriptor& event) {
  const std::uint64_t one = 1;
  // The write fails only if the counter is full. The descriptor is readable in that case, too.
  static_cast<void>(!write(event.get(), &one, sizeof one));
}

void Connection::State::drain(const Descriptor& event) {
  std::uint64_t count = 0;
  static_cast<void>(!read(event.get(), &count, sizeof count));
}

/// Tells the system for which events of the socket to wake the thread. It may wait meanwhile.
void Connection::State::set_interest() {
  std::uint32_t wanted = 0;
  if (socket && reader == nullptr) wanted |= EPOLLIN;
  if (socket && waits_for_room) wanted |= EPOLLOUT;
  if (wanted == interest) return;
  const int operation = interest == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  epoll_event events{wanted, {.fd = socket.get()}};
  C10DD_ASSERT(epoll_ctl(poll_fd.get(), operation, socket.get(), &events) == 0);
  interest = wanted;
}

/// Closes the socket, when no caller reads any more.
void Connection::State::drop_socket(Lock& lock) {
  while (reader != nullptr) {
    signal(reader_fd);
    reader_gone.wait(lock);
  }
  // A forked child may have the socket, too: then the system does not forget it by itself.
  if (interest != 0) epoll_ctl(poll_fd.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  interest = 0;
  channel.reset();
  socket = Descriptor();
}

/// Hands replies to their callers.
void Connection::State::settle() {
  for (Completion& done : core.take_completions()) {
    if (periodics.take(done) && socket) wake();  // without a socket, the thread wakes up soon
    const auto it = slots.find(done.call);
    if (it == slots.end()) continue;
    it->second->reply = std::move(done.reply);
    it->second->answered.notify_one();
    if (it->second == reader) signal(reader_fd);
    slots.erase(it);
  }
  if (core.open() || core.over()) changed.notify_all();
}

/// Writes as much as the socket takes now.
void Connection::State::write_some() {
  while (socket && core.wants_socket() && has_output(core, channel.get())) {
    const Result<std::string_view> out = to_send(core, channel.get());
    if (!out) return core.closed("connection lost: " + out.error().detail, boot_time());
    const ssize_t n = send(socket.get(), out->data(), out->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return;  // the connection's thread sees the same error
    sent(core, channel.get(), n < 0 ? 0 : static_cast<std::size_t>(n));
    if (n < 0) break;
  }
}

/// Writes as much as the socket takes now. The connection's thread writes the rest later.
void Connection::State::flush() {
  write_some();
  if (socket && has_output(core, channel.get()) && !waits_for_room) wake();
}

void Connection::State::read_some(Lock& lock) {
  lock.unlock();
  const ssize_t n = recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  const int error = errno;
  lock.lock();
  if (n > 0) {
    received(core, channel.get(), buffer, static_cast<std::size_t>(n));
  } else if (n == 0) {
    core.closed("it closed the connection", boot_time());
  } else if (error != EAGAIN && error != EINTR) {
    core.closed("connection lost: " + error_text(error), boot_time());
  }
}

/// Reads the credential again, and shows it to the daemon. If it cannot be read, the daemon ends
/// the session when the old one has expired.
void Connection::State::show_credential(Lock& lock) {
  lock.unlock();
  Result<std::string> token = tls ? tls->token() : std::string();
  lock.lock();
  core.show(token ? *token : core.credential(), boot_time());
  flush();
}

/// Shakes hands. The daemon may have many others to serve first, so announcements that become due
/// meanwhile are made. Called without the lock.
Result<void> Connection::State::shake_hands_patiently(Lock& lock, TlsChannel& with, int on) {
  const TimePoint begun = boot_time();
  while (true) {
    lock.lock();
    const TimePoint now = boot_time();
    announce_if_due(lock, now);
    const Duration patience = core.handshake_patience();
    const TimePoint due = announcements.due().value_or(TimePoint::max());
    const TimePoint until = std::min(begun + patience, std::max(due, now + kHandshakeSliceMin));
    lock.unlock();
    const Result<bool> done = shake_hands(with, on, wake_fd.get(), until - now);
    if (!done) return done.error();
    if (*done) return {};
    if (boot_time() >= begun + patience) return handshake_too_slow(patience);
  }
}

/// Connects to the daemon, and shakes hands if the client encrypts.
Result<Descriptor> Connection::State::connect(Lock& lock, Duration patience) {
  const std::string address = core.address();
  lock.unlock();
  Result<Tls::Begun> begun = tls ? tls->begin(address) : Tls::Begun{};
  Result<Descriptor> made =
      begun ? dial(address, wake_fd.get(), patience) : Result<Descriptor>(begun.error());
  if (made && begun->channel) {
    const Result<void> done = shake_hands_patiently(lock, *begun->channel, made->get());
    if (!done) {
      made = failure(done.error().code, "no TLS connection to the daemon at {}: {}", address,
                     done.error().detail);
    }
  }
  lock.lock();
  if (!made || !tls) return made;
  core.show(std::move(begun->token), boot_time());
  channel = std::move(begun->channel);
  return made;
}

void Connection::State::make_connection(Lock& lock) {
  // The attempt must end before the next announcement is due: otherwise a machine that drops all
  // packets would delay the announcement.
  const Duration until_due = announcements.due().value_or(TimePoint::max()) - boot_time();
  const Duration patience = std::clamp(until_due, kDialPatienceMin, core.connect_patience());
  core.dialling();
  drain_wake();  // after this point a wake() interrupts the attempt
  if (stop) return;
  Result<Descriptor> made = connect(lock, patience);
  if (!made) return core.dial_failed(made.error(), boot_time());
  socket = std::move(*made);
  core.connected(boot_time(), peer_is_elsewhere(socket.get()));
}

void Connection::State::wait_for_events(Lock& lock) {
  const TimePoint now = boot_time();
  TimePoint until = core.next_deadline().value_or(now + kWaitMax);
  if (core.open() && !closing) until = std::min(until, periodics.due());
  for (const auto& due : {announcements.due(), core.probe_at()})
    until = std::min(until, due.value_or(until));
  // ppoll does not count the time while the machine is suspended. The waits are short, so that a
  // deadline is missed by at most kWaitMax.
  const timespec limit = to_timespec(std::clamp<Duration>(until - now, Duration::zero(), kWaitMax));
  waits_for_room = socket && has_output(core, channel.get());
  set_interest();
  pollfd polled{poll_fd.get(), POLLIN, 0};
  lock.unlock();
  ppoll(&polled, 1, &limit, nullptr);
  lock.lock();
  waits_for_room = false;
  epoll_event events[2];
  const int count = epoll_wait(poll_fd.get(), events, std::size(events), 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.fd == wake_fd.get()) {
      drain_wake();
    } else if (reader == nullptr && (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
      // Only this thread closes the socket, so `socket` is still the one that was polled.
      thread_reads = true;
      read_some(lock);
      thread_reads = false;
    }
  }
}

/// Reads the socket in place of the thread, until bytes have come or `own` has its reply, for at
/// most `wait`.
void Connection::State::read_for_all(Lock& lock, Slot& own, Duration wait) {
  reader = &own;
  set_interest();
  pollfd polled[] = {{socket.get(), POLLIN, 0}, {reader_fd.get(), POLLIN, 0}};
  const timespec limit = to_timespec(wait);
  lock.unlock();
  ppoll(polled, std::size(polled), &limit, nullptr);
  lock.lock();
  if (polled[1].revents != 0) drain(reader_fd);
  if (polled[0].revents != 0 && core.wants_socket()) read_some(lock);
  reader = nullptr;
  reader_gone.notify_all();
  set_interest();
  flush();
  settle();
  if (!core.wants_socket()) wake();  // the thread closes it
}

void Connection::State::announce_if_due(Lock& lock, TimePoint now) {
  const bool over = core.over().has_value();
  if (closing || (over && !announcements.connected())) return;
  const auto due = announcements.next(core.open(), now);
  if (!due || !announce) return;
  const std::string daemon = core.address();
  std::string absence;
  if (!core.open()) absence = over ? core.over()->detail : core.absence(now);
  lock.unlock();
  announce(*due, daemon, absence);
  lock.lock();
}

void Connection::State::probe_server(Lock& lock, std::string_view probe) {
  const std::string address = core.address();
  lock.unlock();
  const std::string reply = first_words(address, probe, wake_fd.get(), kProbePatience);
  lock.lock();
  core.probed(reply);
}

void Connection::State::run() {
  Lock lock(mutex);
  while (!stop) {
    const TimePoint now = boot_time();
    core.tick(now);
    settle();  // first, because run() and drop_socket() let callers run
    periodics.run(lock, core, closing);
    settle();
    if (!core.wants_socket() && socket) drop_socket(lock);
    write_some();  // not flush(), which would wake this thread until there is room
    settle();
    announce_if_due(lock, now);
    if (core.wants_credential(now)) show_credential(lock);
    const std::optional<TimePoint> dial_at = core.dial_at();
    if (const std::string_view probe = core.probe(now); !probe.empty()) {
      probe_server(lock, probe);
    } else if (dial_at && *dial_at <= now) {
      make_connection(lock);
    } else {
      wait_for_events(lock);
    }
  }
  periodics.run(lock, core, closing);  // passes on the last replies
  drop_socket(lock);
}

}  // namespace c10dd::client
