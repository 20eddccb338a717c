// SPDX-License-Identifier: Apache-2.0
// Who gets which rank: a pure function of who has joined and of the generation before. Equal input
// gives equal ranks, so `what if` is a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/types.h"

namespace c10dd::core {

/// Somebody who wants a place.
struct Candidate {
  std::uint64_t joined = 0;  ///< order of joining; unique
  std::string host;
  std::string domain;                ///< topology domain; may be empty
  std::int32_t local_rank = -1;      ///< on its host
  std::int64_t requested_rank = -1;  ///< that it must get; if one has a request, all have
  std::int64_t previous_rank = -1;   ///< in the generation before; -1: it was not in it
  bool spare = false;                ///< takes a place only where one is free
};

/// Whom the generation before had at a rank that is free now.
struct Hole {
  Rank rank = 0;
  std::string host;
  std::string domain;
};

struct RankPlan {
  std::vector<std::size_t> ranks;   ///< by rank: index of the candidate
  std::vector<std::size_t> parked;  ///< indices of those left over, in order of joining
  /// For people: who was kept, moved and added, and why; folded, at most some 500 bytes. Example:
  /// "ranks [0,2-3] kept; rank 1 (host-b) is replaced by host-d, of the same domain rack2".
  std::string reason;
};

/// Gives places to at most `max` candidates. `wanted`: spares take places only up to this size.
/// Below, a host is the candidates, or the holes, that have the same host and domain; an empty
/// domain is like no other. Requests are distinct and below the new size, previous ranks are
/// distinct.
///
/// Who: those of the generation before come first, by previous rank, then the others that are no
/// spares, then spares. Where not all the others (or spares) get a place, these come first: those
/// of a host that has holes, then those of a domain that has, hosts that fill one hole block
/// exactly before others, and only as many as there are holes; then hosts of another domain that
/// fill a block exactly; then whole hosts before parts of one; then in order of joining.
/// Which rank: with requests, the requested ones. Else those of the generation before keep theirs
/// as long as it is below the new size. The ranks that are free, in blocks of those that were on
/// one host, go to hosts (not to single candidates) as far as possible: the same host first, then
/// one of the same domain that has as many candidates as the block, then any such host, then what
/// is left of the same domain, then what is left in the order below. In a first generation, and
/// among what is left, candidates stand by domain, then host (each in the order of its first to
/// join), then local rank, then order of joining: hosts and domains are contiguous.
RankPlan assign_ranks(const std::vector<Candidate>& candidates, const std::vector<Hole>& holes,
                      std::uint32_t max, std::uint32_t wanted);

}  // namespace c10dd::core
