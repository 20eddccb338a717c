// SPDX-License-Identifier: Apache-2.0
// Tells the streams of a loop when their sockets can be read or written. Asks the kernel in an
// epoll of its own, edge-triggered: each socket is registered once, and the kernel reports it only
// when bytes or room arrive, or the connection ends. With Asio's reactor, a stream must read until
// a read finds nothing. Here, a read that returns less than it asked for is the last one; see
// exhausted(). One handler of the loop serves several sockets. Not thread-safe: call it on the
// thread of its loop.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <vector>

namespace c10dd::daemon {

class SocketPoll final : public boost::asio::execution_context::service {
 public:
  using key_type = SocketPoll;  // NOLINT(readability-identifier-naming): Asio asks for it
  static boost::asio::execution_context::id id;

  /// The owner of a socket. A call reports that the socket is ready for what was wanted. It is not
  /// repeated until the watcher calls want() again. A call may remove any socket, also its own.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void on_readable() = 0;
    virtual void on_writable() = 0;
    /// The kernel has refused to watch the socket, for instance because it has no memory.
    virtual void on_refused(const boost::system::error_code& why) = 0;
  };

  /// What a watcher waits for, or what a socket is ready for: a combination of these.
  enum Readiness : std::uint32_t {
    nothing = 0,
    reading = EPOLLIN,
    writing = EPOLLOUT,
    /// The peer has ended or has sent urgent data, so a short read is not the last one. A watcher
    /// that wants `reading` is called.
    more = EPOLLRDHUP,
  };

  /// Identifies a socket that was added.
  struct Entry {
    std::uint32_t index = 0;
    std::uint32_t round = 0;
  };

  explicit SocketPoll(boost::asio::execution_context& loop);
  ~SocketPoll() override;

  /// Returns the object of a loop, which lives as long as the loop.
  static SocketPoll& of(boost::asio::io_context& loop);

  Entry add(int socket, Watcher& watcher);
  /// Sets what the watcher waits for: reading, writing, both or nothing. An error counts as both.
  void want(Entry entry, std::uint32_t interest);
  /// Takes back readiness. Call it with `reading` after a read that returned fewer bytes than it
  /// asked for, with `reading | more` after a read that would block, and with `writing` after a
  /// write that would block.
  void exhausted(Entry entry, std::uint32_t readiness);
  void remove(Entry entry);

 private:
  struct Slot {
    Watcher* watcher = nullptr;  ///< null: the slot is free
    int socket = -1;
    std::uint32_t round = 0;  ///< how often the slot was used
    std::uint32_t wanted = 0;
    std::uint32_t ready = 0;
    bool registered = false;  ///< the kernel reports what happens to the socket
    bool due = false;         ///< in due_

    /// Returns what is both wanted and ready.
    std::uint32_t to_report() const {
      return wanted & (ready | ((ready & more) != 0 ? std::uint32_t{reading} : 0));
    }
  };

  void shutdown() override;
  void register_socket(std::uint32_t index);
  void set_wanted(Slot& slot, std::uint32_t interest) {
    wanted_ += std::size_t{interest != 0} - std::size_t{slot.wanted != 0};
    slot.wanted = interest;
  }
  void follow();
  void run();
  int look();
  void serve_due();
  void serve(Entry entry);
  Slot* slot_of(Entry entry) {
    if (over_ || entry.index >= slots_.size()) return nullptr;
    Slot& slot = slots_[entry.index];
    return slot.watcher != nullptr && slot.round == entry.round ? &slot : nullptr;
  }

  boost::asio::posix::stream_descriptor poll_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<Entry> due_;      ///< sockets that were ready before something was wanted
  std::vector<Entry> serving_;  ///< those of due_ that serve_due() serves
  std::array<epoll_event, 64> events_;
  std::size_t wanted_ = 0;  ///< sockets of which something is wanted
  bool waiting_ = false;    ///< the loop waits for poll_
  bool running_ = false;    ///< run() is running, or will be called
  bool over_ = false;
};

}  // namespace c10dd::daemon
