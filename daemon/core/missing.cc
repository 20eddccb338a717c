// SPDX-License-Identifier: Apache-2.0
// Texts for the operator who waits.
#include "daemon/core/missing.h"

#include <algorithm>

#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

constexpr std::size_t kRanksDescribed = 8;

MissingRank look_up(Rank rank, const Sessions& sessions, TimePoint now) {
  MissingRank missing;
  missing.rank = rank;
  if (const Session* session = sessions.find_rank(rank)) {
    missing.cause =
        session->connected ? MissingRank::Cause::not_arrived : MissingRank::Cause::disconnected;
    missing.host = session->host;
    missing.pid = session->pid;
    missing.silent_for = now - session->last_seen;
  }
  return missing;
}

std::string sentence(const MissingRank& missing) {
  const std::string rank = "rank " + std::to_string(missing.rank);
  if (missing.cause == MissingRank::Cause::never_connected) return rank + " never connected";
  const std::string where = " on host " + printable(missing.host, limits::kNameBytes) + " (pid " +
                            std::to_string(missing.pid) + ")";
  const bool here = missing.cause == MissingRank::Cause::not_arrived;
  return rank + where +
         (here ? " is connected but has not arrived, last heard "
               : " is disconnected, last heard ") +
         human(missing.silent_for) + " ago";
}

}  // namespace

Failure missing_ranks(const MeetingKey& key, const Meeting& meeting, const Sessions& sessions,
                      Duration timeout, TimePoint now) {
  const std::vector<Rank> ranks = meeting.missing();
  Failure result = failure(Code::timed_out, describe(key) + " timed out after " + human(timeout) +
                                                ": " + std::to_string(ranks.size()) + " of " +
                                                std::to_string(meeting.world_size) +
                                                " ranks missing: " + fold(ranks));
  for (std::size_t i = 0; i < std::min(ranks.size(), limits::kMissingNamed); ++i) {
    result.missing.push_back(look_up(ranks[i], sessions, now));
    if (i < kRanksDescribed) result.detail += "; " + sentence(result.missing.back());
  }
  return result;
}

}  // namespace c10dd::core
