// SPDX-License-Identifier: Apache-2.0
// Judges what rows say of the time that is left of timers: a restart takes none of it, and gives
// none back.
#include "daemon/core/row_key.h"
#include "daemon/core/time_left.h"
#include "protocol/fields.h"
#include "tests/sim/daemon.h"
#include "tests/sim/group_log.h"
#include "tests/sim/shard.h"
#include "tests/sim/world.h"

namespace c10dd::sim {
namespace {

std::string text_of(Duration d) { return std::to_string(d.count() / 1'000'000) + " ms"; }

std::string group_of(const Row& row) { return std::string(core::RowKeyReader(row.key).text()); }

}  // namespace

void Shard::note_loaded_rows(Watched& loading, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    if (row.key[0] == 'g') {
      if (auto facts = wire::decode<core::GroupFacts>(row.value)) {
        loading.groups[group_of(row)] = std::move(*facts);
      }
    } else if (row.key[0] == 'm') {
      const auto member = wire::decode<core::GroupMember>(row.value);
      if (member && member->time_left > Duration(0)) {
        loading.time_left[member_of(row)] = member->time_left;
      }
    }
  }
}

void Shard::judge_time_left(const core::JobSlot& slot, const Step& step) {
  Watched& watched = watched_[slot.number];
  for (const Row& row : step.rows) {
    if (row.kind != Row::Kind::put) continue;
    if (row.key[0] == 'm') {
      const auto member = wire::decode<core::GroupMember>(row.value);
      if (member && member->time_left > Duration(0)) {
        judge_return(slot, member_of(row), member->time_left);
      }
    }
    if (row.key[0] != 'g') continue;
    auto facts = wire::decode<core::GroupFacts>(row.value);
    if (!facts) continue;
    core::GroupFacts& before = watched.groups[group_of(row)];
    const bool same = before.status == facts->status && before.policy == facts->policy;
    if (same && before.last_call_left > Duration(0) &&
        facts->last_call_left > before.last_call_left) {
      world_.violated("timers", slot.name + ": " + text_of(before.last_call_left) +
                                    " of a last call were left, then " +
                                    text_of(facts->last_call_left));
    }
    before = std::move(*facts);
  }
}

/// Checks that a note does not take from a member time to return that it still has.
void Shard::judge_return(const core::JobSlot& slot, const SessionId& session, Duration noted) {
  const Watched& watched = watched_[slot.number];
  if (noted == Duration(limits::kTimeLeftMin) || !daemon_.records().group_policy) return;
  const RendezvousPolicy& policy = *daemon_.records().group_policy;
  const TimePoint now = host_->job_time();
  const auto signs = watched.signs.find(session);
  Duration least{0};
  if (signs == watched.signs.end()) {
    const auto loaded = watched.time_left.find(session);
    const Duration had = loaded == watched.time_left.end() ? Duration(0) : loaded->second;
    least = core::left_after_load(had, daemon_.records().restart_grace()) -
            (now - watched.served_since);
  } else if (signs->second.closed) {
    const Duration away = now - *signs->second.closed;
    least = (daemon_.records().fleet ? daemon_.records().restart_grace() : policy.grace) - away;
  } else {
    return world_.violated("timers", slot.name + ": a connected member has time to return");
  }
  if (noted >= least) return;
  world_.violated("timers", slot.name + ": a member has " + text_of(least) +
                                " left to return, but " + text_of(noted) + " were noted");
}

}  // namespace c10dd::sim
