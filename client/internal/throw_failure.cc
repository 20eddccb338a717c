// SPDX-License-Identifier: Apache-2.0
#include "client/internal/throw_failure.h"

#include <algorithm>
#include <iterator>

namespace c10dd::client {
namespace {

// By MissingRank::Cause.
constexpr const char* kCauses[] = {"never_connected", "not_arrived", "disconnected", "elsewhere",
                                   "silent",          "dead",        "absent",       "left"};

std::string name_of_cause(MissingRank::Cause cause) {
  const auto index = static_cast<std::size_t>(cause);
  return index < std::size(kCauses) ? kCauses[index] : "unknown";
}

MissingRank::Cause cause_named(const std::string& name) {
  const auto found = std::find(std::begin(kCauses), std::end(kCauses), name);
  return static_cast<MissingRank::Cause>(found - std::begin(kCauses));
}

}  // namespace

std::vector<Missing> missing_of(const std::vector<MissingRank>& ranks) {
  std::vector<Missing> missing;
  missing.reserve(ranks.size());
  for (const MissingRank& m : ranks) {
    missing.push_back({m.rank, m.host, name_of_cause(m.cause), m.doing, m.silent_for, m.pid});
  }
  return missing;
}

std::vector<MissingRank> ranks_of(const std::vector<Missing>& missing) {
  std::vector<MissingRank> ranks;
  ranks.reserve(missing.size());
  for (const Missing& m : missing) {
    ranks.push_back({m.rank, cause_named(m.cause), m.host, m.pid, m.silent_for, m.doing});
  }
  return ranks;
}

void throw_failure(const Failure& reason) {
  switch (reason.code) {
    case Code::timed_out:
      throw TimedOut(reason.detail, missing_of(reason.missing));
    case Code::not_found:
      throw NotFound(reason.detail);
    case Code::invalid_argument:
      throw InvalidArgument(reason.detail);
    case Code::too_large:
      throw InvalidArgument(reason.code, reason.detail);
    case Code::state_rolled_back:
      throw StateRolledBack(reason.detail);
    case Code::aborted:
      throw Aborted(reason.detail, missing_of(reason.missing));
    case Code::unavailable:
      throw Unavailable(reason.detail, missing_of(reason.missing));
    case Code::stale_generation:
      throw StaleGeneration(reason.detail);
    case Code::outcome_unknown:
      throw OutcomeUnknown(reason.detail);
    case Code::session_replaced:
      throw SessionReplaced(reason.detail);
    case Code::work_finished:
      throw WorkFinished(reason.detail);
    case Code::compacted:
      throw Compacted(reason.detail);
    case Code::disk_full:
      throw DiskFull(reason.detail);
    case Code::quota_exceeded:
      throw QuotaExceeded(reason.detail);
    case Code::forked:
      throw Forked(reason.detail);
    // These codes get a plain Error, because a caller can do no more than report the failure. There
    // is no default case, so that the compiler warns if a new code is missing here.
    case Code::ok:
    case Code::malformed:
    case Code::unknown_op:
    case Code::version_unsupported:
    case Code::wrong_type:
    case Code::out_of_range:
    case Code::size_mismatch:
    case Code::rank_taken:
    case Code::sequence_reused:
    case Code::window_exceeded:
    case Code::session_unknown:
    case Code::session_superseded:
    case Code::session_expired:
    case Code::not_owner:
    case Code::permission_denied:
    case Code::unauthenticated:
    case Code::unsupported:
    case Code::closed:
    case Code::internal:
      break;
  }
  throw Error(reason.code, reason.detail);
}

}  // namespace c10dd::client
