// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/group/seating.h"

#include <algorithm>
#include <map>

namespace c10dd::core {

std::vector<HostCandidates> by_host(const Candidates& candidates, const Indices& who) {
  struct Standing {
    std::uint64_t domain_joined, host_joined;
    std::int32_t local_rank;
    std::uint64_t joined;
    std::size_t candidate;
    auto operator<=>(const Standing&) const = default;
  };
  std::map<std::string_view, std::uint64_t> domains;  // lowest Candidate::joined of each domain
  std::map<Where, std::uint64_t> hosts;
  for (const std::size_t index : who) {
    const Candidate& c = candidates[index];
    std::uint64_t& domain = domains.try_emplace(c.domain, c.joined).first->second;
    std::uint64_t& host = hosts.try_emplace(where(c), c.joined).first->second;
    domain = std::min(domain, c.joined);
    host = std::min(host, c.joined);
  }
  std::vector<Standing> order;
  order.reserve(who.size());
  for (const std::size_t index : who) {
    const Candidate& c = candidates[index];
    order.push_back({domains[c.domain], hosts[where(c)], c.local_rank, c.joined, index});
  }
  std::sort(order.begin(), order.end());

  std::vector<HostCandidates> groups;
  for (const Standing& standing : order) {
    const Where at = where(candidates[standing.candidate]);
    if (groups.empty() || groups.back().where != at) {
      groups.push_back({at, standing.host_joined, {}, 0});
    }
    groups.back().members.push_back(standing.candidate);
  }
  return groups;
}

Seating::Seating(Indices ranks, const std::vector<const Hole*>& holes) : ranks_(std::move(ranks)) {
  std::map<Where, std::size_t> known;
  std::size_t unknown = kNobody;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank] != kNobody) continue;
    const Hole* hole = holes[rank];
    std::size_t& block = hole ? known.try_emplace(where(*hole), kNobody).first->second : unknown;
    if (block == kNobody) {
      block = blocks_.size();
      blocks_.push_back({hole ? where(*hole) : Where(), hole != nullptr, {}, 0});
    }
    blocks_[block].ranks.push_back(static_cast<Rank>(rank));
  }
}

void Seating::seat_by_hole(std::vector<HostCandidates> groups) {
  bring_in(std::move(groups), ranks_.size());
  same_host();
  same_size(true);
  same_size(false);
  same_domain();
}

void Seating::rest() {
  std::vector<HostCandidates*> groups;
  for (HostCandidates& group : by_host_) groups.push_back(&group);
  std::vector<Block*> blocks;
  for (Block& block : blocks_) blocks.push_back(&block);
  pour(whole_first(groups, places_), blocks);
}

Indices Seating::pick(std::vector<HostCandidates> groups, std::size_t places) {
  bring_in(std::move(groups), places);
  same_host();
  same_size(true);
  same_domain();
  same_size(false);
  rest();
  return seated_;
}

void Seating::bring_in(std::vector<HostCandidates> groups, std::size_t places) {
  by_host_ = std::move(groups);
  places_ = places;
  seated_.clear();
}

void Seating::same_host() {
  std::map<Where, HostCandidates*> hosts;
  for (HostCandidates& group : by_host_) hosts.emplace(group.where, &group);
  for (Block& block : blocks_) {
    const auto it = hosts.find(block.where);
    if (block.known && it != hosts.end()) pour({it->second}, {&block});
  }
}

void Seating::same_size(bool same_domain) {
  const auto key = [same_domain](Where at, std::size_t size) {
    return std::pair(same_domain ? at.first : std::string_view(), size);
  };
  std::map<std::pair<std::string_view, std::size_t>, std::vector<HostCandidates*>>
      hosts;  // in reverse order, so that pop_back() takes the first host
  for (auto group = by_host_.rbegin(); group != by_host_.rend(); ++group) {
    hosts[key(group->where, group->waiting())].push_back(&*group);
  }
  for (Block& block : blocks_) {
    if (!block.known || block.open() == 0 || block.open() > places_) continue;
    if (same_domain && block.where.first.empty()) continue;
    const auto it = hosts.find(key(block.where, block.open()));
    if (it == hosts.end() || it->second.empty()) continue;
    pour({it->second.back()}, {&block});
    it->second.pop_back();
  }
}

void Seating::same_domain() {
  struct Domain {
    std::vector<HostCandidates*> groups;
    std::vector<Block*> blocks;
    std::size_t open = 0;
  };
  std::map<std::string_view, Domain> domains;
  for (HostCandidates& group : by_host_) domains[group.where.first].groups.push_back(&group);
  std::vector<Domain*> order;  // by lowest rank
  for (Block& block : blocks_) {
    const auto it = domains.find(block.where.first);
    if (!block.known || block.where.first.empty() || it == domains.end()) continue;
    if (it->second.blocks.empty()) order.push_back(&it->second);
    it->second.blocks.push_back(&block);
    it->second.open += block.open();
  }
  for (const Domain* domain : order) {
    pour(whole_first(domain->groups, domain->open), domain->blocks);
  }
}

/// Reorders the hosts: first those whose candidates still all fit into `room`, then the others.
std::vector<HostCandidates*> Seating::whole_first(const std::vector<HostCandidates*>& groups,
                                                  std::size_t room) const {
  room = std::min(room, places_);
  std::vector<HostCandidates*> whole;
  std::vector<HostCandidates*> others;
  for (HostCandidates* group : groups) {
    const bool fits = group->waiting() <= room;
    (fits ? whole : others).push_back(group);
    if (fits) room -= group->waiting();
  }
  whole.insert(whole.end(), others.begin(), others.end());
  return whole;
}

void Seating::pour(const std::vector<HostCandidates*>& groups, const std::vector<Block*>& blocks) {
  auto block = blocks.begin();
  for (HostCandidates* group : groups) {
    while (group->waiting() > 0 && places_ > 0) {
      while (block != blocks.end() && (*block)->open() == 0) ++block;
      if (block == blocks.end()) return;
      const std::size_t candidate = group->members[group->seated++];
      ranks_[(*block)->ranks[(*block)->taken++]] = candidate;
      seated_.push_back(candidate);
      --places_;
    }
  }
}

}  // namespace c10dd::core
