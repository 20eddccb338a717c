// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges release all with one outcome, and nobody early.
#include <algorithm>

#include "protocol/fields.h"
#include "tests/sim/oracles.h"
#include "tests/sim/workload.h"

namespace c10dd::sim {
namespace {

struct Meeting {
  std::uint32_t world_size = 0;
  std::map<Rank, std::uint64_t> first_call;  ///< order
  std::vector<const Op*> calls;
  std::uint64_t first_release = ~std::uint64_t{0};  ///< order of the first good answer
};

std::vector<Bytes> parts_expected(const Exchange& exchange) {
  std::vector<Bytes> parts;
  const auto part = [&](Rank giver, Rank taker) {
    parts.push_back(exchange_part(exchange.generation, exchange.sequence, giver, taker));
  };
  const bool gets = exchange.shape == Shape::all || exchange.rank == exchange.root;
  for (Rank giver = 0; giver < exchange.world_size; ++giver) {
    if (exchange.shape == Shape::transpose) part(giver, exchange.rank);
    if (exchange.shape == Shape::all && gets) part(giver, 0);
    if (exchange.shape == Shape::to_root && gets) part(giver, 0);
  }
  if (exchange.shape == Shape::from_root) part(exchange.root, exchange.rank);
  return parts;
}

/// What the answer of an exchange brings, if it is a whole list.
std::optional<std::vector<Bytes>> parts_told(const Op& op) {
  const auto& exchanged = std::get<Exchanged>(**op.answer);
  std::vector<Bytes> parts;
  wire::Reader reader(exchanged.chunk.view());
  reader.get(parts);
  if (!reader.ok() || !reader.at_end() || exchanged.offset != 0) return std::nullopt;
  return parts;
}

Judgement judge_meeting(const Meeting& meeting) {
  for (const Op* op : meeting.calls) {
    if (op->good()) {
      if (meeting.first_call.size() < meeting.world_size) {
        return Violation{"meetings", describe(*op) + ": released, but only " +
                                         std::to_string(meeting.first_call.size()) + " of " +
                                         std::to_string(meeting.world_size) + " ever called"};
      }
      for (const auto& [rank, order] : meeting.first_call) {
        if (order < op->answered) continue;
        return Violation{"meetings", describe(*op) + ": released before rank " +
                                         std::to_string(rank) + " called"};
      }
      const auto* exchange = std::get_if<Exchange>(&op->request);
      if (exchange != nullptr && parts_told(*op) != parts_expected(*exchange)) {
        return Violation{"meetings", describe(*op) + ": wrong parts"};
      }
    } else if (op->code() == Code::timed_out && op->invoked > meeting.first_release &&
               op->answer->error().detail.find("the daemon at") == std::string::npos) {
      return Violation{"meetings", describe(*op) + ": timed out after another was released"};
    }
  }
  return std::nullopt;
}

}  // namespace

Judgement judge_meetings(const Records& records) {
  using Key = std::tuple<std::string, bool, std::uint64_t, std::uint64_t>;
  std::map<Key, Meeting> meetings;
  const auto add = [&](const Op& op, const auto& request, bool exchange) {
    Meeting& meeting = meetings[{op.job, exchange, request.generation, request.sequence}];
    meeting.world_size = request.world_size;
    meeting.first_call.try_emplace(request.rank, op.invoked);
    meeting.calls.push_back(&op);
    if (op.good()) meeting.first_release = std::min(meeting.first_release, op.answered);
  };
  for (const Op& op : records.ops) {
    if (const auto* barrier = std::get_if<Barrier>(&op.request)) add(op, *barrier, false);
    if (const auto* exchange = std::get_if<Exchange>(&op.request)) add(op, *exchange, true);
  }
  for (const auto& [key, meeting] : meetings) {
    if (auto bad = judge_meeting(meeting)) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
