// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/waiting/waits.h"

#include <algorithm>

#include "daemon/core/keys/counter.h"
#include "protocol/format.h"
#include "protocol/limits.h"

namespace c10dd::core {
namespace {

std::size_t units_of(std::string_view key) { return 1 + key.size() / 64; }

std::size_t units_of(const std::vector<Bytes>& keys) {
  std::size_t units = 0;
  for (const Bytes& key : keys) units += units_of(key);
  return units;
}

/// A visitor that returns the units of the keys or parts that a blocked request holds in memory.
struct HeldUnits {
  std::size_t operator()(const Get& get) const { return units_of(get.key); }
  std::size_t operator()(const Wait& wait) const { return units_of(wait.keys); }
  std::size_t operator()(const MultiGet& get) const { return units_of(get.keys); }
  std::size_t operator()(const WaitCounter& wait) const { return units_of(wait.key); }
  std::size_t operator()(const Exchange& exchange) const { return units_of(exchange.parts); }
  template <class Op>
  std::size_t operator()(const Op&) const {
    return 0;
  }
};

/// Returns the weight of a blocked request: an estimate of the memory that the request uses. The
/// weight is the larger of two numbers: the missing tokens (each is an entry of an index), and a
/// quarter of the units of all keys or parts. A key or part has 1 unit, plus 1 unit for every 64
/// bytes.
std::size_t weight_of(const Request& request, std::size_t missing) {
  return std::max(missing, std::visit(HeldUnits{}, request) / 4);
}

/// A visitor that returns the bytes of the keys or parts in a blocked request, and of lists that
/// grow with a group. A key that a token has counts once.
struct HeldBytes {
  static constexpr std::size_t kEntry = 48;  // a string in a list, with what its memory costs more

  std::size_t operator()(const std::vector<Bytes>& parts) const {
    std::size_t bytes = 0;
    for (const Bytes& part : parts) bytes += kEntry + part.size();
    return bytes;
  }
  std::size_t operator()(const Get& get) const { return get.key.size(); }
  std::size_t operator()(const Wait& wait) const { return (*this)(wait.keys); }
  std::size_t operator()(const MultiGet& get) const { return (*this)(get.keys); }
  std::size_t operator()(const WaitCounter& wait) const { return 2 * wait.key.size(); }
  std::size_t operator()(const Watch& watch) const { return watch.key.size(); }
  std::size_t operator()(const QueuePop& pop) const { return pop.key.size(); }
  std::size_t operator()(const Barrier& barrier) const {
    return barrier.participants.size() * sizeof(Rank);
  }
  std::size_t operator()(const Exchange& exchange) const {
    return (*this)(exchange.parts) + exchange.participants.size() * sizeof(Rank);
  }
  std::size_t operator()(const Join& join) const {
    std::size_t bytes = 0;
    for (const auto& [name, value] : join.labels) bytes += 2 * kEntry + name.size() + value.size();
    return bytes;
  }
  template <class Op>
  std::size_t operator()(const Op&) const {
    return 0;
  }
};

/// Returns how long the caller of the request had waited before it was sent.
Duration waited_before(const Request& request) {
  const Duration waited = std::visit(
      [](const auto& r) {
        if constexpr (requires { r.waited; }) return r.waited;
        return Duration::zero();
      },
      request);
  return std::clamp<Duration>(waited, Duration::zero(), limits::kTimeoutMax);
}

/// Returns an estimate of the memory of a blocked request: of its entry in the tables, and of each
/// token's entry in the index.
std::size_t memory_of(const Pending::Waiter& waiter) {
  constexpr std::size_t kWaiter = 1'024;
  constexpr std::size_t kToken = 224;
  return kWaiter + waiter.tokens.size() * kToken + std::visit(HeldBytes{}, waiter.request);
}

template <class Op>
[[noreturn]] void never_blocks(const Op&) {
  assertion_failed(Op::op.name.data(), __FILE__, __LINE__);
}

}  // namespace

// ---- blocking ----------------------------------------------------------------------------------

OptionalReply Waits::block(Step& step, Request request, Duration timeout,
                           const std::optional<SessionId>& absent) {
  Waiter blocked = waiter(step, std::move(request), timeout, absent);
  if (blocked.timeout == Duration::zero()) {
    WaitRules::WaitContext look{
        .session = blocked.session, .now = step.now, .revision = step.revision};
    Reply reply = overdue(blocked, look);
    step.observe(look.observed);
    return reply;
  }
  const std::size_t bytes = memory_of(blocked);
  if (auto full = check_room(step, blocked, bytes)) return Reply(std::move(*full));
  blocked.charge = Charge(step.account(), bytes, &Account::waits);
  pending_.add(std::move(blocked));
  return std::nullopt;
}

Waits::Waiter Waits::waiter(const Step& step, Request request, Duration timeout,
                            const std::optional<SessionId>& absent) const {
  Waiter waiter;
  waiter.session = step.from.session;
  waiter.sequence = step.call.sequence;
  waiter.fingerprint = step.call.fingerprint;
  waiter.request = std::move(request);
  waiter.absent = absent;
  waiter.tokens = absent ? std::vector{Blob(presence_token(*absent))} : tokens_of(waiter.request);
  waiter.weight = weight_of(waiter.request, waiter.tokens.size());
  waiter.started = step.now;
  const bool c10d = step.session != nullptr && step.session->c10d;
  const auto* wait = std::get_if<Wait>(&waiter.request);
  waiter.observes = step.session != nullptr && step.session->observes;
  waiter.reserves = c10d && !waiter.observes && wait != nullptr && wait->keys.size() == 1;
  if (c10d && timeout == Duration::max()) {
    waiter.timeout = timeout;
    waiter.deadline = TimePoint::max();
  } else {
    waiter.timeout = std::clamp<Duration>(timeout, Duration::zero(), limits::kTimeoutMax);
    waiter.deadline = step.now + waiter.timeout;
    if (waiter.timeout > Duration::zero()) waiter.timeout += waited_before(waiter.request);
  }
  if (step.again != nullptr) {
    waiter.started = step.again->started;
    waiter.timeout = step.again->timeout;
    waiter.deadline = step.again->deadline;
  }
  return waiter;
}

std::optional<Failure> Waits::check_room(const Step& step, const Waiter& waiter,
                                         std::size_t bytes) const {
  const AccountRef account = step.account();
  if (auto full = check_share(account.get(), "blocked requests", account ? account->waits : 0,
                              pending_.size(), quotas_.waits)) {
    return full;
  }
  if (auto full = step.allowance.refuses(bytes, "this blocked request")) return full;
  const std::size_t keys = pending_.weight() + waiter.weight;
  if (keys > quotas_.waited_keys) {
    return failure(Code::quota_exceeded,
                   "blocked requests wait for too many keys: {} with this request, limit {}", keys,
                   quotas_.waited_keys);
  }
  return std::nullopt;
}

void Waits::key_set(Step& step, std::string_view key, std::string_view value) const {
  if (pending_.empty()) return;
  if (Bytes token = key_token(key); waits_for(token)) step.signal(std::move(token));
  if (!pending_.counts(key)) return;
  const std::optional<std::int64_t> number = number_at_start(value);
  if (!number) return;
  std::vector<Bytes> reached;
  pending_.counter_tokens(key, *number, reached);
  for (Bytes& token : reached) step.signal(std::move(token));
}

void Waits::key_changed(Step& step, std::string_view key) const {
  if (pending_.empty()) return;
  if (Bytes token = change_token(key); waits_for(token)) step.signal(std::move(token));
  std::vector<Bytes> prefixes;
  pending_.prefix_tokens(key, prefixes);
  for (Bytes& token : prefixes) {
    if (step.prefixes.insert(token).second) step.signal(std::move(token));
  }
}

// ---- dispatch by operation ---------------------------------------------------------------------

std::vector<Blob> Waits::tokens_of(const Request& request) const {
  return std::visit(
      [&](const auto& op) -> std::vector<Blob> {
        if constexpr (requires { rules_.tokens(op); }) return rules_.tokens(op);
        never_blocks(op);
      },
      request);
}

OptionalReply Waits::ready(const Waiter& waiter, WaitRules::WaitContext& look) const {
  return std::visit(
      [&](const auto& op) -> OptionalReply {
        if constexpr (requires { rules_.ready(op, look); }) return rules_.ready(op, look);
        never_blocks(op);
      },
      waiter.request);
}

Reply Waits::overdue(const Waiter& waiter, WaitRules::WaitContext& look) const {
  return std::visit(
      [&](const auto& op) -> Reply {
        if constexpr (requires { rules_.overdue(waiter, op, look); }) {
          return rules_.overdue(waiter, op, look);
        }
        never_blocks(op);
      },
      waiter.request);
}

Reply Waits::time_out(Step& step, const Waiter& waiter, WaitRules::WaitContext& look) {
  return std::visit(
      [&](const auto& op) -> Reply {
        if constexpr (requires { rules_.time_out(step, waiter, op, look); }) {
          return rules_.time_out(step, waiter, op, look);
        }
        return overdue(waiter, look);
      },
      waiter.request);
}

// ---- leaving -----------------------------------------------------------------------------------

/// Returns true if the token says that a key was set, but the step has also removed the key: then
/// nobody has seen it.
bool Waits::is_over(const Bytes& token) const {
  return token.front() == kKeyToken && !rules_.is_there(std::string_view(token).substr(1), true);
}

void Waits::release(Step& step) {
  for (const Signal& signal : std::exchange(step.signals, {})) {
    if (is_over(signal.token)) continue;
    for (Waiter& waiter : pending_.fire(signal.token)) recheck(step, std::move(waiter));
  }
  step.prefixes.clear();
}

void Waits::release_all_but_status(Step& step) {
  std::vector<Signal> status;
  for (Signal& signal : step.signals) {
    if (signal.status) status.push_back(std::move(signal));
  }
  std::erase_if(step.signals, [](const Signal& signal) { return signal.status; });
  release(step);
  step.signals = std::move(status);
}

/// Answers the waiter if its request can complete. Otherwise blocks it again for the tokens that
/// are missing now: for example, a key may have been removed meanwhile.
void Waits::recheck(Step& step, Waiter waiter) {
  WaitRules::WaitContext look{
      .session = waiter.session, .now = step.now, .revision = step.revision, .since = step.next};
  if (OptionalReply reply = ready(waiter, look)) {
    return finish(step, waiter, std::move(*reply), look.observed);
  }
  waiter.tokens = tokens_of(waiter.request);
  pending_.add(std::move(waiter));
}

bool Waits::time_out(Step& step, const Diagnosis& diagnosis) {
  bool diagnosed = false;
  std::vector<Waiter> overdue = pending_.expire(step.now);
  // Handles watches of groups last, because other time-outs may change the status of the groups.
  std::stable_partition(overdue.begin(), overdue.end(), [](const Waiter& waiter) {
    return !std::holds_alternative<WatchGroup>(waiter.request);
  });
  const WaitRules::Shortages shortages = rules_.shortages(overdue);
  for (const Waiter& waiter : overdue) {
    WaitRules::WaitContext look{.session = waiter.session,
                                .now = step.now,
                                .revision = step.revision,
                                .shortages = &shortages,
                                .diagnosis = &diagnosis};
    Reply reply = time_out(step, waiter, look);
    diagnosed = diagnosed || (look.diagnosed && !waiter.observes);
    finish(step, waiter, std::move(reply), look.observed);
  }
  return diagnosed;
}

void Waits::abort(Step& step, const SessionId& session, const char* why) {
  for (const Waiter& waiter : pending_.drop(session)) {
    finish(step, waiter, failure(Code::aborted, why), 0);
  }
}

void Waits::forget(Step& step, const SessionId& session) {
  for (const Waiter& waiter : pending_.drop(session)) note_given_up(step, waiter, "disconnected");
}

std::optional<Waits::Waiter> Waits::cancel(Step& step, std::uint64_t sequence) {
  std::optional<Waiter> waiter = pending_.drop(step.from.session, sequence);
  if (waiter) note_given_up(step, *waiter, "cancelled");
  return waiter;
}

void Waits::note_given_up(Step& step, const Waiter& waiter, std::string_view cause) {
  const Session* const session = sessions_.find(waiter.session);
  if (session == nullptr || waiter.tokens.empty()) return;
  if (auto event = given_up_.note(step.now, waiter, *session, cause,
                                  pending_.waiters(waiter.tokens.front()))) {
    step.out.events.push_back(std::move(*event));
  }
}

void Waits::finish(Step& step, const Waiter& waiter, Reply reply, Revision observed) const {
  const OpInfo& op = info_of(waiter.request);
  const Code outcome = reply ? Code::ok : reply.error().code;
  step.out.events.push_back(WaitEnded{op.code, outcome, step.now - waiter.started});
  step.out.replies.emplace_back(waiter.session, waiter.sequence, op.code, Evidence::state,
                                std::move(reply), observed);
}

}  // namespace c10dd::core
