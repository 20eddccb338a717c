// SPDX-License-Identifier: Apache-2.0
// Tells the streams of a loop when their sockets can be read or written. Asks the kernel in an
// epoll of its own, level-triggered: a stream reads once for each event, and need not read again to
// find out that nothing is left, as it has to with Asio's edge-triggered reactor. One handler of
// the loop serves several sockets. Used on its loop only.
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

  /// What is called when a socket is ready. May remove any socket, also its own.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void on_readable() = 0;
    virtual void on_writable() = 0;
    /// The kernel has refused to watch the socket, for instance because it has no memory.
    virtual void on_refused(const boost::system::error_code& why) = 0;
  };

  enum Interest : std::uint32_t { nothing = 0, reading = EPOLLIN, writing = EPOLLOUT };

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
  /// Sets what the watcher waits for: a combination of Interest. An error or the end of the
  /// connection counts as all that it waits for.
  void want(Entry entry, std::uint32_t interest);
  void remove(Entry entry);

 private:
  struct Slot {
    Watcher* watcher = nullptr;  ///< null: the slot is free
    int socket = -1;
    std::uint32_t round = 0;  ///< how often the slot was used
    std::uint32_t wanted = 0;
    std::uint32_t armed = 0;  ///< what the kernel reports; contains `wanted`
  };

  void shutdown() override;
  void arm(std::uint32_t index, std::uint32_t events);
  void set_wanted(Slot& slot, std::uint32_t interest);
  void follow();
  void run();
  void serve(const epoll_event& event);
  Slot* slot_of(Entry entry);

  boost::asio::posix::stream_descriptor poll_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::array<epoll_event, 64> events_;  ///< of one turn of the loop
  std::size_t wanted_ = 0;              ///< sockets of which something is wanted
  bool waiting_ = false;                ///< the loop waits for poll_
  bool running_ = false;                ///< run() is running, or will be called again
  bool over_ = false;
};

}  // namespace c10dd::daemon
