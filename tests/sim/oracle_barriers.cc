// SPDX-License-Identifier: Apache-2.0
// Barriers and exchanges release all ranks with one outcome, and no rank early. One that is bound
// to a generation is released only while that generation lasts.
#include <algorithm>

#include "protocol/fields.h"
#include "tests/sim/oracles.h"
#include "tests/sim/workload.h"

namespace c10dd::sim {
namespace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct BarrierState {
  std::uint32_t world_size = 0;
  std::map<Rank, std::uint64_t> first_call;  ///< order
  std::vector<const Op*> calls;
  bool strangers = false;                ///< a live process of an earlier launch may have its rank
  std::uint64_t first_release = kNever;  ///< order of the first good reply
  std::uint64_t over = kNever;  ///< order of the first reply that says its generation has ended
};

std::vector<Bytes> parts_expected(const Exchange& exchange, std::uint64_t launch) {
  std::vector<Bytes> parts;
  const auto part = [&](Rank giver, Rank taker) {
    parts.push_back(exchange_part(launch, exchange.generation, exchange.sequence, giver, taker));
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

/// Returns the parts in the reply of an exchange; empty if it does not hold the whole list.
std::optional<std::vector<Bytes>> parts_told(const Op& op) {
  const auto& exchanged = std::get<Exchanged>(**op.reply);
  std::vector<Bytes> parts;
  wire::Reader reader(exchanged.chunk.view());
  reader.get(parts);
  if (!reader.ok() || !reader.at_end() || exchanged.offset != 0) return std::nullopt;
  return parts;
}

bool recorded(const Op& op) { return op.reply && !*op.reply && op.reply->error().recorded; }

/// Returns true if the outcome may have been forgotten and the barrier begun again.
bool may_be_forgotten(const Records& records, const BarrierState& barrier) {
  return std::ranges::any_of(barrier.calls, [&](const Op* op) {
    const auto it = records.sessions.find(op->session);
    const bool over = it != records.sessions.end() && (it->second.ended || it->second.said_goodbye);
    return over || records.dead_clients.contains(op->client);
  });
}

/// Returns true for a time-out of one call only, not of the barrier: the daemon was away, or
/// another process may have the rank.
bool is_of_one_call(const Op& op) {
  const std::string& detail = op.reply->error().detail;
  return is_of_client(detail) || detail.find("it counts as gone after") != std::string::npos;
}

/// Checks that all calls have one outcome: released, or broken for one reason. Ranks that disagree
/// break a barrier, unless it was released before.
OptionalViolation judge_outcome(const Records& records, const BarrierState& barrier) {
  const Op* broken = nullptr;
  const Op* released = nullptr;
  const Op* refused = nullptr;
  for (const Op* op : barrier.calls) {
    if (op->good()) released = op;
    if (op->code() == Code::size_mismatch && !recorded(*op) && op->launch == 0) refused = op;
    if (!recorded(*op)) continue;
    const bool other = broken != nullptr && describe(*broken->reply) != describe(*op->reply) &&
                       !may_be_forgotten(records, barrier);
    if (other) {
      return Violation{"barriers", describe(*op) + ": another outcome than " + describe(*broken)};
    }
    broken = op;
  }
  if (refused != nullptr && released == nullptr && !may_be_forgotten(records, barrier)) {
    return Violation{"barriers", describe(*refused) + ": only this rank is told"};
  }
  const bool mixed = broken != nullptr && released != nullptr;
  if (!mixed || may_be_forgotten(records, barrier)) return std::nullopt;
  return Violation{"barriers", describe(*broken) + ": broken, but " + describe(*released)};
}

/// Checks that no rank is released with the others that arrives when the generation is known to
/// have ended.
OptionalViolation judge_bound(const BarrierState& barrier) {
  if (barrier.first_release == kNever) return std::nullopt;
  for (const auto& [rank, order] : barrier.first_call) {
    if (order < barrier.over) continue;
    return Violation{"barriers", describe(*barrier.calls.front()) + ": released with rank " +
                                     std::to_string(rank) +
                                     ", who came after its generation was over"};
  }
  return std::nullopt;
}

OptionalViolation judge_barrier(const Records& records, const BarrierState& barrier) {
  for (const Op* op : barrier.calls) {
    if (records.cut_off.contains(op->client)) continue;  // it may be released with a later launch
    if (op->good()) {
      if (barrier.first_call.size() < barrier.world_size) {
        return Violation{"barriers", describe(*op) + ": released, but only " +
                                         std::to_string(barrier.first_call.size()) + " of " +
                                         std::to_string(barrier.world_size) + " ever called"};
      }
      for (const auto& [rank, order] : barrier.first_call) {
        if (order < op->answered) continue;
        return Violation{"barriers", describe(*op) + ": released before rank " +
                                         std::to_string(rank) + " called"};
      }
      const auto* exchange = std::get_if<Exchange>(&op->request);
      if (exchange != nullptr && !barrier.strangers &&
          parts_told(*op) != parts_expected(*exchange, op->launch)) {
        return Violation{"barriers", describe(*op) + ": wrong parts"};
      }
    } else if (op->code() == Code::timed_out && op->invoked > barrier.first_release &&
               !is_of_one_call(*op) && !(op->launch > 0 && may_be_forgotten(records, barrier))) {
      return Violation{"barriers", describe(*op) + ": timed out after another was released"};
    }
  }
  return std::nullopt;
}

/// When a client was first notified that a generation has ended.
class Endings {
 public:
  explicit Endings(const Records& records) {
    for (const Op& op : records.ops) {
      if (!op.good()) continue;
      const ReplyBody& body = **op.reply;
      if (const auto* joined = std::get_if<Joined>(&body)) {
        add(op, std::get<Join>(op.request).group, joined->generation);
      } else if (const auto* status = std::get_if<GroupStatus>(&body)) {
        const bool over = status->generation > 0 && status->phase != GroupPhase::formed;
        add(op, std::get<WatchGroup>(op.request).group, status->generation + (over ? 1 : 0));
      }
    }
  }

  std::uint64_t of(const std::string& job, const std::string& group,
                   std::uint64_t generation) const {
    const auto it = below_.lower_bound({job, group, generation + 1});
    std::uint64_t first = kNever;
    for (auto next = it; next != below_.end(); ++next) {
      if (std::get<0>(next->first) != job || std::get<1>(next->first) != group) break;
      first = std::min(first, next->second);
    }
    return first;
  }

 private:
  /// Records that all generations below this one have ended.
  void add(const Op& op, const std::string& group, std::uint64_t generation) {
    std::uint64_t& first = below_.try_emplace({op.job, group, generation}, kNever).first->second;
    first = std::min(first, op.answered);
  }

  std::map<std::tuple<std::string, std::string, std::uint64_t>, std::uint64_t> below_;
};

}  // namespace

OptionalViolation judge_barriers(const Records& records) {
  using Key =
      std::tuple<std::string, std::uint64_t, std::string, bool, std::uint64_t, std::uint64_t>;
  std::map<Key, BarrierState> barriers;
  const Endings endings(records);
  const auto add = [&](const Op& op, const auto& request, bool exchange) {
    BarrierState& barrier =
        barriers[{op.job, op.launch, request.name, exchange, request.generation, request.sequence}];
    if (op.good() || barrier.world_size == 0) barrier.world_size = request.world_size;
    if (!request.group.empty()) {
      barrier.over = endings.of(op.job, request.group, request.generation);
    }
    if (op.code() != Code::size_mismatch) {
      barrier.first_call.try_emplace(request.rank, op.invoked);
    }
    barrier.calls.push_back(&op);
    if (op.good()) barrier.first_release = std::min(barrier.first_release, op.answered);
  };
  for (const Op& op : records.ops) {
    if (const auto* barrier = std::get_if<Barrier>(&op.request)) add(op, *barrier, false);
    if (const auto* exchange = std::get_if<Exchange>(&op.request)) add(op, *exchange, true);
  }
  for (const Op& op : records.ops) {
    if (!records.cut_off.contains(op.client)) continue;
    const auto visit = [&](const auto& request, bool exchange) {
      for (auto& [key, barrier] : barriers) {
        const auto& [job, launch, group, kind, generation, sequence] = key;
        const bool same = job == op.job && launch > op.launch && group == request.name &&
                          kind == exchange && generation == request.generation &&
                          sequence == request.sequence && barrier.world_size == request.world_size;
        if (!same) continue;
        barrier.strangers = true;
        std::uint64_t& first =
            barrier.first_call.try_emplace(request.rank, op.invoked).first->second;
        first = std::min(first, op.invoked);
      }
    };
    if (const auto* barrier = std::get_if<Barrier>(&op.request)) visit(*barrier, false);
    if (const auto* exchange = std::get_if<Exchange>(&op.request)) visit(*exchange, true);
  }
  for (const auto& [key, barrier] : barriers) {
    if (auto bad = judge_barrier(records, barrier)) return bad;
    if (auto bad = judge_outcome(records, barrier)) return bad;
    if (auto bad = judge_bound(barrier)) return bad;
  }
  return std::nullopt;
}

}  // namespace c10dd::sim
