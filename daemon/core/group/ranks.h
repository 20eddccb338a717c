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
  std::int64_t requested_rank = -1;  ///< must get this rank; set for all candidates or none
  std::int64_t previous_rank = -1;   ///< in the previous generation; -1: was not in it
  bool spare = false;                ///< takes a place only where one is free
};

/// A rank of the previous generation that is free now, and where its member ran.
struct Hole {
  Rank rank = 0;
  std::string host;
  std::string domain;
};

struct RankPlan {
  std::vector<std::size_t> ranks;   ///< by rank: index of the candidate
  std::vector<std::size_t> parked;  ///< candidates without a place, in order of joining
  /// A text for people: which ranks were kept, moved and added, and why; about 500 bytes at most.
  /// Example:
  /// "ranks [0,2-3] kept; rank 1 (host-b) is replaced by host-d, of the same domain rack2".
  std::string reason;
};

/// Gives places and ranks to at most `max` candidates. Spares get places only up to `wanted`.
/// Requested ranks must be distinct and below the new size; previous ranks must be distinct.
///
/// Words: a *host* is all candidates (or holes) with the same host name and domain. A *block* is
/// all free ranks that were on one host. An empty domain equals no other domain.
///
/// Which candidates get a place:
///   1. survivors of the previous generation, by previous rank;
///   2. newcomers, which are the others that are not spares;
///   3. spares.
/// If not all newcomers (or not all spares) get a place, these come first, in this order:
///   1. candidates of a host that has holes, as many as it has;
///   2. candidates of a domain that has holes, as many as it has; hosts that fill a block exactly
///      come before others;
///   3. hosts of another domain that fill a block exactly;
///   4. whole hosts before parts of a host; then in order of joining.
///
/// Which rank a candidate gets: the requested one if ranks are requested. Else survivors keep their
/// rank if it is below the new size, and each block of free ranks goes to a whole host (not to
/// single candidates) if possible:
///   1. to the same host;
///   2. to a host of the same domain with as many candidates as the block has ranks;
///   3. to any host with as many candidates as the block has ranks;
///   4. to the remaining candidates of the same domain;
///   5. to the remaining candidates.
/// In a first generation, and within steps 4 and 5, candidates are ordered by domain, then host
/// (each by the first of its candidates to join), then local rank, then order of joining, so hosts
/// and domains are contiguous.
RankPlan assign_ranks(const std::vector<Candidate>& candidates, const std::vector<Hole>& holes,
                      std::uint32_t max, std::uint32_t wanted);

}  // namespace c10dd::core
