// SPDX-License-Identifier: Apache-2.0
// A run written down by hand, for the tests of the oracles.
#pragma once

#include <string>
#include <utility>

#include "daemon/core/barriers/barriers.h"
#include "daemon/core/keys/key_row.h"
#include "protocol/fields.h"
#include "tests/sim/oracles.h"

namespace c10dd::sim {

inline constexpr SessionId kSession{7, 7};

/// Writes down a run by hand.
class Story {
 public:
  Story() {
    records.jobs["job"] = 1;
    records.loads["job"] = 1;
    records.sessions[kSession].client = 1;
  }

  /// Records a call from one moment to another, and its reply, if it got one.
  Op& call(Request request, std::uint64_t from, std::uint64_t to, std::optional<Reply> reply) {
    Op op = history::written_call(1, std::move(request), from, to, std::move(reply));
    op.job = "job";
    op.session = kSession;
    op.sequence = records.ops.size() + 1;
    records.ops.push_back(std::move(op));
    return records.ops.back();
  }

  /// Makes rows durable as the next revision: by the newest call, or by no call.
  Revision durable(std::vector<Row> rows, std::uint64_t order, bool of_call = true) {
    Step step;
    step.revision = ++revision;
    step.client = of_call ? 1 : 0;
    if (of_call) step.session = kSession;
    step.sequence = of_call ? records.ops.size() : 0;
    step.keeps_answer = of_call;
    step.rows = std::move(rows);
    step.at = TimePoint(std::chrono::seconds(order));
    records.did(1, 1, step);
    records.taken({1, 1, revision - 1, revision, {}}, order);
    return revision;
  }

  /// Records a set that is applied and answered correctly.
  void set(const Bytes& key, const Bytes& value, std::uint64_t from) {
    call(Set{key, value, {}, false}, from, from + 9, ReplyBody(Written{revision + 1}));
    durable({put(key, value, revision + 1)}, from + 1);
  }

  static Row put(const Bytes& key, const Bytes& value, Revision revision, Duration ttl = {}) {
    return {Row::Kind::put, "k" + key, wire::encode(core::KeyRow{revision, value, ttl, {}})};
  }

  Records records;
  Revision revision = 0;
};

inline Reply told(ReplyBody body) { return body; }
inline std::string oracle(const OptionalViolation& violation) {
  return violation ? violation->oracle : "fine";
}

}  // namespace c10dd::sim
