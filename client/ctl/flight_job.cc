// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/flight_job.h"

#include <algorithm>
#include <iterator>
#include <map>
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
  explicit JobBuilder(const std::vector<RankRecord>& records) : records_(records) {}

  std::vector<JobGroup> groups() {
    find_ranks();
    using Key = std::pair<std::string_view, const Ranks*>;
    const auto less = [](const Key& a, const Key& b) {
      return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
    };
    std::map<Key, std::vector<FlightMember>, decltype(less)> by_name(less);
    for (const RankRecord& one : records_) {
      for (const FlightGroup& group : one.record.groups) {
        by_name[{group.name, &group.ranks}].push_back({one.rank, place_of(one.rank), &one, &group});
      }
    }
    std::vector<JobGroup> all;
    std::map<std::string, std::size_t> labels;
    for (auto& [key, members] : by_name) {
      JobGroup group{.name = std::string(key.first)};
      group.label = label_of(members);
      group.number = all.size() + 1;
      group.members = std::move(members);
      const Ranks ranks = key.second->empty() ? guessed(group) : *key.second;
      group.complete = !ranks.empty();
      add_members(group, ranks);
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

  /// The ranks that the records name, ascending. Only after groups().
  const Ranks& ranks() const { return ranks_; }
  const RankRecord* record_of(Rank rank) const {
    const auto at = std::ranges::lower_bound(records_, rank, {}, &RankRecord::rank);
    return at == records_.end() || at->rank != rank ? nullptr : &*at;
  }

 private:
  void find_ranks() {
    std::set<Rank> all;
    for (const RankRecord& one : records_) {
      all.insert(one.rank);
      all.insert(one.record.newest_group.begin(), one.record.newest_group.end());
      for (const FlightGroup& group : one.record.groups) {
        all.insert(group.ranks.begin(), group.ranks.end());
      }
    }
    ranks_.assign(all.begin(), all.end());
  }
  std::size_t place_of(Rank rank) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(ranks_, rank) - ranks_.begin());
  }

  static std::string label_of(const std::vector<FlightMember>& members) {
    for (const FlightMember& one : members) {
      const std::string& text = one.group->description;
      if (!text.empty() && text != "undefined") return text;
    }
    return members.front().group->name;
  }

  /// Returns the ranks of a group of which they are not recorded, as far as they are known from
  /// more than its operations; nothing if they are not.
  Ranks guessed(const JobGroup& group) const {
    if (group.label == "default_pg") return ranks_;
    for (const FlightMember& one : group.members) {
      const auto& all = one.group->operations;
      // All members with a record have taken part.
      if (std::ranges::any_of(all, &FlightOperation::is_over)) return {};
    }
    for (const FlightMember& one : group.members) {
      const auto& others = one.record->record.groups;
      const bool newest = std::ranges::all_of(
          others, [&](const FlightGroup& other) { return other.number <= one.group->number; });
      if (newest && !one.record->record.newest_group.empty()) {
        return one.record->record.newest_group;
      }
    }
    return {};
  }

  /// Adds those that have recorded nothing of the group. Its members are in ascending order.
  void add_members(JobGroup& group, const Ranks& ranks) const {
    std::vector<FlightMember> others;
    for (const Rank rank : ranks) {
      if (std::ranges::binary_search(group.members, rank, {}, &FlightMember::rank)) continue;
      others.push_back({rank, place_of(rank), record_of(rank), nullptr});
    }
    std::ranges::move(others, std::back_inserter(group.members));
    std::ranges::sort(group.members, {}, &FlightMember::rank);
  }

  const std::vector<RankRecord>& records_;
  Ranks ranks_;
};

/// Says of each rank what its record shows, for the sentence.
std::vector<RankFacts> facts_of(const JobBuilder& job, const std::vector<WaitFor>& wait_fors) {
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
  std::vector<WaitFor> wait_fors;
  std::vector<Deviation> deviations;
  std::vector<FlightGroupView> calm;
  for (const JobGroup& group : job.groups()) {
    GroupWaits waits = find_waits(group);
    const bool waits_here = !waits.wait_fors.empty() || !waits.deviations.empty();
    (waits_here ? out.groups : calm).push_back(std::move(waits.view));
    std::ranges::move(waits.wait_fors, std::back_inserter(wait_fors));
    std::ranges::move(waits.deviations, std::back_inserter(deviations));
  }
  std::ranges::move(calm, std::back_inserter(out.groups));
  for (const Rank rank : job.ranks()) {
    if (job.record_of(rank) == nullptr) out.without_record.push_back(rank);
  }
  out.diagnosis = diagnose(wait_fors, deviations, facts_of(job, wait_fors), newest_time(records));
  return out;
}

}  // namespace c10dd::ctl
