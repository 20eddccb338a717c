// SPDX-License-Identifier: Apache-2.0
#include "client/internal/connection.h"

#include "client/internal/caller.h"
#include "client/internal/connection_state.h"
#include "client/internal/start_thread.h"
#include "client/internal/waiting_thread.h"
#include "protocol/ops.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

/// Returns whether a thread that waits for nothing else makes this request. Its caller does not
/// read: it would read for hours, and the others' replies would take the longer way.
bool is_long_poll(const Request& request) {
  return std::holds_alternative<WatchGroup>(request) || std::holds_alternative<Watch>(request);
}

/// Returns whether a request is answered when other ranks have come.
bool waits_for_ranks(const Request& request) {
  return std::holds_alternative<Barrier>(request) || std::holds_alternative<Exchange>(request) ||
         std::holds_alternative<Join>(request);
}

Failure closed_failure() { return failure(Code::closed, "the client was closed"); }

}  // namespace

/// Ends a call whose caller does not go on.
void Connection::State::ask_caller(Lock& lock, std::uint64_t call) {
  lock.unlock();
  const bool goes_on = caller_goes_on();
  lock.lock();
  if (goes_on) return;
  core.fail_call(call, ended_by_caller(), boot_time());
  flush();
  settle();
}

/// Sends the request and blocks until its reply. Stores the id of the call in `running`.
Reply Connection::State::call(Lock& lock, Request request, Duration limit, std::uint64_t* running) {
  Slot slot;
  const bool may_read = !is_long_poll(request);
  std::optional<WaitingThread> waiting;
  if (waits_for_ranks(request)) waiting.emplace();
  const std::uint64_t id = core.call(std::move(request), limit, boot_time());
  slots.emplace(id, &slot);
  if (running != nullptr) *running = id;
  flush();
  settle();
  const Duration ask_every = until_asked(Duration::max());  // max if nobody is to be asked
  TimePoint asked = boot_time();
  while (!slot.reply) {
    // The caller watches its own deadline, because the connection's thread may be busy with an
    // attempt to connect.
    const std::optional<TimePoint> deadline = core.deadline_of(id);
    C10DD_ASSERT(deadline.has_value());
    const TimePoint now = boot_time();
    if (now - asked >= ask_every) {
      asked = now;
      ask_caller(lock, id);
      continue;
    }
    if (*deadline > now) {
      const Duration wait = std::min<Duration>(*deadline - now, ask_every - (now - asked));
      const bool reads = may_read && reader == nullptr && !thread_reads && socket && core.open();
      if (reads) {
        read_for_all(lock, slot, wait);
      } else {
        slot.answered.wait_for(lock, wait);
      }
      continue;
    }
    const bool had_socket = core.wants_socket();
    core.tick(now);
    settle();
    if (had_socket && !core.wants_socket()) wake();  // the thread closes it
  }
  return std::move(*slot.reply);
}

// ---- the public half ---------------------------------------------------------------------------

Connection::Connection(CoreOptions options, std::vector<Periodic> periodics, Announce announce,
                       std::shared_ptr<Tls> tls)
    : state_(std::make_unique<State>(std::move(options), std::move(periodics), std::move(announce),
                                     std::move(tls))) {
  state_->thread = start_thread("client", [state = state_.get()] { state->run(); });
}

Connection::~Connection() {
  if (state_->forked()) {
    // In a forked process the thread does not exist, and the mutex may be locked for ever. So
    // `state_` cannot be destroyed and is leaked.
    static_cast<void>(state_.release());
    return;
  }
  close({}, Duration::zero());
}

void Connection::close(std::vector<Request> last_calls, Duration patience) {
  if (state_->forked()) return;
  State& s = *state_;
  {
    State::Lock lock(s.mutex);
    if (std::exchange(s.closing, true)) return;
    // End the pending calls first, so that they do not delay the requests in `last_calls`.
    s.core.fail_calls(closed_failure());
    s.settle();
    if (s.core.stats(boot_time()).connects == 0) last_calls.clear();
    for (Request& request : last_calls)
      static_cast<void>(s.call(lock, std::move(request), patience));
    s.core.finish(closed_failure(), boot_time());
    s.settle();
    s.stop = true;
    s.wake();
  }
  s.thread.join();  // not under the mutex: the thread must lock it to end
}

Result<void> Connection::wait_open(Duration patience) {
  state_->require_home();
  State& s = *state_;
  State::Lock lock(s.mutex);
  const auto settled = [&] { return s.core.open() || s.core.over(); };
  const Waited waited = wait_until(lock, s.changed, boot_time() + patience, settled);
  if (waited == Waited::ended_by_caller) return ended_by_caller();
  if (s.core.open()) return {};
  if (s.core.over()) return *s.core.over();
  return failure(Code::timed_out, "no session within {}: {}; check the daemon and the URL",
                 human(patience), s.core.absence(boot_time()));
}

Reply Connection::call(Request request, Duration limit, Recall* recall) {
  state_->require_home();
  State::Lock lock(state_->mutex);
  if (state_->closing) return closed_failure();
  limit = call_limit(limit);
  if (recall == nullptr) return state_->call(lock, std::move(request), limit);
  if (recall->reason_) return *recall->reason_;
  return state_->call(lock, std::move(request), limit, &recall->call_);
}

void Connection::post(Request request, Duration limit) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  if (state_->closing) return;
  state_->core.call(std::move(request), limit, boot_time());
  state_->flush();
  state_->settle();
}

void Connection::send_heartbeats(Duration limit) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  state_->core.send_heartbeats(limit, boot_time());
  state_->wake();
}

Duration Connection::heartbeat_limit() const {
  if (state_->forked()) return Duration::max();
  const State::Lock lock(state_->mutex);
  return state_->core.heartbeat_limit();
}

Duration Connection::since_confirmed() const {
  if (state_->forked()) return Duration::zero();
  const State::Lock lock(state_->mutex);
  return boot_time() - state_->core.last_confirmed();
}

void Connection::recall(Recall& recall, Failure reason) {
  if (state_->forked()) return;
  const State::Lock lock(state_->mutex);
  if (recall.reason_) return;
  recall.reason_ = std::move(reason);
  state_->core.fail_call(recall.call_, *recall.reason_, boot_time());
  state_->flush();
  state_->settle();
}

bool Connection::open() const {
  if (state_->forked()) return false;
  const State::Lock lock(state_->mutex);
  return state_->core.open();
}

std::string Connection::address() const {
  if (state_->forked()) return {};
  const State::Lock lock(state_->mutex);
  return state_->core.address();
}

CoreStats Connection::stats() const {
  if (state_->forked()) return {};
  const State::Lock lock(state_->mutex);
  return state_->core.stats(boot_time());
}

}  // namespace c10dd::client
