// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

using Ranks = std::vector<Rank>;
using Places = std::vector<std::size_t>;

constexpr std::string_view kOneJob = "; give the records of one run of one job only";
constexpr std::size_t kMostRounds = 256;  // each looks at all records

std::string shown(std::string_view name) { return '"' + printable(name, limits::kNameShown) + '"'; }

/// Returns the name of a file without the rank in which it ends.
std::string_view prefix_of(std::string_view file) {
  file = file.substr(0, file.rfind('.') == file.npos ? file.npos : file.rfind('.'));
  return file.substr(0, file.find_last_not_of("0123456789") + 1);
}

/// Two records that cannot be of one run, or one that contradicts itself.
struct Contradiction {
  std::size_t one;
  std::size_t other;
  std::string what;  ///< behind the names of both, or of the one
};

class Choice {
 public:
  explicit Choice(std::vector<RankRecord> records) : records_(std::move(records)) {
    std::ranges::stable_sort(records_, {}, &RankRecord::rank);
    kept_.assign(records_.size(), true);
    for (const RankRecord& one : records_) ++prefixes_[prefix_of(one.file)];
  }

  Result<ChosenRecords> made() {
    leave_other_jobs_out();
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (!kept_[at]) continue;
      if (auto wrong = self_contradiction(at)) leave_out(at, *wrong);
    }
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      const auto found = contradiction();
      if (!found) break;
      const std::size_t odd = odder(found->one, found->other);
      leave_out(odd, *found);
    }
    if (const auto left = contradiction()) return refused(*left);
    if (2 * left_out_.size() >= records_.size() && !left_out_.empty()) return refused(*first_);
    ChosenRecords chosen{{}, std::move(left_out_)};
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (kept_[at]) chosen.records.push_back(std::move(records_[at]));
    }
    return chosen;
  }

 private:
  std::string pair_text(const Contradiction& of) const {
    const std::string& one = records_[of.one].file;
    if (of.one == of.other) return format("{} {}", one, of.what);
    return format("{} and {} {}", one, records_[of.other].file, of.what);
  }
  Failure refused(const Contradiction& why) const {
    return failure(Code::invalid_argument, "{}{}", pair_text(why), kOneJob);
  }

  void leave_out(std::size_t at, const Contradiction& why) {
    kept_[at] = false;
    left_out_.push_back(format("left out {}: {}", records_[at].file, pair_text(why)));
    if (!first_) first_ = why;
  }

  void leave_other_jobs_out() {
    std::map<std::string_view, std::size_t> jobs;
    for (const RankRecord& one : records_) ++jobs[one.record.job];
    if (jobs.size() < 2) return;
    const auto most =
        std::ranges::max_element(jobs, {}, [](const auto& job) { return job.second; });
    const auto is_of = [&](const RankRecord& one) { return one.record.job == most->first; };
    const auto example =
        static_cast<std::size_t>(std::ranges::find_if(records_, is_of) - records_.begin());
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (is_of(records_[at])) continue;
      const auto [low, high] = std::minmax(at, example);
      leave_out(at, {low, high,
                     format("are of the jobs {} and {}", shown(records_[low].record.job),
                            shown(records_[high].record.job))});
    }
  }

  std::optional<Contradiction> self_contradiction(std::size_t at) const {
    const RankRecord& one = records_[at];
    for (const FlightGroup& group : one.record.groups) {
      if (group.ranks.empty() || std::ranges::binary_search(group.ranks, one.rank)) continue;
      return Contradiction{at, at,
                           format("is of rank {}, but its group {} has the ranks {}", one.rank,
                                  shown(group.name), fold(group.ranks))};
    }
    return std::nullopt;
  }

  /// Returns the places of the records of a rank that are kept.
  Places of_rank(Rank rank) const {
    Places found;
    auto at = std::ranges::lower_bound(records_, rank, {}, &RankRecord::rank);
    for (; at != records_.end() && at->rank == rank; ++at) {
      const auto place = static_cast<std::size_t>(at - records_.begin());
      if (kept_[place]) found.push_back(place);
    }
    return found;
  }

  /// Returns what two records say differently of a group that the first one has.
  std::optional<Contradiction> difference(std::size_t one, std::size_t other,
                                          const FlightGroup& group) const {
    const auto& groups = records_[other].record.groups;
    const auto same = std::ranges::find(groups, group.name, &FlightGroup::name);
    if (same == groups.end() || same->ranks.empty()) return std::nullopt;
    const auto [low, high] = std::minmax(one, other);
    if (same->ranks != group.ranks) {
      return Contradiction{low, high, "name other ranks of group " + shown(group.name)};
    }
    if (same->identity != group.identity) {
      return Contradiction{low, high, "have different groups " + shown(group.name)};
    }
    return std::nullopt;
  }

  /// What records say of a group, and which of them say so.
  struct Less {
    bool operator()(const FlightGroup* a, const FlightGroup* b) const {
      return std::tie(a->name, a->ranks, a->identity) < std::tie(b->name, b->ranks, b->identity);
    }
  };
  using Claims = std::map<const FlightGroup*, Places, Less>;
  Claims claims() const {
    Claims all;
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (!kept_[at]) continue;
      for (const FlightGroup& group : records_[at].record.groups) {
        if (!group.ranks.empty()) all[&group].push_back(at);
      }
    }
    return all;
  }

  /// Calls use(contradiction, its other record, all that say the same as its one) until it returns
  /// false.
  template <class Use>
  void for_each_difference(const Use& use) const {
    for (const auto& [group, by] : claims()) {
      for (const Rank rank : group->ranks) {
        for (const std::size_t other : of_rank(rank)) {
          const auto found = difference(by.front(), other, *group);
          if (found && !use(*found, other, by)) return;
        }
      }
    }
  }

  std::optional<Contradiction> contradiction() const {
    std::optional<Contradiction> first;
    std::optional<std::size_t> before;
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (!kept_[at]) continue;
      if (before && records_[*before].rank == records_[at].rank) {
        return Contradiction{*before, at, format("are both of rank {}", records_[at].rank)};
      }
      before = at;
    }
    for_each_difference([&](const Contradiction& found, std::size_t, const Places&) {
      first = found;
      return false;
    });
    return first;
  }

  /// Returns which record is to be left out because two contradict each other: one of them, or
  /// another one that contradicts more. Of two that contradict as many, it is the one with which
  /// fewer agree. Of two of one rank, it is one of them.
  std::size_t odder(std::size_t one, std::size_t other) const {
    std::vector<std::size_t> against(records_.size());  // how many each contradicts
    for_each_difference([&](const Contradiction&, std::size_t differs, const Places& by) {
      against[differs] += by.size();
      for (const std::size_t at : by) ++against[at];
      return true;
    });
    std::vector<std::ptrdiff_t> agree(records_.size());
    for (const auto& [group, by] : claims()) {
      for (const std::size_t at : by) agree[at] += static_cast<std::ptrdiff_t>(by.size()) - 1;
    }
    const auto oddness = [&](std::size_t at) {
      const auto named = prefixes_.at(prefix_of(records_[at].file));
      return std::tuple(against[at], -agree[at], records_.size() - named, -records_[at].written);
    };
    const bool same_rank = records_[one].rank == records_[other].rank;
    if (same_rank) return oddness(one) > oddness(other) ? one : other;
    std::size_t odd = oddness(one) > oddness(other) ? one : other;
    for (std::size_t at = 0; at < records_.size(); ++at) {
      if (kept_[at] && against[at] > against[odd]) odd = at;
    }
    return odd;
  }

  std::vector<RankRecord> records_;
  std::vector<bool> kept_;
  std::map<std::string_view, std::size_t> prefixes_;  // how many files have it
  std::vector<std::string> left_out_;
  std::optional<Contradiction> first_;  // of those for which a record was left out
};

}  // namespace

Result<ChosenRecords> choose_records(std::vector<RankRecord> records) {
  return Choice(std::move(records)).made();
}

}  // namespace c10dd::ctl
