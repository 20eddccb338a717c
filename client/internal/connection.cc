// SPDX-License-Identifier: Apache-2.0
// Runs Core with real time and real I/O. One mutex guards all state and is never held during a call
// that blocks. Only the connection's own thread opens and closes the socket. It reads, too, unless
// a caller waits for a reply: then that caller reads, for all, because waking another thread takes
// longer than the daemon's answer.
#include "client/internal/connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "client/internal/boot_time.h"
#include "client/internal/caller.h"
#include "client/internal/fork_guard.h"
#include "client/internal/socket.h"
#include "client/internal/start_thread.h"
#include "protocol/format.h"
#include "protocol/ops.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr Duration kDialPatienceMin = std::chrono::milliseconds(500);
constexpr Duration kProbePatience = std::chrono::milliseconds(300);
constexpr Duration kWaitMax = std::chrono::seconds(1);
constexpr std::size_t kReadBytes = 256 * 1024;

timespec to_timespec(Duration wait) {
  return {wait / std::chrono::seconds(1), (wait % std::chrono::seconds(1)).count()};
}

/// Returns whether a thread that waits for nothing else makes this request. Its caller does not
/// read: it would read for hours, and the others' replies would take the longer way.
bool is_long_poll(const Request& request) {
  return std::holds_alternative<WatchGroup>(request) || std::holds_alternative<Watch>(request);
}

Failure closed_failure() { return failure(Code::closed, "the client was closed"); }

}  // namespace

struct Connection::State {
  /// The place for the reply that one caller waits for. Lives on the stack of that caller.
  struct Slot {
    std::condition_variable answered;
    std::optional<Reply> reply;
  };
  using Lock = std::unique_lock<std::mutex>;

  State(CoreOptions options, std::vector<Periodic> all, Announce announces)
      : core(std::move(options), boot_time()),
        announcements(boot_time()),
        periodics(std::move(all)),
        announce(std::move(announces)),
        wake_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        reader_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        poll_fd(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event readable{EPOLLIN, {.fd = wake_fd.get()}};
    if (!wake_fd || !reader_fd || !poll_fd ||
        epoll_ctl(poll_fd.get(), EPOLL_CTL_ADD, wake_fd.get(), &readable) != 0) {
      throw Error(Code::unavailable,
                  format("the client cannot open a file descriptor: {}; close some, or raise the "
                         "limit (ulimit -n)",
                         error_text(errno)));
    }
  }

  bool forked() const { return home.forked(); }
  void require_home() const { home.require("client", "connect again"); }
  void wake() { signal(wake_fd); }
  void drain_wake() { drain(wake_fd); }
  static void signal(const Descriptor& event);
  static void drain(const Descriptor& event);
  void set_interest();
  void drop_socket(Lock& lock);
  void read_for_all(Lock& lock, Slot& own, Duration wait);
  void settle();
  void write_some();
  void flush();
  void read_some(Lock& lock);
  void make_connection(Lock& lock);
  void wait_for_events(Lock& lock);
  void announce_if_due(Lock& lock, TimePoint now);
  void probe_server(Lock& lock, std::string_view probe);
  Reply call(Lock& lock, Request request, Duration limit, std::uint64_t* running = nullptr);
  void ask_caller(Lock& lock, std::uint64_t call);
  void run();

  mutable std::mutex mutex;
  Core core;
  Announcements announcements;
  Periodics periodics;
  Announce announce;
  Descriptor wake_fd;
  Descriptor reader_fd;  // wakes the caller that reads
  Descriptor poll_fd;    // what the thread waits for: wake_fd, and the socket as `interest` says
  Descriptor socket;
  std::uint32_t interest = 0;
  const Slot* reader = nullptr;  // of the caller that reads; null: the thread reads
  std::condition_variable reader_gone;
  bool thread_reads = false;  // the thread is in read_some()
  std::map<std::uint64_t, Slot*> slots;
  std::condition_variable changed;  // core.open() or core.over()
  bool closing = false;             // refuse calls from outside
  bool stop = false;                // end the thread
  bool waits_for_room = false;      // the thread polls the socket for room (POLLOUT)
  Bytes buffer = Bytes(kReadBytes, '\0');
  const HomeProcess home;
  std::thread thread;
};

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
  while (socket && core.wants_socket() && !core.output().empty()) {
    const std::string_view out = core.output();
    const ssize_t n = send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return;  // the connection's thread sees the same error
    core.written(n < 0 ? 0 : static_cast<std::size_t>(n), boot_time());
    if (n < 0) break;
  }
}

/// Writes as much as the socket takes now. The connection's thread writes the rest later.
void Connection::State::flush() {
  write_some();
  if (socket && !core.output().empty() && !waits_for_room) wake();
}

void Connection::State::read_some(Lock& lock) {
  lock.unlock();
  const ssize_t n = recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  const int error = errno;
  lock.lock();
  if (n > 0) {
    core.received({buffer.data(), static_cast<std::size_t>(n)}, boot_time());
  } else if (n == 0) {
    core.closed("it closed the connection", boot_time());
  } else if (error != EAGAIN && error != EINTR) {
    core.closed("connection lost: " + error_text(error), boot_time());
  }
}

void Connection::State::make_connection(Lock& lock) {
  const std::string address = core.address();
  // The attempt must end before the next announcement is due: otherwise a machine that drops all
  // packets would delay the announcement.
  const Duration until_due = announcements.due().value_or(TimePoint::max()) - boot_time();
  const Duration patience = std::clamp(until_due, kDialPatienceMin, core.connect_patience());
  core.dialling();
  drain_wake();  // after this point a wake() interrupts the attempt
  if (stop) return;
  lock.unlock();
  Result<Descriptor> made = dial(address, wake_fd.get(), patience);
  lock.lock();
  if (made) {
    socket = std::move(*made);
    core.connected(boot_time(), peer_is_elsewhere(socket.get()));
  } else {
    core.closed(made.error().detail, boot_time(), made.error().code == Code::not_found);
  }
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
  waits_for_room = socket && !core.output().empty();
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

/// Ends a call whose caller does not go on.
void Connection::State::ask_caller(Lock& lock, std::uint64_t call) {
  lock.unlock();
  const bool goes_on = caller_goes_on();
  lock.lock();
  if (goes_on) return;
  core.fail_call(call, ended_by_caller(), boot_time());
  flush();
  settle();
}

/// Sends the request and blocks until its reply. Stores the id of the call in `running`.
Reply Connection::State::call(Lock& lock, Request request, Duration limit, std::uint64_t* running) {
  Slot slot;
  const bool may_read = !is_long_poll(request);
  const std::uint64_t id = core.call(std::move(request), limit, boot_time());
  slots.emplace(id, &slot);
  if (running != nullptr) *running = id;
  flush();
  settle();
  const Duration ask_every = until_asked(Duration::max());  // max if nobody is to be asked
  TimePoint asked = boot_time();
  while (!slot.reply) {
    // The caller watches its own deadline, because the connection's thread may be busy with an
    // attempt to connect.
    const std::optional<TimePoint> deadline = core.deadline_of(id);
    C10DD_ASSERT(deadline.has_value());
    const TimePoint now = boot_time();
    if (now - asked >= ask_every) {
      asked = now;
      ask_caller(lock, id);
      continue;
    }
    if (*deadline > now) {
      const Duration wait = std::min<Duration>(*deadline - now, ask_every - (now - asked));
      const bool reads = may_read && reader == nullptr && !thread_reads && socket && core.open();
      if (reads) {
        read_for_all(lock, slot, wait);
      } else {
        slot.answered.wait_for(lock, wait);
      }
      continue;
    }
    const bool had_socket = core.wants_socket();
    core.tick(now);
    settle();
    if (had_socket && !core.wants_socket()) wake();  // the thread closes it
  }
  return std::move(*slot.reply);
}

// ---- the public half ---------------------------------------------------------------------------

Connection::Connection(CoreOptions options, std::vector<Periodic> periodics, Announce announce)
    : state_(
          std::make_unique<State>(std::move(options), std::move(periodics), std::move(announce))) {
  state_->thread = start_thread("client", [state = state_.get()] { state->run(); });
}

Connection::~Connection() {
  if (state_->forked()) {
    // In a forked process the thread does not exist, and the mutex may be locked for ever. So
    // `state_` cannot be destroyed and is leaked.
    static_cast<void>(state_.release());
    return;
  }
  close({}, Duration::zero());
}

void Connection::close(std::vector<Request> last_calls, Duration patience) {
  if (state_->forked()) return;
  State& s = *state_;
  {
    State::Lock lock(s.mutex);
    if (std::exchange(s.closing, true)) return;
    // End the pending calls first, so that they do not delay the requests in `last_calls`.
    s.core.fail_calls(closed_failure());
    s.settle();
    if (s.core.stats(boot_time()).connects == 0) last_calls.clear();
    for (Request& request : last_calls)
      static_cast<void>(s.call(lock, std::move(request), patience));
    s.core.finish(closed_failure(), boot_time());
    s.settle();
    s.stop = true;
    s.wake();
  }
  s.thread.join();  // not under the mutex: the thread must lock it to end
}

Result<void> Connection::wait_open(Duration patience) {
  state_->require_home();
  State& s = *state_;
  State::Lock lock(s.mutex);
  const auto settled = [&] { return s.core.open() || s.core.over(); };
  const Waited waited = wait_until(lock, s.changed, boot_time() + patience, settled);
  if (waited == Waited::ended_by_caller) return ended_by_caller();
  if (s.core.open()) return {};
  if (s.core.over()) return *s.core.over();
  return failure(Code::timed_out, "no session within {}: {}; check the daemon and the URL",
                 human(patience), s.core.absence(boot_time()));
}

Reply Connection::call(Request request, Duration limit, Recall* recall) {
  state_->require_home();
  State::Lock lock(state_->mutex);
  if (state_->closing) return closed_failure();
  limit = call_limit(limit);
  if (recall == nullptr) return state_->call(lock, std::move(request), limit);
  if (recall->reason_) return *recall->reason_;
  return state_->call(lock, std::move(request), limit, &recall->call_);
}

void Connection::post(Request request, Duration limit) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  if (state_->closing) return;
  state_->core.call(std::move(request), limit, boot_time());
  state_->flush();
  state_->settle();
}

void Connection::send_heartbeats(Duration limit) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  state_->core.send_heartbeats(limit, boot_time());
  state_->wake();
}

Duration Connection::heartbeat_limit() const {
  if (state_->forked()) return Duration::max();
  const State::Lock lock(state_->mutex);
  return state_->core.heartbeat_limit();
}

Duration Connection::since_confirmed() const {
  if (state_->forked()) return Duration::zero();
  const State::Lock lock(state_->mutex);
  return boot_time() - state_->core.last_confirmed();
}

void Connection::recall(Recall& recall, Failure reason) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  if (recall.reason_) return;
  recall.reason_ = std::move(reason);
  state_->core.fail_call(recall.call_, *recall.reason_, boot_time());
  state_->flush();
  state_->settle();
}

bool Connection::open() const {
  if (state_->forked()) return false;
  const State::Lock lock(state_->mutex);
  return state_->core.open();
}

std::string Connection::address() const {
  if (state_->forked()) return {};
  const State::Lock lock(state_->mutex);
  return state_->core.address();
}

CoreStats Connection::stats() const {
  if (state_->forked()) return {};
  const State::Lock lock(state_->mutex);
  return state_->core.stats(boot_time());
}

}  // namespace c10dd::client
