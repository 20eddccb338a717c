// SPDX-License-Identifier: Apache-2.0
// Composes the time-out texts that operators read.
#include "daemon/core/waiting/missing.h"

#include <algorithm>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kRanksDescribed = 8;

/// Returns true if the session of an arrival has no connection. Such an arrival keeps the barrier
/// from being released. If the barrier is bound to a group, always returns false, because then the
/// group decides which members are lost.
bool is_absent(const Arrival& arrival, const Sessions& sessions) {
  const Session* session = sessions.find(arrival.session);
  return arrival.group.empty() && (session == nullptr || !session->connected);
}

std::string how_it_left(const Departed& departed, TimePoint now) {
  return format(
      "{} {}; see the end of its log",
      departed.expired ? "its session expired without a connection" : "it closed its session",
      departed.at ? human(now - *departed.at) + " ago" : "before the daemon was restarted");
}

/// Returns the timed_out failure of a request that was waiting for the ranks of an earlier launch
/// to leave. `one` is one of them.
Failure earlier_launch(const BarrierKey& key, const Session& one, Duration timeout,
                       const Everybody& everybody) {
  Failure result = failure(Code::timed_out, "");
  std::vector<Rank> ranks;
  const BarrierState* state = everybody.barriers.find(key);
  for (Rank rank = 0; state != nullptr && state->complete && rank < state->cohort->sessions.size();
       ++rank) {
    const Session* session = everybody.sessions.find(state->cohort->sessions[rank]);
    if (session == nullptr || !session->connected) continue;
    ranks.push_back(rank);
    if (result.missing.size() == limits::kMissingNamed) continue;
    result.missing.push_back({.rank = rank,
                              .cause = MissingRank::Cause::elsewhere,
                              .host = session->host,
                              .pid = session->pid,
                              .silent_for = everybody.now - everybody.sessions.last_heard(*session),
                              .doing = "the launch before"});
  }
  result.detail = format(
      "{} timed out after {}: ranks {} of the launch before are still connected, such as {}; end "
      "them, let them destroy their process group and initialize again, or give this launch its "
      "own run ID",
      describe(key), human(timeout), fold(ranks), process_of(&one));
  return result;
}

}  // namespace

MissingRank look_up(Rank rank, const BarrierKey& key, const BarrierState& barrier,
                    const Everybody& everybody) {
  MissingRank missing;
  const Group* group = everybody.groups.find(barrier.group);
  const Session* session = nullptr;
  const SessionId* id = nullptr;
  if (group != nullptr) {
    const Rank place = barrier.rank_in_group(rank);
    missing = group->describe(place);
    if (place < group->size()) id = &group->sessions()[place];
    session = id == nullptr ? nullptr : everybody.sessions.find(*id);
    if (missing.cause == MissingRank::Cause::dead) session = nullptr;
  } else {
    id = barrier.holder(rank);
    if (id == nullptr) id = everybody.sessions.id_of_rank(rank);
    session = id == nullptr ? nullptr : everybody.sessions.find(*id);
  }
  missing.rank = rank;
  const Departed* const departed = everybody.sessions.departed(rank);
  if (session == nullptr && departed != nullptr &&
      missing.cause == MissingRank::Cause::never_connected) {
    missing.cause = MissingRank::Cause::left;
    missing.host = departed->host;
    missing.pid = departed->pid;
    missing.doing = how_it_left(*departed, everybody.now);
    if (departed->at) missing.silent_for = everybody.now - *departed->at;
  }
  if (session == nullptr) return missing;
  missing.host = session->host;
  missing.pid = session->pid;
  missing.silent_for = everybody.now - everybody.sessions.last_heard(*session);
  missing.cause = MissingRank::Cause::not_arrived;
  const bool has_arrived = group == nullptr && barrier.holder(rank) != nullptr;
  if (!session->connected) {
    missing.cause = has_arrived ? MissingRank::Cause::absent : MissingRank::Cause::disconnected;
  } else if (missing.silent_for > kSilent) {
    missing.cause = MissingRank::Cause::silent;
  } else if (const BarrierKey* other = everybody.barriers.elsewhere(*id, key)) {
    missing.cause = MissingRank::Cause::elsewhere;
    missing.doing = describe(*other);
  }
  return missing;
}

AbsentRanks absent_ranks(const BarrierKey& key, const BarrierState& barrier,
                         const Everybody& everybody) {
  AbsentRanks absent{barrier.missing(), {}, {}};
  for (const auto& [rank, arrival] : barrier.arrivals) {
    if (is_absent(arrival, everybody.sessions)) absent.ranks.push_back(rank);
  }
  std::ranges::sort(absent.ranks);
  absent.text = format("{} of {} ranks missing: {}", absent.ranks.size(), barrier.world_size,
                       fold(absent.ranks));
  for (std::size_t i = 0; i < std::min(absent.ranks.size(), limits::kMissingNamed); ++i) {
    absent.described.push_back(look_up(absent.ranks[i], key, barrier, everybody));
    if (i < kRanksDescribed) absent.text += "; " + sentence(absent.described.back());
  }
  if (absent.ranks.size() > kRanksDescribed) {
    absent.text += format("; and {} more", absent.ranks.size() - kRanksDescribed);
  }
  return absent;
}

Failure missing_ranks(const BarrierKey& key, const BarrierState& barrier, Duration timeout,
                      const Everybody& everybody) {
  AbsentRanks absent = absent_ranks(key, barrier, everybody);
  Failure result = failure(Code::timed_out, "{} timed out after {}: {}", describe(key),
                           human(timeout), absent.text);
  result.missing = std::move(absent.described);
  return result;
}

Failure missing_session(const BarrierKey& key, const SessionId& absent, Duration timeout,
                        const Everybody& everybody) {
  const Session* session = everybody.sessions.find(absent);
  if (session != nullptr && session->connected) {
    return earlier_launch(key, *session, timeout, everybody);
  }
  std::string detail = format("{} timed out after {}: {} has already arrived", describe(key),
                              human(timeout), process_of(session));
  if (session != nullptr) {
    detail += session->seen ? ", lost its connection " + human(everybody.now - session->last_seen) +
                                  " ago and may come back"
                            : ", and has not reconnected since the daemon loaded the job";
    detail += "; it counts as gone after " +
              human(everybody.sessions.gone_at(*session) - session->last_seen);
  }
  return failure(Code::timed_out, detail + "; wait longer, or give this launch its own run ID");
}

}  // namespace c10dd::core
