// SPDX-License-Identifier: Apache-2.0
// Tells the streams of a loop when their sockets can be read or written. Asks the kernel in an
// epoll of its own, edge-triggered: a socket is registered once, and the kernel looks at it only
// when something happens to it. A stream that has read less than it asked for need not read again
// to find out that nothing is left, as it has to with Asio's reactor: see exhausted(). One handler
// of the loop serves several sockets. Used on its loop only.
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
  using key_type = SocketPoll;
  static boost::asio::execution_context::id id;

  /// What is called when a socket is ready for what is wanted: once, then the watcher must call
  /// want() again. May remove any socket, also its own.
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
    ended = EPOLLRDHUP,  ///< the peer sends no more; wakes who waits for reading
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
  /// Says what the socket is not ready for any more. A read that got some bytes, but less than it
  /// asked for, has exhausted `reading`, though an end may follow; a read that would block,
  /// `reading` and `ended`; a write that would block, `writing`.
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

    /// Returns what is wanted, and the socket is ready for it.
    std::uint32_t now() const {
      return wanted & (ready | ((ready & ended) != 0 ? std::uint32_t{reading} : 0));
    }
  };

  void shutdown() override;
  void enter(std::uint32_t index);
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
