// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_job.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "client/ctl/flight_choice.h"
#include "client/ctl/flight_waits.h"
#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"
#include "protocol/wording.h"

namespace c10dd::ctl {
namespace {

using Ranks = std::vector<Rank>;

/// Puts the records together.
class JobBuilder {
 public:
  explicit JobBuilder(const std::vector<RankRecord>& records) : records_(records) {
    find_ranks();
    find_lists();
  }

  std::vector<JobGroup> groups() const {
    std::map<Key, std::vector<FlightMember>, Less> by_name;
    for (const RankRecord& one : records_) {
      for (const FlightGroup& group : one.record.groups) {
        by_name[{group.name, &ranks_of(group, one.rank)}].push_back(
            {one.rank, place_of(one.rank), &one, &group});
      }
    }
    std::vector<JobGroup> all;
    std::map<std::string, std::size_t> labels;
    for (auto& [key, members] : by_name) {
      JobGroup group{.name = std::string(key.first)};
      group.label = label_of(members);
      group.number = all.size() + 1;
      group.members = std::move(members);
      find_members(group, *key.second);
      ++labels[group.label];
      all.push_back(std::move(group));
    }
    for (JobGroup& group : all) {
      const bool ambiguous = labels[group.label] > 1;
      group.label = "group \"" + printable_name(group.label) + '"';
      if (ambiguous) group.label += " (" + printable(group.name, limits::kNameShown) + ')';
    }
    return all;
  }

  /// The ranks that the records name, ascending.
  const Ranks& ranks() const { return ranks_; }
  const RankRecord* record_of(Rank rank) const {
    const auto at = std::ranges::lower_bound(records_, rank, {}, &RankRecord::rank);
    return at == records_.end() || at->rank != rank ? nullptr : &*at;
  }

 private:
  using Key = std::pair<std::string_view, const Ranks*>;  // a name, and the ranks that have it
  struct Less {
    bool operator()(const Key& a, const Key& b) const {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    }
  };

  void find_ranks() {
    std::set<Rank> all;
    std::size_t most = 0;
    for (const RankRecord& one : records_) {
      all.insert(one.rank);
      most = std::max(most, one.record.newest_size);  // the job has at least as many
      for (const FlightGroup& group : one.record.groups) {
        all.insert(group.ranks.begin(), group.ranks.end());
      }
    }
    for (std::size_t rank = 0; rank < most; ++rank) all.insert(static_cast<Rank>(rank));
    ranks_.assign(all.begin(), all.end());
    has_all_ranks_ =
        ranks_.size() == most && std::ranges::any_of(records_, [&](const auto& one) {
          const auto is_default = [](const FlightGroup& group) { return group.is_default(); };
          return one.record.newest_size == most && one.record.unnamed.empty() &&
                 std::ranges::all_of(one.record.groups, is_default);
        });
  }
  std::size_t place_of(Rank rank) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
  }

  void find_lists() {
    for (const RankRecord& one : records_) {
      for (const FlightGroup& group : one.record.groups) {
        if (!group.ranks.empty()) lists_.insert({group.name, &group.ranks});
      }
    }
  }
  /// Returns the ranks of a group of the record of a rank, also if only other records have them.
  const Ranks& ranks_of(const FlightGroup& group, Rank rank) const {
    if (!group.ranks.empty()) return group.ranks;
    const Ranks* found = nullptr;
    for (auto at = lists_.lower_bound({group.name, &group.ranks});
         at != lists_.end() && at->first == group.name; ++at) {
      if (!std::ranges::binary_search(*at->second, rank)) continue;
      if (found != nullptr) return group.ranks;  // it may be any of them
      found = at->second;
    }
    return found == nullptr ? group.ranks : *found;
  }

  static std::string label_of(const std::vector<FlightMember>& members) {
    for (const FlightMember& one : members) {
      const std::string& text = one.group->description;
      if (!text.empty() && text != "undefined") return text;
    }
    return members.front().group->name;
  }

  /// Adds those that have recorded nothing of the group, and finds out how far each has come. Where
  /// its ranks are not recorded, those count that have used it, unless it is the default group.
  void find_members(JobGroup& group, const Ranks& ranks) const {
    const bool is_default = std::ranges::any_of(
        group.members, [](const FlightMember& one) { return one.group->is_default(); });
    const bool listed = !ranks.empty();
    group.complete = listed || (is_default && has_all_ranks_);
    group.numbered = group.complete || (is_default && ranks_.back() + 1 == ranks_.size());
    const std::optional<std::int64_t> number = is_default ? number_of(group) : std::nullopt;
    if (listed) add_members(group, ranks);
    if (!listed && is_default) add_members(group, ranks_);
    for (FlightMember& one : group.members) {
      if (one.record != nullptr) find_issued(one, number);
    }
  }

  /// Its members are in ascending order.
  void add_members(JobGroup& group, const Ranks& ranks) const {
    std::vector<FlightMember> others;
    for (const Rank rank : ranks) {
      if (std::ranges::binary_search(group.members, rank, {}, &FlightMember::rank)) continue;
      others.push_back({rank, place_of(rank), record_of(rank), nullptr});
    }
    std::ranges::move(others, std::back_inserter(group.members));
    std::ranges::sort(group.members, {}, &FlightMember::rank);
  }

  /// Returns the number that all have for the group; nothing if they have different ones.
  static std::optional<std::int64_t> number_of(const JobGroup& group) {
    std::optional<std::int64_t> number;
    for (const FlightMember& one : group.members) {
      if (one.group->number < 0 || one.group->number == number) continue;
      if (number) return std::nullopt;
      number = one.group->number;
    }
    return number;
  }

  /// `number` is that of the group in all records, if it is known.
  static void find_issued(FlightMember& of, std::optional<std::int64_t> number) {
    constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    const FlightRecord& record = of.record->record;
    if (of.group != nullptr && (of.group->issued >= 0 || !of.group->operations.empty())) {
      of.issued_at_least = of.issued_at_most = of.group->issued;
      return;
    }
    if (record.lost_older) of.issued_at_most = kAny;
    for (const FlightUnnamed& one : record.unnamed) {
      of.issued_at_most = std::max(of.issued_at_most, one.issued);
      if (one.number != number) continue;
      of.issued_at_least = of.issued_at_most = one.issued;
      return;
    }
  }

  const std::vector<RankRecord>& records_;
  Ranks ranks_;
  bool has_all_ranks_ = false;  // ranks_ has all ranks of the job
  std::set<Key, Less> lists_;   // those that are recorded
};

/// Says of each rank what its record shows, for the sentence.
std::vector<RankFacts> facts_of(const JobBuilder& job, const std::vector<WaitFor>& wait_fors,
                                const std::vector<std::size_t>& untold) {
  std::vector<RankFacts> facts;
  std::vector<std::int64_t> written;
  for (const Rank rank : job.ranks()) {
    const RankRecord* const one = job.record_of(rank);
    RankFacts& of = facts.emplace_back(RankFacts{.rank = rank});
    of.doing = one == nullptr ? "without a flight record" : "outside of collectives";
    written.push_back(one == nullptr ? 0 : one->written);
    if (one == nullptr) continue;
    of.host = one->record.host;
    of.pid = one->record.pid;
  }
  for (const WaitFor& wait : wait_fors) {
    for (const std::size_t place : wait.awaited) {
      const bool older = written[place] != 0 && TimePoint(Duration(written[place])) < wait.since;
      if (older) facts[place].doing = "outside of collectives in an older record";
    }
  }
  for (const std::size_t place : untold) {
    facts[place].doing = "without its older operations in the record";
  }
  return facts;
}

TimePoint newest_time(const std::vector<RankRecord>& records) {
  std::int64_t newest = 0;
  for (const RankRecord& one : records) newest = std::max({newest, one.written, one.record.newest});
  return TimePoint(Duration(newest));
}

}  // namespace

Result<FlightView> view_flight(std::vector<RankRecord> given) {
  Result<ChosenRecords> chosen = choose_records(std::move(given));
  if (!chosen) return chosen.error();
  const std::vector<RankRecord>& records = chosen->records;
  JobBuilder job(records);
  FlightView out;
  out.left_out = std::move(chosen->left_out);
  for (const RankRecord& one : records) {
    for (const std::string& what : one.record.odd) {
      out.left_out.push_back(format("left out of {}: {}", one.file, what));
    }
  }
  std::vector<WaitFor> wait_fors;
  std::vector<Deviation> deviations;
  std::vector<std::size_t> untold;
  std::vector<FlightGroupView> calm;
  for (const JobGroup& group : job.groups()) {
    GroupWaits waits = find_waits(group);
    const bool waits_here = !waits.wait_fors.empty() || !waits.deviations.empty();
    (waits_here ? out.groups : calm).push_back(std::move(waits.view));
    std::ranges::move(waits.wait_fors, std::back_inserter(wait_fors));
    std::ranges::move(waits.deviations, std::back_inserter(deviations));
    std::ranges::move(waits.untold, std::back_inserter(untold));
  }
  std::ranges::move(calm, std::back_inserter(out.groups));
  for (const Rank rank : job.ranks()) {
    if (job.record_of(rank) == nullptr) out.without_record.push_back(rank);
  }
  out.diagnosis =
      diagnose(wait_fors, deviations, facts_of(job, wait_fors, untold), newest_time(records));
  return out;
}

}  // namespace c10dd::ctl
