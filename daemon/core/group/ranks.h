// SPDX-License-Identifier: Apache-2.0
// Decides which member gets which rank: a pure function of the candidates and of the previous
// generation. Equal input gives equal ranks, so a plan can be computed without a group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

/// A member that asks for a place.
struct Candidate {
  std::uint64_t joined = 0;  ///< order of joining; unique
  std::string host;
  std::string domain;                ///< topology domain; may be empty
  std::int32_t local_rank = -1;      ///< on its host
  std::int64_t requested_rank = -1;  ///< requested rank, or -1; set for all candidates or for none
  std::int64_t previous_rank = -1;   ///< rank in the previous generation, or -1
  bool spare = false;                ///< gets a place only if non-spares leave a place free
};

/// A free rank. The member that had this rank in the previous generation does not ask for a place
/// again. That member ran on `host`, in `domain`. An unknown host or domain is empty.
struct Hole {
  Rank rank = 0;
  std::string host;
  std::string domain;
};

struct RankPlan {
  std::vector<std::size_t> ranks;   ///< for each rank, the index of its candidate
  std::vector<std::size_t> parked;  ///< candidates without a place, in order of joining
  /// Tells people which ranks were kept, moved and added, and why. Has about 500 bytes at most.
  /// Example:
  /// "ranks [0,2-3] kept; rank 1 (host-b) is replaced by host-d, of the same domain rack2".
  std::string reason;
};

/// Chooses at most `max` candidates, and gives each of them a rank. A spare gets a place only while
/// fewer than `wanted` candidates have one. Requested ranks must be distinct and below the new
/// size. Previous ranks must be distinct.
///
/// Terms: a *host* means all candidates (or all holes) with the same host name and domain. A
/// *block* means all free ranks that were on one host. An empty domain matches no domain.
///
/// Which candidates get a place:
///   1. survivors of the previous generation, in the order of their previous ranks;
///   2. newcomers, which are neither survivors nor spares;
///   3. spares.
/// If there are not enough places for all newcomers, or for all spares, places go in this order:
///   1. to candidates of a host that has holes, at most one for each hole of the host;
///   2. to candidates of a domain that has holes, at most one for each hole of the domain;
///      hosts that fill a block exactly come first;
///   3. to hosts that fill a block of another domain exactly;
///   4. to all others, in order of joining; hosts that fit as a whole come first.
///
/// Which rank a candidate gets: if ranks are requested, each candidate gets its requested rank.
/// Otherwise a survivor keeps its rank if the rank is below the new size. The other candidates get
/// the free ranks. Each block of free ranks goes to one whole host if possible. The candidates for
/// a block are tried in this order:
///   1. the host that had these ranks;
///   2. a host of the same domain with as many candidates as the block has ranks;
///   3. any host with as many candidates as the block has ranks;
///   4. the remaining candidates of the same domain;
///   5. the remaining candidates.
/// In a first generation, and within steps 4 and 5, candidates are ordered by domain, then by host,
/// then by local rank, then by order of joining. Domains (and hosts) come in the order in which
/// their first candidates joined. Therefore the ranks of one host or one domain are contiguous.
RankPlan assign_ranks(const std::vector<Candidate>& candidates, const std::vector<Hole>& holes,
                      std::uint32_t max, std::uint32_t wanted);

}  // namespace c10dd::core
