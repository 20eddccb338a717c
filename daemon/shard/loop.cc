// SPDX-License-Identifier: Apache-2.0
#include "daemon/shard/loop.h"

#include <boost/asio/steady_timer.hpp>
#include <ctime>
#include <memory>

#include "daemon/shard/socket_poll.h"

namespace c10dd::daemon {
namespace {

// After its first handler, a turn runs at most this many further handlers. The number is limited
// because replies are sent only at the end of a turn.
constexpr int kTurnHandlers = 256;

// Looking for a further handler costs a system call if there is none. After a look in vain, this
// many turns do not look, as long as each ends within kBusy of the one before. So a deadline may
// fire although a request that arrived earlier is ready, but only if it arrived less than 15 ms
// earlier.
constexpr unsigned kTurnsWithoutLook = 15;
constexpr std::chrono::milliseconds kBusy{1};

}  // namespace

void after(boost::asio::io_context& loop, Duration time, std::function<void()> then) {
  const auto timer = std::make_shared<boost::asio::steady_timer>(loop, time);
  timer->async_wait([timer, then = std::move(then)](const boost::system::error_code& cancelled) {
    if (!cancelled) then();
  });
}

Loop::Loop() : io_context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO) { SocketPoll::of(*this); }

core::SteadyTime Loop::boot_now() const {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return core::SteadyTime(std::chrono::seconds(time.tv_sec) +
                          std::chrono::nanoseconds(time.tv_nsec));
}

void Loop::run_ready() {
  start_clock();
  run_one();
  start_clock();  // because the handler may have taken long, or the process was stopped meanwhile
  const bool busy = now() - std::exchange(last_turn_, now()) < kBusy;
  if (busy && turns_without_look_ > 0) {
    --turns_without_look_;
    return;
  }
  int more = 0;
  while (more < kTurnHandlers && poll_one() > 0) ++more;
  turns_without_look_ = more == 0 ? kTurnsWithoutLook : 0;
  start_clock();
}

}  // namespace c10dd::daemon
