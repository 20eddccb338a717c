// SPDX-License-Identifier: Apache-2.0
// Connection::State: runs Core with real time and real I/O. One mutex guards all state and is never
// held during a call that blocks. Only the connection's own thread opens and closes the socket. It
// reads, too, unless a caller waits for a reply: then that caller reads, for all, because waking
// another thread takes longer than the daemon's answer. connection_thread.cc has the I/O and the
// thread, connection.cc the calls.
#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/errors.h"
#include "client/internal/boot_time.h"
#include "client/internal/connection.h"
#include "client/internal/fork_guard.h"
#include "client/internal/socket.h"
#include "protocol/format.h"

namespace c10dd::client {

struct Connection::State {
  static constexpr std::size_t kReadBytes = 256 * 1024;

  /// The place for the reply that one caller waits for. Lives on the stack of that caller.
  struct Slot {
    std::condition_variable answered;
    std::optional<Reply> reply;
  };
  using Lock = std::unique_lock<std::mutex>;

  State(CoreOptions options, std::vector<Periodic> all, Announce announces,
        std::shared_ptr<Tls> with)
      : core(std::move(options), boot_time()),
        tls(std::move(with)),
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
  Result<Descriptor> connect(Lock& lock, Duration patience);
  Result<void> shake_hands_patiently(Lock& lock, TlsChannel& with, int on);
  void show_credential(Lock& lock);
  void wait_for_events(Lock& lock);
  void announce_if_due(Lock& lock, TimePoint now);
  void probe_server(Lock& lock, std::string_view probe);
  Reply call(Lock& lock, Request request, Duration limit, std::uint64_t* running = nullptr);
  void ask_caller(Lock& lock, std::uint64_t call);
  void run();

  mutable std::mutex mutex;
  Core core;
  const std::shared_ptr<Tls> tls;
  std::unique_ptr<TlsChannel> channel;  // of the socket; null: it is not encrypted
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

}  // namespace c10dd::client
