// SPDX-License-Identifier: Apache-2.0
// The blocked requests of one job: blocks a request, answers it when what it waits for is there,
// times it out, and forgets it with its connection or session. How each operation is answered is in
// wait_rules.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "daemon/core/pending.h"
#include "daemon/core/quotas.h"
#include "daemon/core/wait_rules.h"

namespace c10dd::core {

class Waits {
 public:
  using Waiter = Pending::Waiter;

  Waits(const Quotas& quotas, const WaitTables& tables) : quotas_(quotas), rules_(tables) {}

  /// The answer, if what the request waits for is there already.
  template <class Op>
  Maybe ready(Step& step, const Op& op) const {
    WaitRules::Look look{.session = step.from.session, .now = step.now, .revision = step.revision};
    Maybe reply = rules_.ready(op, look);
    step.observe(look.observed);
    return reply;
  }

  /// Blocks the request; or answers at once, when its time-out is not positive or too many are
  /// blocked. It waits for its own tokens, or until the session `absent` is back or gone.
  Maybe block(Step& step, Request request, Duration timeout,
              const std::optional<SessionId>& absent = std::nullopt);

  /// Answers the waiters whose last token came true in this step.
  void release(Step& step);
  /// Likewise, but for those that wait for news of a group, which come later in the step.
  void release_all_but_news(Step& step);

  /// Answers those whose deadline has passed. What others depend on is changed: see WaitRules.
  void time_out(Step& step);

  /// A session has ended: its blocked requests are aborted, and the text says why.
  void abort(Step& step, const SessionId& session, const char* why);
  /// Its connection went: nobody is there to be answered.
  void forget(const SessionId& session) { pending_.drop(session); }
  /// One call is taken back.
  std::optional<Waiter> cancel(const SessionId& session, std::uint64_t sequence) {
    return pending_.drop(session, sequence);
  }

  /// The waiters of a token that are not answered by ready(): the one that has waited longest, or
  /// all.
  std::optional<Waiter> take_one(const Bytes& token) { return pending_.fire_one(token); }
  std::vector<Waiter> take(const Bytes& token) { return pending_.fire(token); }
  /// The answer of a waiter that was taken out.
  void finish(Step& step, const Waiter& waiter, Reply reply, Revision observed) const;

  /// Notes that a key was set or removed. Tokens that nobody waits for are not kept: a step may
  /// change a million keys.
  void key_set(Step& step, const Bytes& key) const;
  void key_changed(Step& step, const Bytes& key) const;

  bool waits_for(const Bytes& token) const { return pending_.waits_for(token); }
  std::optional<TimePoint> next_deadline() const { return pending_.next_deadline(); }
  std::size_t size() const { return pending_.size(); }
  const Pending& pending() const { return pending_; }

 private:
  Waiter waiter(const Step& step, Request request, Duration timeout,
                const std::optional<SessionId>& absent) const;
  std::optional<Failure> check_room(const Waiter& waiter) const;
  void recheck(Step& step, Waiter waiter);

  // the rules for whatever request is blocked
  std::vector<Bytes> tokens_of(const Request& request) const;
  Maybe ready(const Waiter& waiter, WaitRules::Look& look) const;
  Reply overdue(const Waiter& waiter, WaitRules::Look& look) const;
  Reply time_out(Step& step, const Waiter& waiter, WaitRules::Look& look);

  Quotas quotas_;
  WaitRules rules_;
  Pending pending_;
};

}  // namespace c10dd::core
