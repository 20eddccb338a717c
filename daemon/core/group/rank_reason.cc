// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/rank_reason.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::core {
namespace {

class Reason {
 public:
  Reason(const Candidates& candidates, const RankPlan& plan, const std::vector<const Hole*>& holes)
      : candidates_(candidates), plan_(plan) {
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
      note(static_cast<Rank>(rank), candidates[plan.ranks[rank]], holes[rank]);
    }
  }

  std::string text(std::size_t size_before, std::uint32_t max) const {
    std::string text =
        plan_.ranks.size() == 1 ? "1 rank" : std::to_string(plan_.ranks.size()) + " ranks";
    const bool requested = !plan_.ranks.empty() && candidates_[plan_.ranks[0]].requested_rank >= 0;
    text += size_before == 0 ? ", the first generation"
                             : ", " + std::to_string(size_before) + " before";
    if (requested) {
      text += ", as requested";
    } else if (size_before == 0) {
      text += ", by domain, host and local rank";
    }
    if (!kept_.empty()) text += "; " + named(kept_) + " kept";
    for (std::size_t i = 0; i < reassignments_.size(); ++i) {
      const std::string change = "; " + sentence(reassignments_[i]);
      if (text.size() + change.size() > kChangesEnd) {
        text += "; and " + std::to_string(reassignments_.size() - i) + " more";
        break;
      }
      text += change;
    }
    return text + parked(max);
  }

 private:
  /// Ranks that one host gets from one old host, or from none. One sentence names these ranks.
  struct Reassignment {
    std::vector<Rank> ranks;
    std::vector<Rank> before;  // former ranks of the members; empty if they had none
    const Hole* hole = nullptr;
    const Candidate* now = nullptr;
  };

  static constexpr std::size_t kNameBytes = 32;
  static constexpr std::size_t kRangesBytes = 40;
  static constexpr std::size_t kChangesEnd = 340;

  void note(Rank rank, const Candidate& now, const Hole* hole) {
    if (now.previous_rank == std::int64_t{rank}) return kept_.push_back(rank);
    const bool moves = now.previous_rank >= 0;
    const auto [it, is_new] = numbers_.try_emplace(
        {hole ? where(*hole) : Where(), where(now), hole != nullptr, moves, !moves && now.spare},
        reassignments_.size());
    if (is_new) reassignments_.push_back({{}, {}, hole, &now});
    reassignments_[it->second].ranks.push_back(rank);
    if (moves) reassignments_[it->second].before.push_back(static_cast<Rank>(now.previous_rank));
  }

  static std::string sentence(Reassignment change) {
    const std::string ranks = named(change.ranks);
    const std::string host = name(change.now->host);
    if (!change.before.empty()) {
      std::sort(change.before.begin(), change.before.end());
      return "former " + named(change.before) + " (" + host + ") become" +
             (change.before.size() == 1 ? "s " : " ") + ranks +
             (change.hole ? " in place of " + name(change.hole->host) : "");
    }
    const bool one = change.ranks.size() == 1;
    const std::string by = (change.now->spare ? "the spare " : "") + host;
    if (!change.hole) return ranks + (one ? " is new: " : " are new: ") + by;
    return ranks + " (" + name(change.hole->host) + (one ? ") is" : ") are") +
           (where(*change.hole) == where(*change.now)
                ? " replaced on the same host"
                : " replaced by " + by + domains(change.hole->domain, change.now->domain));
  }

  static std::string domains(const std::string& before, const std::string& now) {
    if (before.empty() || now.empty()) return "";
    if (before == now) return ", of the same domain " + name(now);
    return ", of domain " + name(now) + " instead of " + name(before);
  }

  std::string parked(std::uint32_t max) const {
    if (plan_.parked.empty()) return "";
    std::vector<std::string> hosts;
    for (const std::size_t index : plan_.parked) {
      const std::string& host = candidates_[index].host;
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
      if (hosts.size() > 2) break;
    }
    const bool full = plan_.ranks.size() == max;
    return (full ? "; left over: " : "; left over as spares: ") +
           std::to_string(plan_.parked.size()) + " (" + name(hosts[0]) +
           (hosts.size() > 1 ? ", " + name(hosts[1]) : "") + (hosts.size() > 2 ? ", ...)" : ")") +
           (full ? ", at most " + std::to_string(max) + " have a place" : "");
  }

  static std::string name(const std::string& host_or_domain) {
    const std::string text = printable(host_or_domain, kNameBytes);
    return text.size() < host_or_domain.size() ? text + "..." : text;
  }

  static std::string named(const std::vector<Rank>& ranks) {
    if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
    std::string ranges = fold(ranks);
    if (ranges.size() > kRangesBytes) {
      ranges.resize(ranges.rfind(',', kRangesBytes));
      ranges += ",...]";
    }
    return "ranks " + ranges;
  }

  const Candidates& candidates_;
  const RankPlan& plan_;
  std::vector<Rank> kept_;
  std::vector<Reassignment> reassignments_;  // by lowest rank
  std::map<std::tuple<Where, Where, bool, bool, bool>, std::size_t> numbers_;
};

}  // namespace

std::string reason_of(const Candidates& candidates, const RankPlan& plan,
                      const std::vector<const Hole*>& holes, std::size_t size_before,
                      std::uint32_t max) {
  return Reason(candidates, plan, holes).text(size_before, max);
}

}  // namespace c10dd::core
