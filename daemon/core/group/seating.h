// SPDX-License-Identifier: Apache-2.0
// Decides which candidates get the free ranks. Works on hosts, not on single candidates: each
// element of `groups` holds the candidates of one host, and a block holds the free ranks that were
// on one host. pick() and seat_by_hole() apply the same rules in different orders; ranks.h states
// the rules in words.
#pragma once

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/group/ranks.h"

namespace c10dd::core {

inline constexpr std::size_t kNobody = std::numeric_limits<std::size_t>::max();

using Candidates = std::vector<Candidate>;
using Indices = std::vector<std::size_t>;                     // of candidates
using Where = std::pair<std::string_view, std::string_view>;  // domain, host

template <class T>
Where where(const T& candidate_or_hole) {
  return {candidate_or_hole.domain, candidate_or_hole.host};
}

/// The candidates of one host, ordered by local rank. The first `seated` candidates have a rank.
struct HostCandidates {
  Where where;
  std::uint64_t joined = 0;  // lowest Candidate::joined of the host
  Indices members;
  std::size_t seated = 0;

  std::size_t waiting() const { return members.size() - seated; }
};

/// The free ranks that were on one host, ascending. The first `taken` of these ranks have a new
/// candidate.
struct Block {
  Where where;
  bool known = false;  // false if no member had these ranks before
  std::vector<Rank> ranks;
  std::size_t taken = 0;

  std::size_t open() const { return ranks.size() - taken; }
};

/// Groups the candidates `who` by host. The hosts are ordered as in a first generation (see
/// ranks.h), and so are the candidates of each host.
std::vector<HostCandidates> by_host(const Candidates& candidates, const Indices& who);

/// Gives the free ranks to candidates, one rule after another. Each rule applies to the ranks and
/// the candidates that the earlier rules have left over.
class Seating {
 public:
  /// ranks[r] is the candidate that already has rank r, or kNobody. holes[r] is the hole at rank r,
  /// or null.
  Seating(Indices ranks, const std::vector<const Hole*>& holes);

  /// Gives ranks to the candidates that match a block by host, size or domain. rest() gives ranks
  /// to the other candidates.
  void seat_by_hole(std::vector<HostCandidates> groups);
  /// Gives the remaining ranks to the remaining candidates.
  void rest();
  /// Chooses at most `places` candidates of `groups`: first the candidates that match the blocks
  /// best, then the others in the order of `groups`.
  Indices pick(std::vector<HostCandidates> groups, std::size_t places);

  const Indices& ranks() const { return ranks_; }

 private:
  void bring_in(std::vector<HostCandidates> groups, std::size_t places);
  void same_host();
  void same_size(bool same_domain);
  void same_domain();
  std::vector<HostCandidates*> whole_first(const std::vector<HostCandidates*>& groups,
                                           std::size_t room) const;
  void pour(const std::vector<HostCandidates*>& groups, const std::vector<Block*>& blocks);

  Indices ranks_;
  std::vector<Block> blocks_;
  std::vector<HostCandidates> by_host_;
  std::size_t places_ = 0;
  Indices seated_;  // since bring_in()
};

}  // namespace c10dd::core
