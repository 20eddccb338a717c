// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/socket_poll.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>
#include <utility>

namespace c10dd::daemon {

namespace asio = boost::asio;

namespace {

constexpr int kLooks = 8;  // at most so many calls of epoll_wait in one handler

int make_epoll() {
  const int made = ::epoll_create1(EPOLL_CLOEXEC);
  if (made < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  return made;
}

}  // namespace

asio::execution_context::id SocketPoll::id;

SocketPoll::SocketPoll(asio::execution_context& loop)
    : asio::execution_context::service(loop),
      poll_(static_cast<asio::io_context&>(loop), make_epoll()) {}

SocketPoll::~SocketPoll() = default;

SocketPoll& SocketPoll::of(asio::io_context& loop) { return asio::use_service<SocketPoll>(loop); }

void SocketPoll::shutdown() {
  over_ = true;
  boost::system::error_code ignored;
  poll_.close(ignored);
}

SocketPoll::Entry SocketPoll::add(int socket, Watcher& watcher) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.watcher = &watcher;
  slot.socket = socket;
  ++slot.round;
  slot.wanted = slot.ready = 0;
  slot.registered = slot.due = false;
  return {index, slot.round};
}

void SocketPoll::want(Entry entry, std::uint32_t interest) {
  Slot* const slot = slot_of(entry);
  if (slot == nullptr) return;
  set_wanted(*slot, interest);
  if (interest != 0 && !slot->registered) register_socket(entry.index);
  if (slot->to_report() != 0 && !std::exchange(slot->due, true)) due_.push_back(entry);
  if (!running_) follow();
}

void SocketPoll::exhausted(Entry entry, std::uint32_t readiness) {
  if (Slot* const slot = slot_of(entry)) slot->ready &= ~readiness;
}

void SocketPoll::remove(Entry entry) {
  Slot* const slot = slot_of(entry);
  if (slot == nullptr) return;
  set_wanted(*slot, nothing);
  if (slot->registered) ::epoll_ctl(poll_.native_handle(), EPOLL_CTL_DEL, slot->socket, nullptr);
  slot->watcher = nullptr;
  free_.push_back(entry.index);
  follow();
}

/// Registers a socket with the kernel for all events. Changing the events later would cost a system
/// call, while an event that nobody wants only sets Slot::ready.
void SocketPoll::register_socket(std::uint32_t index) {
  Slot& slot = slots_[index];
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;
  event.data.u64 = std::uint64_t{slot.round} << 32 | index;
  slot.registered = ::epoll_ctl(poll_.native_handle(), EPOLL_CTL_ADD, slot.socket, &event) == 0;
  if (slot.registered) return;
  const boost::system::error_code why(errno, boost::system::system_category());
  asio::post(poll_.get_executor(), [this, entry = Entry{index, slot.round}, why] {
    if (Slot* const refused = slot_of(entry)) refused->watcher->on_refused(why);
  });
}

/// Serves the sockets that are due, or waits for the epoll while anything is wanted. Waits no
/// longer, because the loop would not end.
void SocketPoll::follow() {
  if (running_ || over_) return;
  if (!due_.empty()) {
    running_ = true;
    return asio::post(poll_.get_executor(), [this] { run(); });
  }
  if (waiting_ && wanted_ == 0) {
    boost::system::error_code ignored;
    poll_.cancel(ignored);
  }
  if (waiting_ || wanted_ == 0) return;
  waiting_ = true;
  poll_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& failed) {
                     waiting_ = false;
                     if (running_ || over_) return;
                     running_ = !failed;
                     failed ? follow() : run();
                   });
}

/// Serves the sockets that are ready. If there were several, asks the kernel again at once, because
/// more requests have probably arrived by then. The replies to all leave at the end of the turn.
void SocketPoll::run() {
  int count = 2;
  for (int looks = 0; looks < kLooks && count > 1; ++looks) {
    if (!due_.empty()) serve_due();
    count = look();
  }
  if (count > 1) return asio::post(poll_.get_executor(), [this] { run(); });
  running_ = false;
  follow();
}

void SocketPoll::serve_due() {
  due_.swap(serving_);
  for (const Entry& entry : serving_) {
    if (Slot* const slot = slot_of(entry)) slot->due = false;
    serve(entry);
  }
  serving_.clear();
}

/// Asks the kernel which sockets have events, and serves them. Returns their number.
int SocketPoll::look() {
  const int count =
      ::epoll_wait(poll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int n = 0; n < count; ++n) {
    const epoll_event& event = events_[static_cast<std::size_t>(n)];
    const Entry entry{static_cast<std::uint32_t>(event.data.u64),
                      static_cast<std::uint32_t>(event.data.u64 >> 32)};
    Slot* const slot = slot_of(entry);
    if (slot == nullptr) continue;
    const bool broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    // A read stops before urgent data, although more bytes may follow.
    const bool urgent = (event.events & EPOLLPRI) != 0;
    slot->ready |= broken ? reading | writing | more : event.events | (urgent ? more : nothing);
    serve(entry);
  }
  return count;
}

/// Calls the watcher of a socket for what is both wanted and ready.
void SocketPoll::serve(Entry entry) {
  Slot* slot = slot_of(entry);
  if (slot != nullptr && (slot->to_report() & writing) != 0) {
    set_wanted(*slot, slot->wanted & ~std::uint32_t{writing});
    slot->watcher->on_writable();
    slot = slot_of(entry);
  }
  if (slot != nullptr && (slot->to_report() & reading) != 0) {
    set_wanted(*slot, slot->wanted & ~std::uint32_t{reading});
    slot->watcher->on_readable();
  }
}

}  // namespace c10dd::daemon
