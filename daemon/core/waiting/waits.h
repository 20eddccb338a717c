// SPDX-License-Identifier: Apache-2.0
// Owns the blocked requests of one job: blocks a request, answers it when it can complete, times it
// out, and drops it when its connection or session ends. WaitRules (wait_rules.h) decides how each
// operation is answered.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "daemon/core/pending.h"
#include "daemon/core/quotas.h"
#include "daemon/core/torch/given_up_waits.h"
#include "daemon/core/waiting/wait_rules.h"

namespace c10dd::core {

class Waits {
 public:
  using Waiter = Pending::Waiter;

  Waits(const Quotas& quotas, const WaitTables& tables)
      : quotas_(quotas), sessions_(tables.sessions), rules_(tables) {}

  /// Returns the reply if the request can complete now; otherwise returns nothing.
  template <class Op>
  OptionalReply ready(Step& step, const Op& op) const {
    WaitRules::WaitContext look{
        .session = step.from.session, .now = step.now, .revision = step.revision};
    OptionalReply reply = rules_.ready(op, look);
    step.observe(look.observed);
    return reply;
  }

  /// Blocks the request and returns nothing; a request of a session with Hello::c10d and the
  /// time-out Duration::max() has no deadline. Returns the time-out reply instead if `timeout` is
  /// not positive, or quota_exceeded if the job's blocked requests or the memory of the sender's
  /// account would exceed a limit. If
  /// `absent` names a session, the request waits until that session is connected again, loses its
  /// connection, counts as gone, or has ended. Otherwise the request waits for the tokens of
  /// WaitRules::tokens().
  OptionalReply block(Step& step, Request request, Duration timeout,
                      const std::optional<SessionId>& absent = std::nullopt);

  /// Answers the waiters whose last token has fired in this step.
  void release(Step& step);
  /// Does the same as release(), but keeps the signals of group status for a later release().
  void release_all_but_status(Step& step);

  /// Answers the waiters whose deadline has come. If one of them waits at a barrier or exchange,
  /// breaks it. If one of them is a join, withdraws it. See WaitRules::time_out(). The replies to
  /// those that have waited for others end with the diagnosis of the job, if there is one. Returns
  /// whether one of them does.
  bool time_out(Step& step, const Diagnosis& diagnosis);

  /// Aborts the blocked requests of a session that ends; `why` is the text of the failures.
  void abort(Step& step, const SessionId& session, const char* why);
  /// Drops the blocked requests of a session that has lost its connection, without replies.
  void forget(Step& step, const SessionId& session);
  /// Removes and returns the waiter of a call that the session of the step cancels, if it is
  /// blocked.
  std::optional<Waiter> cancel(Step& step, std::uint64_t sequence);

  /// Fires a token for its oldest waiter only, which must wait for no other token. Removes and
  /// returns that waiter. The caller must answer it.
  std::optional<Waiter> take_one(const Bytes& token) { return pending_.fire_one(token); }
  /// Does the same, for the oldest waiter with Hello::c10d that waits for this key only.
  std::optional<Waiter> take_one_reserving(const Bytes& token) {
    return pending_.fire_one_reserving(token);
  }
  /// Fires a token. Removes and returns the waiters for which this was the last missing token. The
  /// caller must answer them.
  std::vector<Waiter> take(const Bytes& token) { return pending_.fire(token); }
  /// Sends a reply to a waiter that was removed.
  void finish(Step& step, const Waiter& waiter, Reply reply, Revision observed) const;

  /// Signals that a key was set to a value. Like key_changed(), signals only tokens that have
  /// waiters, because one step may change a million keys.
  void key_set(Step& step, std::string_view key, std::string_view value) const;
  /// Signals that a key was changed in any way.
  void key_changed(Step& step, std::string_view key) const;

  bool waits_for(const Bytes& token) const { return pending_.waits_for(token); }
  std::optional<TimePoint> next_deadline() const { return pending_.next_deadline(); }
  std::size_t size() const { return pending_.size(); }
  const Pending& pending() const { return pending_; }

 private:
  Waiter waiter(const Step& step, Request request, Duration timeout,
                const std::optional<SessionId>& absent) const;
  std::optional<Failure> check_room(const Step& step, const Waiter& waiter,
                                    std::size_t bytes) const;
  bool is_over(const Bytes& token) const;
  void recheck(Step& step, Waiter waiter);
  void note_given_up(Step& step, const Waiter& waiter, std::string_view cause);

  // Each of the next four functions calls a function of WaitRules, in the overload for the type of
  // the blocked request. tokens_of() calls tokens(); the others call the function of the same name.
  // If WaitRules::time_out() has no overload for this type, overdue() is called instead.
  std::vector<Blob> tokens_of(const Request& request) const;
  OptionalReply ready(const Waiter& waiter, WaitRules::WaitContext& look) const;
  Reply overdue(const Waiter& waiter, WaitRules::WaitContext& look) const;
  Reply time_out(Step& step, const Waiter& waiter, WaitRules::WaitContext& look);

  Quotas quotas_;
  const Sessions& sessions_;
  WaitRules rules_;
  Pending pending_;
  GivenUpWaits given_up_;
};

}  // namespace c10dd::core
