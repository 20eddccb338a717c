// SPDX-License-Identifier: Apache-2.0
// No member is declared lost without a cause, a dead member is declared lost in time, and all who
// watch the group are notified. Times are those that the daemon itself measured while it served the
// job.
#include <algorithm>

#include "daemon/core/time_left.h"
#include "protocol/limits.h"
#include "tests/sim/group_log.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

using State = core::GroupMember::State;

// The delay until a turn comes, and the steps of job time, which are at most a quarter of a second.
constexpr Duration kSlack = std::chrono::seconds(1);

std::string text_of(Duration d) { return std::to_string(d.count() / 1'000'000) + " ms"; }
std::string text_of(const std::optional<Duration>& d) { return d ? text_of(*d) : "never"; }

std::string text_of(const Loss& loss) {
  return loss.job + ": a member was given up (" + loss.ending + ") at " +
         text_of(loss.at.time_since_epoch()) + "; last frame " + text_of(loss.silent) +
         " before, connection closed " + text_of(loss.away) + " before, the daemon had served " +
         text_of(loss.served);
}

// ---- causes ------------------------------------------------------------------------------------

class LossJudge {
 public:
  explicit LossJudge(const Records& records) : records_(records), policy_(*records.group_policy) {}

  OptionalViolation judge(const Loss& loss) const {
    if (due(loss) && thinks_it_lives(loss)) {
      return Violation{"losses", text_of(loss) + ": its process still counts itself as a member, " +
                                     text_of(loss.unconfirmed) + " after it was confirmed"};
    }
    if (due(loss)) return late(loss);
    if (session_over(loss) || asked_to_leave(loss)) return std::nullopt;
    return Violation{"losses", text_of(loss) + ": it had its time"};
  }

 private:
  /// Returns true if the member's time had passed: the restart grace if the daemon never heard of
  /// it, the grace after its connection closed, else the time to live since its last frame.
  bool due(const Loss& loss) const {
    if (!loss.silent) {
      return loss.served >= core::left_after_load(loss.time_left, records_.restart_grace());
    }
    if (loss.away) return *loss.away >= policy_.grace;
    return *loss.silent >= policy_.ttl;
  }

  /// Returns true if the daemon that gives the member up has never heard of it, while its process
  /// has not fenced itself: it fences itself when four fifths of its ttl are over.
  bool thinks_it_lives(const Loss& loss) const {
    if (!records_.fleet) return false;  // an old owner has no lease: it goes on
    return !loss.silent && loss.unconfirmed && *loss.unconfirmed < policy_.ttl / 10 * 7;
  }

  /// Checks that a loss that was due has not come too late.
  OptionalViolation late(const Loss& loss) const {
    const Duration back = records_.fleet ? limits::kTakeoverGrace + policy_.ttl
                                         : std::max<Duration>(limits::kRestartGrace, policy_.ttl);
    const Duration most = !loss.silent ? core::left_after_load(loss.time_left, back)
                          : loss.away  ? policy_.grace
                                       : policy_.ttl;
    const Duration was = !loss.silent ? loss.served : loss.away ? *loss.away : *loss.silent;
    const bool forgotten = loss.silent && *loss.silent > policy_.ttl + policy_.grace + kSlack;
    if (was <= most + kSlack && !forgotten) return std::nullopt;
    return Violation{"losses", text_of(loss) + ": too late"};
  }

  bool session_over(const Loss& loss) const {
    const auto it = records_.sessions.find(loss.session);
    if (it == records_.sessions.end()) return false;
    if (it->second.said_goodbye) return true;
    const Duration away = loss.silent ? loss.away.value_or(Duration(0)) : loss.served;
    return away >= std::min<Duration>(records_.session_expiry, limits::kSessionExpiry);
  }

  /// Returns true if a notice gave the member a time to leave, and that time has passed.
  bool asked_to_leave(const Loss& loss) const {
    return std::ranges::any_of(records_.ops, [&](const Op& op) {
      const auto* notify = std::get_if<Notify>(&op.request);
      return notify != nullptr && op.job == loss.job && notify->deadline > Duration(0) &&
             loss.at - op.invoked_at >= notify->deadline * 1'000 / kFastest;
    });
  }

  const Records& records_;
  const RendezvousPolicy& policy_;
};

// ---- replies -----------------------------------------------------------------------------------

class NewsJudge {
 public:
  NewsJudge(const Records& records, const std::string& job)
      : records_(records), job_(job), log_(records.log(job)) {}

  OptionalViolation judge() {
    for (const Op& op : records_.ops) {
      if (op.job != job_) continue;
      const auto* watch = std::get_if<WatchGroup>(&op.request);
      if (watch == nullptr || !op.good()) continue;
      const auto& status = std::get<GroupStatus>(**op.reply);
      const GroupHistory& history = log_.of(watch->group);
      if (auto wrong = judge_lost(history, op, status)) return wrong;
      if (auto wrong = judge_stalled(history, op, status)) return wrong;
      if (records_.quiet == 0 || op.invoked < records_.quiet) continue;
      if (auto wrong = judge_quiet(history, op, status)) return wrong;
    }
    return std::nullopt;
  }

 private:
  Violation violation(const Op& op, const std::string& text) const {
    return {"news", job_ + ": " + describe(op) + ": " + text};
  }

  /// Checks that a member that a reply calls lost or finished has ended, durably.
  OptionalViolation judge_lost(const GroupHistory& history, const Op& op,
                               const GroupStatus& status) const {
    if (status.lost.empty() && status.finished.empty()) return std::nullopt;
    const Formation* list = history.list_of(status.generation, op.answered);
    for (Rank rank = 0; list != nullptr && rank < list->sessions.size(); ++rank) {
      const bool lost = names(status.lost, rank);
      const bool finished = names(status.finished, rank);
      if (!lost && !finished) continue;
      const bool ended = std::ranges::any_of(history.endings, [&](const Ending& ending) {
        return ending.session == list->sessions[rank] && ending.durable < op.answered &&
               ending.generation == status.generation &&
               (ending.state == State::finished) == finished;
      });
      if (!ended) return violation(op, "rank " + std::to_string(rank) + " has not ended");
    }
    return std::nullopt;
  }

  /// Checks that a member that a reply calls stalled had promised a report, and may not have sent
  /// it.
  OptionalViolation judge_stalled(const GroupHistory& history, const Op& op,
                                  const GroupStatus& status) const {
    const Formation* list = history.list_of(status.generation, op.answered);
    if (list == nullptr || status.stalled.empty()) return std::nullopt;
    for (Rank rank = 0; rank < list->sessions.size(); ++rank) {
      if (!names(status.stalled, rank) || has_stalled(list->sessions[rank], op)) continue;
      return violation(op, "rank " + std::to_string(rank) + " has broken no promise");
    }
    return std::nullopt;
  }

  bool has_stalled(const SessionId& session, const Op& told) const {
    std::uint64_t newest = 0;  // newest report that had certainly arrived before
    for (const Op& op : records_.ops) {
      const bool counts = op.session == session && op.good() && op.answered < told.invoked;
      if (counts && std::holds_alternative<Progress>(op.request)) {
        newest = std::max(newest, op.invoked);
      }
    }
    return std::ranges::any_of(records_.ops, [&](const Op& op) {
      const auto* report = std::get_if<Progress>(&op.request);
      return report != nullptr && op.session == session && report->limit > Duration(0) &&
             (op.answered == 0 || op.answered >= newest || !op.good()) &&
             told.answered_at - op.invoked_at >= report->limit * 1'000 / kFastest;
    });
  }

  /// Checks the state long after all faults: dead members are reported, no notice is overdue, and
  /// all who watch the group have the newest status.
  OptionalViolation judge_quiet(const GroupHistory& history, const Op& op,
                                const GroupStatus& status) const {
    const Formation* list = history.list_of(status.generation, op.answered);
    for (Rank rank = 0; list != nullptr && rank < list->sessions.size(); ++rank) {
      if (names(status.lost, rank) || names(status.finished, rank)) continue;
      if (is_over(list->sessions[rank])) {
        return violation(op, "rank " + std::to_string(rank) + " is dead, and nobody is told");
      }
    }
    for (const Notice& notice : status.notices) {
      if (notice.left == Duration(1)) return violation(op, "a notice is overdue");
    }
    for (const Op& other : records_.ops) {
      const auto* watch = std::get_if<WatchGroup>(&other.request);
      const bool follows = watch != nullptr && other.job == job_ && watch->timeout > Duration(0);
      const bool waits = follows && other.invoked < records_.quiet &&
                         (other.answered == 0 || other.answered > records_.quiet);
      // A daemon that has dropped the job does not know it before the next request.
      if (!waits || records_.takeovers > 0) continue;
      if (records_.dead_clients.contains(other.client)) continue;
      if (watch->seen < status.number) {
        return violation(other, "it waits, but there are news " + std::to_string(status.number));
      }
    }
    return std::nullopt;
  }

  bool is_over(const SessionId& session) const {
    const auto it = records_.sessions.find(session);
    return it != records_.sessions.end() && records_.dead_by_then.contains(it->second.client);
  }

  const Records& records_;
  const std::string& job_;
  const GroupLog log_;
};

}  // namespace

OptionalViolation judge_losses(const Records& records) {
  if (!records.group_policy) return std::nullopt;
  const LossJudge judge(records);
  for (const Loss& loss : records.losses) {
    if (auto bad = judge.judge(loss)) return bad;
  }
  for (const auto& [job, number] : records.jobs) {
    if (auto bad = NewsJudge(records, job).judge()) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
