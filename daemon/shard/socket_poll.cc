// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/socket_poll.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <system_error>

namespace c10dd::daemon {

namespace asio = boost::asio;

namespace {

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

SocketPoll::Slot* SocketPoll::slot_of(Entry entry) {
  if (over_ || entry.index >= slots_.size()) return nullptr;
  Slot& slot = slots_[entry.index];
  return slot.watcher != nullptr && slot.round == entry.round ? &slot : nullptr;
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
  slot.wanted = slot.armed = 0;
  return {index, slot.round};
}

/// Leaves events armed that are not wanted any more: mostly they are wanted again before the kernel
/// reports them. If not, serve() disarms them.
void SocketPoll::want(Entry entry, std::uint32_t interest) {
  Slot* const slot = slot_of(entry);
  if (slot == nullptr) return;
  set_wanted(*slot, interest);
  if ((interest & ~slot->armed) != 0) arm(entry.index, interest);
  follow();
}

void SocketPoll::remove(Entry entry) {
  Slot* const slot = slot_of(entry);
  if (slot == nullptr) return;
  set_wanted(*slot, nothing);
  arm(entry.index, 0);
  slot->watcher = nullptr;
  free_.push_back(entry.index);
  follow();
}

void SocketPoll::set_wanted(Slot& slot, std::uint32_t interest) {
  if (slot.wanted == 0 && interest != 0) ++wanted_;
  if (slot.wanted != 0 && interest == 0) --wanted_;
  slot.wanted = interest;
}

/// Sets the events that the kernel reports. It reports errors of every socket in the epoll, so a
/// socket without events is taken out.
void SocketPoll::arm(std::uint32_t index, std::uint32_t events) {
  Slot& slot = slots_[index];
  if (slot.armed == events) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = std::uint64_t{slot.round} << 32 | index;
  const int change = slot.armed == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  const bool done = ::epoll_ctl(poll_.native_handle(), change, slot.socket, &event) == 0;
  if (done || events == 0) {
    slot.armed = events;
    return;
  }
  const boost::system::error_code why(errno, boost::system::system_category());
  asio::post(poll_.get_executor(), [this, entry = Entry{index, slot.round}, why] {
    if (Slot* const refused = slot_of(entry)) refused->watcher->on_refused(why);
  });
}

/// Waits for the epoll while anything is wanted, but not longer: the loop would not end.
void SocketPoll::follow() {
  if (running_ || over_) return;
  if (waiting_ && wanted_ == 0) {
    boost::system::error_code ignored;
    poll_.cancel(ignored);
  }
  if (waiting_ || wanted_ == 0) return;
  waiting_ = true;
  poll_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const boost::system::error_code& failed) {
                     waiting_ = false;
                     failed ? follow() : run();
                   });
}

/// Serves some sockets. While several are ready, looks again without waiting.
void SocketPoll::run() {
  if (over_) return;
  running_ = true;
  const int count =
      ::epoll_wait(poll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int n = 0; n < count; ++n) serve(events_[static_cast<std::size_t>(n)]);
  const bool busy = count > 1;
  if (busy) return asio::post(poll_.get_executor(), [this] { run(); });
  running_ = false;
  follow();
}

void SocketPoll::serve(const epoll_event& event) {
  const Entry entry{static_cast<std::uint32_t>(event.data.u64),
                    static_cast<std::uint32_t>(event.data.u64 >> 32)};
  Slot* slot = slot_of(entry);
  if (slot == nullptr) return;
  const bool ended = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
  const std::uint32_t ready = ended ? slot->wanted : event.events & slot->wanted;
  if ((event.events & ~slot->wanted) != 0) arm(entry.index, slot->wanted);
  if ((ready & writing) != 0) slot->watcher->on_writable();
  slot = slot_of(entry);
  if (slot != nullptr && (ready & reading) != 0) slot->watcher->on_readable();
}

}  // namespace c10dd::daemon
