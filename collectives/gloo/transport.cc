// SPDX-License-Identifier: Apache-2.0
// Stops a transport. The guard, a task of the timer thread, notices deadlines and lost peers.
#include "collectives/gloo/transport.h"

#include <gloo/transport/pair.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "collectives/gloo/buffer.h"
#include "collectives/gloo/parallel.h"
#include "collectives/gloo/sigpipe.h"
#include "collectives/wording.h"
#include "protocol/format.h"
#include "protocol/wording.h"

namespace c10dd::collectives {
namespace {

// How often the guard checks the peers during a collective. A lost peer that Gloo itself
// does not report is noticed after about this time.
constexpr auto kGuardPeriod = std::chrono::milliseconds(50);

// How many checks after the first must find the same wait before a peer that has left counts as
// awaited. The peer's message may have ended the wait, while the waiting thread has not run since:
// on a busy machine, that takes some time. A peer that has closed its group has sent all that it
// had to send, unless the ranks have issued different operations.
constexpr int kChecksIfLost = 2;
constexpr int kChecksIfClosed = 20;

// Time between sending the exit message and closing the connections.
constexpr auto kFlushTime = std::chrono::milliseconds(10);

constexpr auto kLost = MissingRank::Cause::disconnected;

// The slot (message tag) of await_peers(); see reduce_scatter.cc.
constexpr std::uint64_t kOpeningSlot = std::uint64_t{0x22} << 56;

// StoppableBuffer does not use Gloo's time-outs.
constexpr std::chrono::milliseconds kUnused{0};

}  // namespace

Transport::Transport(std::shared_ptr<::gloo::transport::Context> inner)
    : Context(inner->rank, inner->size),
      inner_(std::move(inner)),
      exit_messages_(*inner_),
      exit_message_(failure(Code::closed, "rank {} closed its process group", rank)) {}

Transport::~Transport() {
  const NoSigpipe no_sigpipe;
  if (watched_) TimerThread::instance().remove(*this);
  if (leaver_.joinable()) {
    leaver_.join();
  } else if (watched_) {
    exit_messages_.send(exit_message_);
  }
  // Each close waits for an iteration of Gloo's event loop, so all closes run in parallel.
  for_each_peer(rank, size, [this](int peer) { inner_->getPair(peer).reset(); });
}

std::unique_ptr<::gloo::transport::Pair>& Transport::getPair(int peer) {
  return inner_->getPair(peer);
}

std::unique_ptr<::gloo::transport::Pair>& Transport::createPair(int peer) {
  return inner_->createPair(peer);
}

std::unique_ptr<::gloo::transport::UnboundBuffer> Transport::createUnboundBuffer(
    void* data, std::size_t bytes) {
  return std::make_unique<StoppableBuffer>(*this, inner_->createUnboundBuffer(data, bytes));
}

void Transport::watch(std::vector<ProcessAddress> processes) {
  processes_ = std::move(processes);
  const MissingRank self = missing_peer(static_cast<Rank>(rank), kLost, "");
  exit_message_.detail =
      format("{} closed its process group: its program ended or failed; see the end of its log",
             rank_text(static_cast<Rank>(rank), self.host, self.pid));
  exit_messages_.listen();
  TimerThread::instance().add(*this);
  watched_ = true;
}

// A dissemination barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier
// synchronization", 1988): after round k, a rank knows of 2^k ranks that they have come.
Result<void> Transport::await_peers(Duration timeout) {
  Operation operation{.collective = Collective::barrier};
  operation.timeout = timeout;
  operation.deadline = Clock::now() + timeout;
  if (const Result<void> begun = begin(operation); !begun) return begun;
  set_opening(true);
  try {
    const auto buffer = createUnboundBuffer(nullptr, 0);
    for (int distance = 1; distance < size; distance *= 2) {
      buffer->recv((rank + size - distance) % size, kOpeningSlot, 0, 0);
      buffer->send((rank + distance) % size, kOpeningSlot, 0, 0);
      buffer->waitRecv(nullptr, kUnused);
      buffer->waitSend(nullptr, kUnused);
    }
  } catch (const Stopped&) {
    // The transport has the reason.
  } catch (const std::exception& error) {
    stop_for_lost_peer("", error.what());
  }
  end();
  set_opening(false);
  if (auto reason = stopped()) return *reason;
  return {};
}

void Transport::set_opening(bool opening) {
  const std::lock_guard lock(mutex_);
  opening_ = opening;
}

Result<void> Transport::begin(const Operation& operation) {
  TimerThread::instance().require_thread();
  const std::lock_guard lock(mutex_);
  if (reason_) return *reason_;
  running_ = true;
  ++begun_;
  collective_ = operation.collective;
  sequence_ = operation.sequence;
  timeout_ = operation.timeout;
  deadline_ = operation.deadline;
  // Usually the guard comes early enough, and needs no call here.
  const auto check = std::min(deadline_, Clock::now() + kGuardPeriod);
  if (guard_wakes_ > check + kGuardPeriod) {
    seen_ = begun_;
    guard_wakes_ = check;
    TimerThread::instance().wake(*this, check);
  }
  return {};
}

void Transport::end() {
  const std::lock_guard lock(mutex_);
  running_ = false;
}

void Transport::stop(Failure reason, Failure exit_message, Closing closing) {
  const std::lock_guard lock(mutex_);
  stop_locked(std::move(reason), std::move(exit_message), closing);
}

std::optional<Failure> Transport::stopped() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Transport::stop_for_lost_peer(const std::string& what, const std::string& message) {
  // Gloo fails the receives of a broken connection one after the other. The receives of
  // exit_messages_ may fail last, so this loop waits for them, for up to about 100 ms.
  Ended ended = exit_messages_.ended();
  for (int i = 0; i < 100 && ended.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = exit_messages_.ended();
  }
  const std::lock_guard lock(mutex_);
  stop_lost_locked(ended, what.empty() ? what_locked() : what, message);
}

void Transport::on_stop(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  on_stop_ = std::move(callback);
  if (on_stop_ && reason_) on_stop_();
}

void Transport::stop_locked(Failure reason, Failure exit_message, Closing closing) {
  if (reason_) return;
  reason_ = std::move(reason);
  exit_message_ = std::move(exit_message);
  is_stopped_ = true;
  // interrupt() makes the buffer's running wait fail or, if there is none, the buffer's next wait.
  for (StoppableBuffer* buffer : buffers_) buffer->interrupt();
  if (on_stop_) on_stop_();
  if (closing != Closing::now) return;
  try {
    leaver_ = std::thread([this] { leave(); });
  } catch (const std::system_error&) {
    // No thread can be started: the destructor sends the exit message.
  }
}

Transport::Clock::time_point Transport::on_time(Clock::time_point now) noexcept {
  const NoSigpipe no_sigpipe;
  std::unique_lock lock(mutex_);
  guard_wakes_ = Clock::time_point::max();
  if (reason_) return guard_wakes_;
  // `lasts` is true if this collective was already running at the previous call of on_time(), or if
  // begin() has asked for this call. Only then are the peers checked, because a check inspects
  // every connection, and most collectives end within kGuardPeriod.
  const bool lasts = running_ && begun_ == seen_;
  const bool active = begun_ != seen_ || lasts;
  seen_ = begun_;
  if (running_ && now >= deadline_) {
    stop_late_locked();
  } else if (lasts) {
    guard_collective(lock);
  }
  if (reason_) return guard_wakes_;
  if (active) guard_wakes_ = now + kGuardPeriod;
  if (running_) guard_wakes_ = std::min(guard_wakes_, deadline_);
  return guard_wakes_;
}

// Stops the transport if a peer's group was aborted or has lost a rank. Also stops it if the
// running collective waits for a peer that has left or died, and has not gone on since the checks
// before: Gloo does not wake a wait whose message was incomplete when the connection broke.
// Releases the lock while it checks the peers.
void Transport::guard_collective(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t collective = begun_;
  lock.unlock();
  const Ended ended = exit_messages_.ended();
  lock.lock();
  // The collective may have ended while the lock was released.
  if (!running_ || begun_ != collective || reason_) return;
  const std::vector<Rank> awaited = awaited_locked();
  const std::uint64_t waits = waits_;
  checks_ = waits == checked_waits_ ? checks_ + 1 : 0;
  checked_waits_ = waits;
  const bool matters =
      std::any_of(ended.begin(), ended.end(), [&](const ExitMessages::Ended& peer) {
        // A peer whose exit message has the code aborted or unavailable makes this group fail too.
        // Any other peer that has left or died matters only if this rank still waits for that peer.
        // Otherwise that peer has already done its part.
        if (peer.message &&
            (peer.message->code == Code::aborted || peer.message->code == Code::unavailable))
          return true;
        const bool closed = peer.message && peer.message->code == Code::closed;
        return checks_ >= (closed ? kChecksIfClosed : kChecksIfLost) &&
               std::find(awaited.begin(), awaited.end(), peer.rank) != awaited.end();
      });
  if (matters) stop_lost_locked(ended, what_locked(), "connection lost");
}

// Returns a text such as "all_reduce 7", for error texts.
std::string Transport::what_locked() const {
  if (opening_) return "opening the group";
  return format("{} {}", name_of(collective_), sequence_);
}

std::vector<Rank> Transport::awaited_locked() const {
  std::vector<Rank> ranks;
  for (const StoppableBuffer* buffer : buffers_) buffer->add_awaited(ranks);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Stops the transport at the deadline. The failure names the awaited ranks. Leaves the connections
// open, because each peer must reach its own deadline to name the ranks that the peer awaits.
void Transport::stop_late_locked() {
  std::string text = format("{} timed out after {}", what_locked(), human(timeout_));
  const std::vector<Rank> awaited = awaited_locked();
  Failure late = failure(Code::timed_out, "");
  for (const Rank peer : awaited) {
    late.missing.push_back(missing_rank(peer, processes_, MissingRank::Cause::not_arrived));
  }
  if (!awaited.empty()) text += " waiting for " + described(late.missing);
  const Failure exit_message = failure(Code::timed_out, "rank {} stopped: {}", rank, text);
  late.detail = std::move(text);
  stop_locked(std::move(late), exit_message, Closing::at_destruction);
}

MissingRank Transport::missing_peer(Rank peer, MissingRank::Cause cause, std::string how) const {
  return missing_rank(peer, processes_, cause, std::move(how));
}

// Stops the transport after a connection has ended. The reason is the exit message of a peer whose
// group has failed. If there is none, the reason is the loss of the peers that have died. If no
// peer has died, the reason is that a peer has closed its group. The last resort is `message`.
void Transport::stop_lost_locked(const Ended& ended, const std::string& what,
                                 const std::string& message) {
  std::vector<MissingRank> dead;
  const ExitMessages::Ended* left = nullptr;
  for (const ExitMessages::Ended& peer : ended) {
    if (!peer.message) {
      dead.push_back(missing_peer(peer.rank, kLost, "connection lost"));
    } else if (left == nullptr || left->message->code == Code::closed) {
      left = &peer;
    }
  }
  if (left != nullptr && (left->message->code != Code::closed || dead.empty())) {
    return stop_after_exit_locked(*left, what);
  }
  const std::string lost = dead.empty() ? message : "lost the connection to " + described(dead);
  Failure reason =
      failure(Code::unavailable, "{} failed: {}; check the end of the lost rank's log", what, lost);
  Failure exit_message = failure(Code::unavailable, "rank {} stopped: {}", rank, lost);
  reason.missing = exit_message.missing = std::move(dead);
  stop_locked(std::move(reason), std::move(exit_message), Closing::now);
}

// Stops the transport because of a peer's exit message: the peer's group has failed or was closed.
void Transport::stop_after_exit_locked(const ExitMessages::Ended& peer, const std::string& what) {
  const Failure& message = *peer.message;
  const bool closed = message.code == Code::closed;
  Failure reason =
      failure(closed ? Code::unavailable : message.code, "{} failed: {}", what, message.detail);
  for (const MissingRank& lost : message.missing) {
    reason.missing.push_back(missing_peer(lost.rank, kLost, "connection lost"));
  }
  if (closed)
    reason.missing.push_back(missing_peer(peer.rank, kLost, "it closed its process group"));
  stop_locked(std::move(reason), message, Closing::now);  // passes the peer's message on
}

// Sends the exit message and closes the pairs (Gloo's ends of the connections). Does not destroy
// the pairs, because leave() runs on a thread of its own while a collective may still use the
// pairs. That thread lets the last messages of many groups leave at the same time.
void Transport::leave() {
  const NoSigpipe no_sigpipe;
  exit_messages_.send(exit_message_);
  // Lets the message leave first, because close() resets the connection and drops what is queued.
  std::this_thread::sleep_for(kFlushTime);
  for_each_peer(rank, size, [this](int peer) { inner_->getPair(peer)->close(); });
}

}  // namespace c10dd::collectives
