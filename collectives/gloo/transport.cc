// SPDX-License-Identifier: Apache-2.0
// Stopping, and the guard thread that sees deadlines pass and peers go.
#include "collectives/gloo/transport.h"

#include <gloo/transport/pair.h>

#include <algorithm>
#include <utility>

#include "collectives/gloo/buffer.h"
#include "collectives/gloo/parallel.h"
#include "collectives/gloo/sigpipe.h"
#include "collectives/wording.h"

namespace c10dd::collectives {
namespace {

// How often the guard looks at the peers while a collective lasts. Bounds the time until a lost
// peer is noticed whose death Gloo itself does not report.
constexpr auto kGuardPeriod = std::chrono::milliseconds(50);

// From the last words to the end of the connections.
constexpr auto kLastWords = std::chrono::milliseconds(10);

}  // namespace

Transport::Transport(std::shared_ptr<::gloo::transport::Context> inner)
    : Context(inner->rank, inner->size),
      inner_(std::move(inner)),
      exit_messages_(*inner_),
      words_(failure(Code::closed, "rank " + std::to_string(rank) + " closed its process group")) {}

Transport::~Transport() {
  const NoSigpipe no_sigpipe;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (guard_.joinable()) {
    guard_.join();
    if (!has_left_) exit_messages_.tell(words_);
  }
  // Waits for a turn of Gloo's loop each: not one connection after the other.
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
  exit_messages_.listen();
  guard_ = std::thread([this] { attend(); });
}

Result<void> Transport::begin(const CallContext& context, std::string what) {
  const std::lock_guard lock(mutex_);
  if (reason_) return *reason_;
  running_ = true;
  ++begun_;
  what_ = std::move(what);
  ticket_ = context;
  // The guard mostly sleeps towards a later moment and needs no waking: no system call here.
  if (guard_wakes_ > std::min(context.deadline, Clock::now() + kGuardPeriod * 2)) {
    changed_.notify_all();
  }
  return {};
}

void Transport::end() {
  const std::lock_guard lock(mutex_);
  running_ = false;
}

void Transport::stop(Failure reason, Failure words, Closing closing) {
  const std::lock_guard lock(mutex_);
  stop_locked(std::move(reason), std::move(words), closing);
}

std::optional<Failure> Transport::stopped() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void Transport::stop_for_lost_peer(const std::string& message) {
  // Gloo fails what waits on a broken connection piece by piece: last words may be the last piece.
  Ended ended = exit_messages_.ended();
  for (int i = 0; i < 100 && ended.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = exit_messages_.ended();
  }
  const std::lock_guard lock(mutex_);
  stop_lost_locked(ended, message);
}

void Transport::stop_locked(Failure reason, Failure words, Closing closing) {
  if (reason_) return;
  reason_ = std::move(reason);
  words_ = std::move(words);
  leave_now_ = closing == Closing::now;
  is_stopped_ = true;
  // The flag of an inner buffer stays up until its next wait: no wait can slip through.
  for (StoppableBuffer* buffer : buffers_) buffer->interrupt();
  changed_.notify_all();
}

void Transport::attend() {
  const NoSigpipe no_sigpipe;
  std::unique_lock lock(mutex_);
  std::uint64_t seen = 0;
  for (;;) {
    if (ending_) return;
    const auto now = Clock::now();
    if (leave_now_ && !has_left_) {
      has_left_ = true;
      lock.unlock();
      leave();
      lock.lock();
      continue;
    }
    const bool lasts = running_ && begun_ == seen && !reason_;
    const bool active = begun_ != seen || lasts;
    seen = begun_;
    if (running_ && !reason_ && now >= ticket_.deadline) {
      stop_late_locked();
      continue;
    }
    if (lasts) {
      guard_collective(lock);
      if (reason_) continue;
    }
    guard_wakes_ = Clock::time_point::max();
    if (active) guard_wakes_ = now + kGuardPeriod;
    if (running_ && !reason_) guard_wakes_ = std::min(guard_wakes_, ticket_.deadline);
    if (guard_wakes_ == Clock::time_point::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, guard_wakes_);
    }
  }
}

// Gloo does not wake a wait whose data was half way when the connection broke.
void Transport::guard_collective(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t collective = begun_;
  lock.unlock();
  const Ended ended = exit_messages_.ended();
  lock.lock();
  if (!running_ || begun_ != collective || reason_) return;
  const std::vector<Rank> awaited = awaited_locked();
  const bool matters =
      std::any_of(ended.begin(), ended.end(), [&](const ExitMessages::Ended& peer) {
        // Who gave up takes the group along. Who left or died after doing its part may be gone.
        if (peer.words &&
            (peer.words->code == Code::aborted || peer.words->code == Code::unavailable))
          return true;
        return std::find(awaited.begin(), awaited.end(), peer.rank) != awaited.end();
      });
  if (matters) stop_lost_locked(ended, "connection lost");
}

std::vector<Rank> Transport::awaited_locked() const {
  std::vector<Rank> ranks;
  for (const StoppableBuffer* buffer : buffers_) buffer->add_awaited(ranks);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Peers are not told: each has its own deadline, and knows better whom itself it waits for.
void Transport::stop_late_locked() {
  std::string text = what_ + " timed out after " + human(ticket_.timeout);
  const std::vector<Rank> awaited = awaited_locked();
  Failure late = failure(Code::timed_out, "");
  for (const Rank peer : awaited) {
    late.missing.push_back(missing_rank(peer, processes_, MissingRank::Cause::not_arrived));
  }
  if (!awaited.empty()) text += " waiting for " + described(late.missing);
  const Failure words =
      failure(Code::timed_out, "rank " + std::to_string(rank) + " gave up: " + text);
  late.detail = std::move(text);
  stop_locked(std::move(late), words, Closing::at_destruction);
}

MissingRank Transport::lost_peer(Rank peer, std::string how) const {
  return missing_rank(peer, processes_, MissingRank::Cause::disconnected, std::move(how));
}

void Transport::stop_lost_locked(const Ended& ended, const std::string& message) {
  std::vector<MissingRank> dead;
  const ExitMessages::Ended* told = nullptr;
  for (const ExitMessages::Ended& peer : ended) {
    if (!peer.words) {
      dead.push_back(lost_peer(peer.rank, "connection lost"));
    } else if (told == nullptr || told->words->code == Code::closed) {
      told = &peer;  // who merely left explains less
    }
  }
  if (told != nullptr && (told->words->code != Code::closed || dead.empty())) {
    return stop_told_locked(*told);
  }
  const std::string lost = dead.empty() ? message : "lost the connection to " + described(dead);
  Failure reason =
      failure(Code::unavailable, what_ + " failed: " + lost + "; look at the end of its log");
  Failure words = failure(Code::unavailable, "rank " + std::to_string(rank) + " gave up: " + lost);
  reason.missing = words.missing = std::move(dead);
  stop_locked(std::move(reason), std::move(words), Closing::now);
}

/// A peer has said why it gave the group up, or that it left.
void Transport::stop_told_locked(const ExitMessages::Ended& peer) {
  const Failure& words = *peer.words;
  const bool left = words.code == Code::closed;
  Failure reason =
      failure(left ? Code::unavailable : words.code, what_ + " failed: " + words.detail);
  for (const MissingRank& lost : words.missing) {
    reason.missing.push_back(lost_peer(lost.rank, "connection lost"));
  }
  if (left) reason.missing.push_back(lost_peer(peer.rank, "it closed its process group"));
  stop_locked(std::move(reason), words, Closing::now);
}

// On the guard, while a collective may still be on its way out: the pairs themselves stay.
void Transport::leave() {
  exit_messages_.tell(words_);
  // A closed pair resets its connection, which would overtake words that are still queued.
  std::this_thread::sleep_for(kLastWords);
  for_each_peer(rank, size, [this](int peer) { inner_->getPair(peer)->close(); });
}

}  // namespace c10dd::collectives
