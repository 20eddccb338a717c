// SPDX-License-Identifier: Apache-2.0
// Sessions, keys with a time to live and keys of sessions end when they may, not before.
#include "daemon/core/keys/key_row.h"
#include "protocol/fields.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {
namespace {

/// What the newest row of a key says about its end.
struct Alive {
  core::KeyRow row;
  TimePoint since;
};

class LifeJudge {
 public:
  LifeJudge(const Records& records, const std::string& job) : records_(records), job_(job) {}

  OptionalViolation judge() {
    for (const Step& step : records_.log(job_)) {
      for (const Row& row : step.rows) {
        if (row.key.empty() || row.key[0] != 'k') continue;
        const Bytes key = row.key.substr(1);
        if (row.kind == Row::Kind::put) {
          if (const auto value = wire::decode<core::KeyRow>(row.value))
            alive_[key] = {*value, step.at};
        } else if (row.kind == Row::Kind::erase) {
          if (auto bad = judge_end(step, key)) return bad;
          alive_.erase(key);
        } else {
          std::erase_if(alive_, [&](const auto& each) { return each.first.starts_with(key); });
        }
      }
    }
    if (!records_.drained) return std::nullopt;
    for (const auto& [key, alive] : alive_) {
      if (alive.row.ttl == Duration(0) && alive.row.owner == SessionId{}) continue;
      return Violation{"lives", job_ + ": key " + key + " should have ended by itself"};
    }
    return std::nullopt;
  }

 private:
  /// Returns true if the session may have been ended at this moment. With two daemons that is
  /// always possible.
  bool may_have_ended(const SessionId& session, TimePoint at) const {
    const auto it = records_.sessions.find(session);
    if (it == records_.sessions.end() || it->second.said_goodbye || records_.takeovers > 0)
      return true;
    return it->second.away_at(at) >= shortest(records_.session_expiry);
  }

  /// Judges the end of a key in a step without a call, or in the step of a hello or goodbye.
  OptionalViolation judge_end(const Step& step, const Bytes& key) const {
    const auto it = alive_.find(key);
    if (it == alive_.end() || step.sequence != 0) return std::nullopt;
    const core::KeyRow& row = it->second.row;
    const bool too_soon = row.ttl == Duration(0) || step.at - it->second.since < shortest(row.ttl);
    if (too_soon && row.owner == SessionId{}) {
      return Violation{"lives", job_ + ": key " + key + " ended " +
                                    std::to_string((step.at - it->second.since).count() / 1000) +
                                    " us after it was set, to live " +
                                    std::to_string(row.ttl.count() / 1000) + " us"};
    }
    if (too_soon && !may_have_ended(row.owner, step.at)) {
      return Violation{"lives", job_ + ": key " + key + " ended before its session"};
    }
    return std::nullopt;
  }

  const Records& records_;
  const std::string& job_;
  std::map<Bytes, Alive> alive_;
};

}  // namespace

OptionalViolation judge_lives(const Records& records) {
  for (const auto& [job, number] : records.jobs) {
    if (auto bad = LifeJudge(records, job).judge()) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
