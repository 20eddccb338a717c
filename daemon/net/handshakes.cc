// SPDX-License-Identifier: Apache-2.0
#include "daemon/net/handshakes.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "daemon/net/tls_stream.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::daemon {
namespace {

using Clock = std::chrono::steady_clock;

/// Sends all that a channel has to send.
asio::awaitable<void> send(Stream& plain, tls::Channel& channel, ErrorCode& failed) {
  while (!channel.outgoing().empty() && !failed) {
    const std::string_view bytes = channel.outgoing();
    channel.sent(co_await plain.write_next(asio::buffer(bytes), failed));
  }
}

Failure cut(std::string_view peer) {
  return failure(Code::unavailable, "the {} closed the connection during the TLS handshake", peer);
}

/// Shakes hands until the channel is open. Returns why it is not. Calls `answered`, unless it is
/// null, when the peer must go on.
asio::awaitable<std::optional<Failure>> shake_hands(Stream& plain, tls::Channel& channel,
                                                    const bool& late, std::string_view peer,
                                                    std::function<void()> answered = nullptr) {
  std::array<char, 4096> buffer;
  channel.receive(plain.take_head());
  while (true) {
    const c10dd::Result<bool> done = channel.shake_hands();
    ErrorCode failed;
    co_await send(plain, channel, failed);
    if (!done) co_return done.error();
    if (!failed && *done) co_return std::nullopt;
    if (const auto tell = std::exchange(answered, nullptr)) tell();
    std::size_t read = 0;
    if (!failed && !late) read = co_await plain.read_next(asio::buffer(buffer), failed);
    if (late) {
      co_return failure(Code::timed_out, "the client did not end the TLS handshake in time");
    }
    if (failed) co_return cut(peer);
    channel.receive({buffer.data(), read});
  }
}

/// What a handshake needs, beside its stream.
struct Order {
  tls::Context context;
  std::chrono::milliseconds deadline;
  asio::io_context& back;  ///< the loop that gets the result
  std::function<void()> answered;
  Handshakes::Then then;
};

/// Shakes hands on the loop of `plain`, within the deadline, and passes the result on. `late` is
/// set when the time is over.
asio::awaitable<void> serve(std::shared_ptr<Stream> plain, std::shared_ptr<bool> late,
                            Order order) {
  tls::Channel channel(order.context);
  asio::steady_timer timer(plain->executor(), order.deadline);
  timer.async_wait([plain, late](const ErrorCode& cancelled) {
    if (cancelled) return;
    *late = true;
    plain->cancel();
  });
  std::optional<Failure> failed = co_await shake_hands(*plain, channel, *late, "client", [&order] {
    asio::post(order.back, std::move(order.answered));
  });
  timer.cancel();
  asio::io_context& back = order.back;
  Handshakes::Then then = std::move(order.then);
  if (failed) {
    asio::post(back, [then = std::move(then), failed = std::move(*failed)]() mutable {
      then({nullptr, std::move(failed)});
    });
    co_return co_await plain->finish();
  }
  const auto stream = TlsStream::over(std::move(plain), std::move(channel));
  const auto kept = std::make_shared<Handshakes::Then>(std::move(then));
  const bool moves = stream->move_to(back, [kept](std::shared_ptr<Stream> moved) {
    (*kept)({std::move(moved), {}});
  });
  if (!moves) asio::post(back, [kept] { (*kept)({nullptr, cut("client")}); });
}

}  // namespace

asio::awaitable<Result<std::shared_ptr<Stream>>> encrypt(std::shared_ptr<Stream> plain,
                                                         tls::Context context, std::string host) {
  tls::Channel channel(context, host);
  const bool never_late = false;
  const std::optional<Failure> failed = co_await shake_hands(*plain, channel, never_late, "daemon");
  if (failed) co_return *failed;
  co_return TlsStream::over(std::move(plain), std::move(channel));
}

struct Handshakes::Worker {
  Loop loop;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(loop);
  std::vector<std::weak_ptr<Stream>> under_way = {};  // belongs to the thread
  std::thread thread{[this] { loop.run(); }};

  void note(const std::shared_ptr<Stream>& plain) {
    std::erase_if(under_way, [](const auto& one) { return one.expired(); });
    under_way.push_back(plain);
  }
  /// A handshake that waits for bytes and its stream own each other, until the stream is closed.
  ~Worker() {
    loop.stop();
    thread.join();
    loop.restart();
    loop.poll();  // takes those that were on their way
    for (const auto& one : under_way) {
      if (const auto plain = one.lock()) plain->close();
    }
    loop.restart();
    loop.poll();
  }
};

namespace {

/// Returns whether the client has sent bytes that were not read yet.
bool has_bytes(const Stream& plain) {
  int bytes = 0;
  return ::ioctl(plain.socket(), FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

/// Belongs to the worker's thread, but for `worker`.
struct Handshakes::Attempt {
  Worker& worker;
  std::weak_ptr<Stream> plain = {};
  std::shared_ptr<bool> late = std::make_shared<bool>(false);
};

namespace {

/// Enough that each thread finds the next one when it has answered one.
constexpr unsigned kAnsweringOfThread = 4;

HandshakeQueue::Limits limits_of(HandshakeQueue::Limits limits, unsigned threads) {
  limits.answering = std::size_t{kAnsweringOfThread} * threads;
  return limits;
}

}  // namespace

Handshakes::Handshakes(Loop& loop, unsigned threads, std::chrono::milliseconds deadline,
                       HandshakeQueue::Limits limits)
    : loop_(loop), deadline_(deadline), queue_(limits_of(limits, threads)) {
  for (unsigned n = 0; n < threads; ++n) workers_.push_back(std::make_unique<Worker>());
}

Handshakes::~Handshakes() { stop(); }

void Handshakes::stop() {
  *gone_ = true;
  workers_.clear();
}

void Handshakes::begin(std::shared_ptr<Stream> plain, tls::Context context, Then then) {
  const asio::ip::address from = plain->address();
  waiting_.emplace(++last_, Waiting{std::move(plain), std::move(context), std::move(then)});
  queue_.add(last_, from, Clock::now());
  take_turns();
}

/// Begins those whose turn it is. A handshake may end at once, which calls this again.
void Handshakes::take_turns() {
  if (std::exchange(takes_turns_, true)) return;
  while (true) {
    const HandshakeQueue::Turn turn = queue_.turn(Clock::now());
    for (const Number one : turn.give_way) give_way(one);
    for (const Number one : turn.begin) start(one);
    if (turn.begin.empty()) break;
  }
  takes_turns_ = false;
  if (queue_.waiting() > 0) look_soon();
}

void Handshakes::start(Number number) {
  Waiting one = std::move(waiting_.extract(number).mapped());
  Worker& worker = *workers_[next_++ % workers_.size()];
  auto answered = [this, gone = gone_, number] {
    if (*gone) return;
    queue_.answered(number, Clock::now());
    take_turns();
  };
  auto then = [this, gone = gone_, number, then = std::move(one.then)](Result result) {
    if (*gone) return;
    ended(number);
    then(std::move(result));
  };
  const auto attempt = std::make_shared<Attempt>(Attempt{worker});
  Order order{std::move(one.context), deadline_, loop_, std::move(answered), std::move(then)};
  const bool moves = one.plain->move_to(
      worker.loop, [attempt, order = std::move(order)](std::shared_ptr<Stream> plain) mutable {
        attempt->worker.note(plain);
        attempt->plain = plain;
        asio::co_spawn(attempt->worker.loop,
                       serve(std::move(plain), attempt->late, std::move(order)), asio::detached);
      });
  if (moves) {
    under_way_.emplace(number, attempt);
  } else {
    queue_.ended(number);
  }
}

void Handshakes::ended(Number number) {
  under_way_.erase(number);
  queue_.ended(number);
  take_turns();
}

/// Ends a handshake that waits for its client, unless the client has just sent more.
void Handshakes::give_way(Number number) {
  const std::shared_ptr<Attempt> attempt = under_way_.at(number);
  asio::post(attempt->worker.loop, [this, gone = gone_, attempt, number, &back = loop_] {
    const auto plain = attempt->plain.lock();
    if (!plain) return;  // it has ended
    if (!has_bytes(*plain)) {
      *attempt->late = true;
      return plain->cancel();
    }
    asio::post(back, [this, gone, number] {
      if (!*gone) queue_.goes_on(number, Clock::now());
    });
  });
}

void Handshakes::end_late_ones() {
  const std::size_t waited = queue_.waiting();
  for (const Number number : queue_.late(Clock::now())) {
    Waiting one = std::move(waiting_.extract(number).mapped());
    one.then({nullptr, failure(Code::timed_out,
                               "the TLS handshake did not have its turn within {}, because {} "
                               "waited for theirs; the client tries again",
                               human(queue_.limits().turn), waited)});
  }
}

/// Lets time go on for those that wait, as long as there are any.
void Handshakes::look_soon() {
  if (std::exchange(looks_, true)) return;
  after(loop_, HandshakeQueue::kPatience / 10, [this, gone = gone_] {
    if (*gone) return;
    looks_ = false;
    end_late_ones();
    take_turns();
  });
}

}  // namespace c10dd::daemon
