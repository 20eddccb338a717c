// SPDX-License-Identifier: Apache-2.0
// The words of tests/unit/scripts for groups.
#pragma once

#include <limits>
#include <optional>

#include "tests/unit/core/script_words.h"

namespace c10dd::script {

/// Means the last number that the caller got; the Stage replaces kLast by that number.
inline constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();

/// GROUP MIN:MAX [round=R] [call=T] [ttl=T] [grace=T] [quorum] [rank=N] [spare] [failed] [local=N]
/// [domain=D] [step=N] [labels=N]; the ttl is 10 min unless given.
inline Join join(Arguments& in) {
  Join op;
  op.round = in.number_option<std::uint64_t>("round", kLast);
  op.policy.last_call = in.duration_option("call");
  op.policy.ttl = duration(in.option("ttl", "600s"));
  op.policy.grace = in.duration_option("grace");
  op.policy.quorum = in.flag("quorum");
  op.rank = in.number_option<std::int64_t>("rank", -1);
  op.spare = in.flag("spare");
  op.failed = in.flag("failed");
  op.local_rank = in.number_option<std::int32_t>("local", -1);
  op.domain = in.option("domain", "");
  op.step = in.number_option<std::uint64_t>("step", 0);
  for (auto n = in.number_option<int>("labels", 0); n > 0; --n) {
    op.labels[std::to_string(n)] = Bytes(100, 'x');
  }
  op.timeout = in.timeout;
  op.group = in.bytes();
  const std::string size = in.next("1:1");
  const std::size_t colon = size.find(':');
  op.policy.min = static_cast<std::uint32_t>(number(size.substr(0, colon)));
  op.policy.max = static_cast<std::uint32_t>(number(size.substr(colon + 1)));
  return op;
}

/// GROUP [gen=G] [leave | finish | fail] [DETAIL]
inline Leave leave(Arguments& in) {
  Leave op;
  op.generation = in.number_option<std::uint64_t>("gen", 0);
  op.group = in.bytes();
  op.kind = static_cast<Leave::Kind>(9);
  boost::describe::enum_from_string(in.next("leave").c_str(), op.kind);
  op.detail = in.next();
  return op;
}

/// GROUP drain | preempt [RANKS] [host=H] [deadline=T] [reason=R]
inline Notify notify(Arguments& in) {
  Notify op;
  op.host = in.option("host", "");
  op.deadline = in.duration_option("deadline");
  op.reason = in.option("reason", "");
  op.group = in.bytes();
  op.kind = static_cast<Notice::Kind>(9);
  boost::describe::enum_from_string(in.next().c_str(), op.kind);
  op.ranks = ranks(in.next());
  return op;
}

/// GROUP PHASE STEP [gen=G] [limit=T]
inline Progress progress(Arguments& in) {
  Progress op;
  op.generation = in.number_option<std::uint64_t>("gen", 1);
  op.limit = in.duration_option("limit");
  op.group = in.bytes();
  op.phase = in.next();
  op.step = static_cast<std::uint64_t>(number(in.next("0")));
  return op;
}

/// Returns nothing if `op` is not an operation of groups.
inline std::optional<Request> group_request(const std::string& op, const Words& words) {
  Arguments in(words);
  if (op == "join") return join(in);
  if (op == "leave") return leave(in);
  if (op == "notify") return notify(in);
  if (op == "progress") return progress(in);
  if (op == "members") {
    const auto generation = in.number_option<std::uint64_t>("gen", 0);
    const auto first = in.number_option<Rank>("first", 0);
    return ReadMembers{in.bytes(), generation, first};
  }
  if (op == "follow") {
    const auto seen = in.number_option<std::uint64_t>("seen", kLast);
    return WatchGroup{in.bytes(), seen, in.timeout};
  }
  if (op == "acknowledge") {
    const Bytes group = in.bytes();
    return Acknowledge{group, static_cast<std::uint64_t>(number(in.next()))};
  }
  return std::nullopt;
}

}  // namespace c10dd::script
