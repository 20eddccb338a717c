// SPDX-License-Identifier: Apache-2.0
// A membership has two threads. The first watches the status of the group. The second fences this
// process (GroupState::fenced) if the daemon has not replied for too long. Both threads notify the
// listeners.
#include "client/internal/daemon_membership.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/internal/barrier_calls.h"
#include "client/internal/boot_time.h"
#include "client/internal/caller.h"
#include "client/internal/fork_guard.h"
#include "client/internal/start_thread.h"
#include "client/internal/throw_failure.h"
#include "protocol/fields.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/wording.h"

namespace c10dd::client {
namespace {

constexpr Duration kStatusWatch = std::chrono::hours(1);
constexpr Duration kCallLimit = std::chrono::minutes(5);
constexpr Duration kRetry = std::chrono::milliseconds(100);
constexpr Duration kLeaveLimit = std::chrono::seconds(1);  // of the destructor
// A member fences itself one heartbeat interval before its ttl ends.
constexpr int kHeartbeatsPerTtl = 5;
// Longest pause between two checks of the ttl. The pause is short, because this process may join a
// second group with a shorter ttl while the thread waits.
constexpr Duration kCheckMax = limits::kMemberTtlMin * 4 / 5;

GroupState state_of(const GroupStatus& status) {
  GroupState state;
  state.phase = static_cast<GroupState::Phase>(status.phase);
  state.round = status.round;
  state.generation = status.generation;
  state.reason = status.reason;
  state.lost = ranks_of(status.lost);
  state.finished = ranks_of(status.finished);
  state.stalled = ranks_of(status.stalled);
  state.missing = missing_of(status.details);
  state.waiting = status.waiting;
  for (const Notice& notice : status.notices) {
    state.notices.push_back({notice.number, notice.kind == Notice::Kind::preempt,
                             ranks_of(notice.ranks), notice.left, notice.reason});
  }
  return state;
}

Join join_of(const RendezvousOptions& options) {
  Join join;
  join.group = options.group;
  join.policy = {options.min, options.max,   options.last_call,
                 options.ttl, options.grace, options.quorum};
  join.rank = options.rank;
  join.spare = options.spare;
  join.local_rank = options.local_rank;
  join.device = options.device;
  join.domain = options.domain;
  join.labels = options.labels;
  join.step = options.step;
  join.timeout = options.timeout;
  return join;
}

class DaemonMembership final : public Membership,
                               public std::enable_shared_from_this<DaemonMembership> {
 public:
  DaemonMembership(std::shared_ptr<Client> client, std::shared_ptr<Connection> connection,
                   const RendezvousOptions& options)
      : client_(std::move(client)),
        connection_(std::move(connection)),
        barriers_(connection_),
        join_(join_of(options)) {
    const Duration ttl =
        options.ttl > Duration::zero()
            ? std::clamp<Duration>(options.ttl, limits::kMemberTtlMin, limits::kMemberTtlMax)
            : Duration(limits::kSessionTtl);
    // Request the heartbeats before the join, because after the join the daemon expects a sign of
    // life within the ttl.
    connection_->send_heartbeats(ttl / kHeartbeatsPerTtl);
    next(options.step);
    try {
      watcher_ = start_thread("membership", [this] { watch_status(); });
      watchdog_ = start_thread("membership", [this] { fence_when_silent(); });
    } catch (...) {
      shut();  // the destructor will not run, so end the first thread and leave the group
      throw;
    }
  }

  ~DaemonMembership() override { shut(); }

  Generation generation() const override {
    require_home();
    const std::lock_guard lock(mutex_);
    return now_;
  }

  bool on_own_thread() const {
    const std::thread::id self = std::this_thread::get_id();
    return self == watcher_.get_id() || self == watchdog_.get_id();
  }

  std::vector<Member> members() override;
  GroupState state() const override {
    require_home();
    const std::lock_guard lock(mutex_);
    return state_;
  }

  std::shared_ptr<void> on_change(std::function<void(const GroupState&)> listener) override;
  Generation next(std::uint64_t step) override;
  void leave(const std::string& detail) override { end(Leave::Kind::leave, detail); }
  void finish(const std::string& detail) override { end(Leave::Kind::finish, detail); }
  void fail(const std::string& detail, std::uint64_t generation) override {
    end(Leave::Kind::fail, detail, generation);
  }

  void progress(const std::string& phase, std::uint64_t step, Duration limit) override {
    connection_->post(Progress{group(), generation().number, phase, step, limit}, kCallLimit);
  }
  std::uint64_t notify(const DrainNotice& notice, const std::string& host) override {
    Notify request{group(),      notice.preempt ? Notice::Kind::preempt : Notice::Kind::drain,
                   notice.ranks, host,
                   notice.left,  notice.reason};
    return expect<Counted>(connection_->call(std::move(request), kCallLimit)).count;
  }
  void acknowledge(std::uint64_t notice) override {
    expect<Done>(connection_->call(Acknowledge{group(), notice}, kCallLimit));
  }

  void barrier(const std::string& name, Duration timeout,
               std::vector<std::uint32_t> participants) override {
    const Participant self = participant_among(participants, format("barrier \"{}\"", name));
    barriers_.barrier(name, {self.rank, self.size, self.generation, timeout},
                      {group(), std::move(participants)});
  }
  std::vector<std::string> exchange(const std::string& name, std::vector<std::string> parts,
                                    ExchangeOptions options,
                                    std::vector<std::uint32_t> participants) override {
    const Participant self = participant_among(participants, format("exchange \"{}\"", name));
    options.rank = self.rank;
    options.world_size = self.size;
    options.generation = self.generation;
    return barriers_.exchange(name, std::move(parts), options, {group(), std::move(participants)});
  }

  const std::string& group() const override { return join_.group; }
  const std::shared_ptr<Client>& client() const override { return client_; }

 private:
  /// The place of this process in a barrier, and the generation to which the barrier is bound.
  struct Participant {
    std::uint32_t rank;  ///< among the participants
    std::uint32_t size;  ///< number of participants
    std::uint64_t generation;
  };
  using Listener = std::function<void(const GroupState&)>;

  void require_home() const { home_.require("membership", "connect and join again"); }
  void shut();
  Participant participant_among(const std::vector<std::uint32_t>& participants,
                                const std::string& what) const;
  Leave leaving(Leave::Kind kind, const std::string& detail, std::uint64_t generation = 0) const {
    return {join_.group, generation, kind, detail.substr(0, limits::kReasonBytes)};
  }
  void end(Leave::Kind kind, const std::string& detail, std::uint64_t generation = 0);
  void watch_status();
  void fence_when_silent();
  std::shared_ptr<void> take_turn(Duration timeout);
  void update(const GroupStatus& status);
  void notify_listeners();

  const std::shared_ptr<Client> client_;
  const std::shared_ptr<Connection> connection_;
  BarrierCalls barriers_;
  const Join join_;  ///< the join request; each next() sets the fields `round` and `step` of a copy
  const HomeProcess home_;

  // Lets one notification of the listeners run at a time. This mutex is recursive, because a
  // listener may destroy its own handle. Lock order: notifying_ before mutex_.
  std::recursive_mutex notifying_;
  mutable std::mutex mutex_;  // guards the fields below; never held during a call that blocks
  bool joining_ = false;      // one next() at a time
  std::condition_variable joined_;
  Generation now_;
  GroupState state_;
  std::uint64_t seen_ = 0;  // number of the newest status
  std::vector<Member> members_;
  std::uint64_t members_of_ = 0;  // the round whose members are in members_
  std::vector<std::weak_ptr<Listener>> listeners_;
  bool left_ = false;
  bool stop_ = false;
  Recall watching_;
  std::condition_variable stopped_;
  std::thread watcher_;
  std::thread watchdog_;
};

/// Ends the threads. Leaves the group unless this process has left it already.
void DaemonMembership::shut() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  // Ends the watch, which would block for up to kStatusWatch.
  connection_->recall(watching_, failure(Code::closed, "the membership has ended"));
  for (std::thread* thread : {&watcher_, &watchdog_}) {
    if (thread->joinable()) thread->join();
  }
  if (!left_) static_cast<void>(connection_->call(leaving(Leave::Kind::leave, ""), kLeaveLimit));
}

// ---- joining and leaving -----------------------------------------------------------------------

Generation DaemonMembership::next(std::uint64_t step) {
  require_home();
  Join join = join_;
  join.step = step;
  join.timeout = call_limit(join.timeout);
  const std::shared_ptr<void> turn = take_turn(join.timeout);
  {
    const std::lock_guard lock(mutex_);
    join.round = now_.round;
  }
  const Reply reply = connection_->call(std::move(join), kCallLimit);
  // A join whose reply has not come may have reached the daemon, which could then give this process
  // a place, or has done so. A Leave request withdraws it. If the daemon itself has timed the join
  // out, the request changes nothing.
  const bool withdraw = !reply && (reply.error().code == Code::timed_out || !connection_->open() ||
                                   is_ended_by_caller(reply.error()));
  if (withdraw) connection_->post(leaving(Leave::Kind::leave, ""), kCallLimit);
  const Joined joined = expect<Joined>(reply);
  {
    const std::lock_guard lock(mutex_);
    now_ = {joined.round,  joined.generation, joined.rank,  joined.size,
            joined.digest, joined.failures,   joined.reason};
    left_ = false;
    // If the watch has already delivered a newer status, that status stays.
    if (joined.status > seen_) {
      seen_ = joined.status;
      state_ = {};
      state_.round = joined.round;
      state_.generation = joined.generation;
      state_.reason = joined.reason;
    }
    state_.fenced = false;
  }
  notify_listeners();
  return generation();
}

/// Waits until no other thread joins; throws TimedOut. The next one joins when the result is
/// destroyed.
std::shared_ptr<void> DaemonMembership::take_turn(Duration timeout) {
  std::unique_lock lock(mutex_);
  const auto is_free = [this] { return !joining_; };
  switch (wait_until(lock, joined_, boot_time() + timeout, is_free)) {
    case Waited::ready:
      break;
    case Waited::late:
      throw_failure(failure(Code::timed_out,
                            "another thread has been joining group \"{}\" for more than {}",
                            group(), human(timeout)));
    case Waited::ended_by_caller:
      throw_failure(ended_by_caller());
  }
  joining_ = true;
  return {this, [this](void*) {
            const std::lock_guard ended(mutex_);
            joining_ = false;
            joined_.notify_all();
          }};
}

void DaemonMembership::end(Leave::Kind kind, const std::string& detail, std::uint64_t generation) {
  require_home();
  bool before = false;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(left_, true);  // a process that leaves is not fenced any more
  }
  const Reply reply = connection_->call(leaving(kind, detail, generation), kCallLimit);
  if (!reply) {
    const std::lock_guard lock(mutex_);
    left_ = before;
  }
  expect<Done>(reply);
}

DaemonMembership::Participant DaemonMembership::participant_among(
    const std::vector<std::uint32_t>& participants, const std::string& what) const {
  const Generation now = generation();
  if (participants.empty()) return {now.rank, now.size, now.number};
  const auto own = std::ranges::find(participants, now.rank);
  if (own == participants.end()) {
    throw InvalidArgument(
        format("{}: this process is rank {}, which is not among the participants {}", what,
               now.rank, fold(participants)));
  }
  return {static_cast<std::uint32_t>(own - participants.begin()),
          static_cast<std::uint32_t>(participants.size()), now.number};
}

std::vector<Member> DaemonMembership::members() {
  require_home();
  const Generation now = generation();
  {
    const std::lock_guard lock(mutex_);
    if (members_of_ == now.round) return members_;
  }
  // Reads the member list in pages. Two threads may both do this; they read equal lists.
  std::vector<Member> all;
  while (all.size() < now.size) {
    const ReadMembers read{group(), now.number, static_cast<Rank>(all.size())};
    const MemberPage page = expect<MemberPage>(connection_->call(read, kCallLimit));
    wire::Reader reader(page.list.view());
    for (std::uint32_t i = 0; i < page.count && reader.ok(); ++i) {
      MemberInfo m;
      reader.get(m);
      all.push_back({m.rank, std::move(m.host), m.pid, m.local_rank, std::move(m.device),
                     std::move(m.domain), std::move(m.labels), m.step, m.previous_rank});
    }
    if (!reader.ok() || page.count == 0) {
      throw_failure(failure(Code::malformed,
                            "a reply with {} of the group's {} members is malformed at byte {}",
                            page.count, now.size, reader.offset()));
    }
  }
  const std::lock_guard lock(mutex_);
  members_ = all;
  members_of_ = now.round;
  return all;
}

// ---- status ------------------------------------------------------------------------------------

std::shared_ptr<void> DaemonMembership::on_change(Listener listener) {
  require_home();
  auto kept = std::make_shared<Listener>(std::move(listener));
  const std::lock_guard one(notifying_);
  GroupState state;
  {
    const std::lock_guard lock(mutex_);
    listeners_.push_back(kept);
    state = state_;
  }
  (*kept)(state);
  // Destroying the handle waits until a running call of the listener has returned.
  return {kept.get(), [kept, weak = weak_from_this()](void*) mutable {
            const auto self = weak.lock();
            if (!self || self->home_.forked()) return;
            const std::lock_guard last(self->notifying_);
            kept.reset();
          }};
}

void DaemonMembership::notify_listeners() {
  const std::lock_guard one(notifying_);
  std::vector<std::shared_ptr<Listener>> notified;
  GroupState state;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(listeners_, [](const auto& listener) { return listener.expired(); });
    for (const auto& listener : listeners_) notified.push_back(listener.lock());
    state = state_;
  }
  for (const auto& listener : notified) {
    if (listener) (*listener)(state);
  }
}

void DaemonMembership::update(const GroupStatus& status) {
  {
    const std::lock_guard lock(mutex_);
    if (status.number <= seen_) return;
    seen_ = status.number;
    const bool fenced = state_.fenced;  // only next() ends a fence
    state_ = state_of(status);
    state_.fenced = fenced;
  }
  notify_listeners();
}

void DaemonMembership::watch_status() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const WatchGroup watch{group(), seen_, kStatusWatch};
    lock.unlock();
    const Reply reply = connection_->call(watch, kStatusWatch, &watching_);
    if (reply) update(std::get<GroupStatus>(*reply));
    lock.lock();
    // A watch fails if the daemon refuses it or is unreachable for kStatusWatch. It is repeated
    // after a pause.
    if (!reply) stopped_.wait_for(lock, kRetry, [this] { return stop_; });
  }
}

/// Fences this process before the daemon can declare it lost. Otherwise this process and its
/// replacement could act as the same rank.
void DaemonMembership::fence_when_silent() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    // Compute `since` under the mutex. Otherwise next() could clear the fence after `since` was
    // computed, and this thread would set the fence again.
    const Duration since = connection_->since_confirmed();
    // The daemon uses the shortest ttl of all groups that this session has joined.
    const Duration fence_after = connection_->heartbeat_limit() * (kHeartbeatsPerTtl - 1);
    if (since < fence_after || state_.fenced || left_) {
      const Duration left = std::max<Duration>(fence_after - since, fence_after / 10);
      stopped_.wait_for(lock, std::min(left, kCheckMax), [this] { return stop_; });
      continue;
    }
    state_.fenced = true;
    state_.reason = format(
        "the daemon has not replied for {}: it may have declared this process lost", human(since));
    lock.unlock();
    notify_listeners();
    lock.lock();
  }
}

}  // namespace

std::shared_ptr<Membership> join_group(std::shared_ptr<Client> client,
                                       std::shared_ptr<Connection> connection,
                                       const RendezvousOptions& options) {
  // A listener that runs on a thread of the membership may drop the last reference to the
  // membership. The destructor joins that thread, so the destructor must run on another thread.
  const auto end = [home = HomeProcess()](DaemonMembership* membership) {
    if (home.forked()) return;
    if (!membership->on_own_thread()) {
      delete membership;
    } else {
      std::thread([membership] { delete membership; }).detach();
    }
  };
  return std::shared_ptr<DaemonMembership>(
      new DaemonMembership(std::move(client), std::move(connection), options), end);
}

}  // namespace c10dd::client
