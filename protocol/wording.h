// SPDX-License-Identifier: Apache-2.0
// Texts that client and daemon write for people: durations, ranks, missing keys.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/error.h"
#include "protocol/limits.h"
#include "protocol/types.h"
#include "protocol/wait_for.h"

namespace c10dd {

/// Returns a duration in seconds, for metrics, logs and pages.
double seconds_of(Duration duration);

/// Formats a duration for people: "0.5 s", "30 s", "10 min".
std::string human(Duration duration);

/// Formats a sentence for a log line: in double quotes, with inner quotes and backslashes escaped,
/// and printable as printable() makes it.
std::string quoted_text(std::string_view text);

/// Formats a name for a log line: as it is if it has only letters, digits and characters of
/// "._:/@+-[],", otherwise (or if it is empty) as quoted_text() does.
std::string word_or_quoted(std::string_view name);

/// Names a process: "node9 (pid 4711)", or "node9" if its pid is 0, because some clients do not say
/// it.
std::string process_text(std::string_view host, std::uint64_t pid);
/// Names a rank: "rank 17 on node9 (pid 4711)", or "rank 17" if its host is not known.
std::string rank_text(Rank rank, std::string_view host, std::uint64_t pid);

/// Formats ascending ranks as a list of ranges, such as "[17,512-519]". Writes at most `most`
/// ranges; ",..." stands for the others.
std::string fold(std::span<const Rank> ranks, std::size_t most = limits::kMissingNamed);

/// Names ranks, or processes whose rank is not known: "rank 17 on node9 (pid 4711)",
/// "ranks [16-23] on node2, node3" or "2 processes on node9". Leaves the hosts and pids out unless
/// `hosts` is set.
std::string name_of_ranks(std::span<const RankFacts* const> ranks, bool hosts = true);

/// Says what to do about the file of a key that every user may read: "run chmod ...".
std::string close_to_others(std::string_view path);

/// Returns for example "rank 3 on host-b (pid 12) is disconnected, last heard 2.1 s ago".
std::string sentence(const MissingRank& missing);

/// Returns a timed_out failure that names the first missing keys. The request had `asked` keys.
Failure missing_keys(const std::vector<Bytes>& missing, std::size_t asked, Duration timeout);

/// Returns a not_found failure that names the first missing keys. The request had `asked` keys.
Failure keys_not_found(const std::vector<Bytes>& missing, std::size_t asked);

/// Returns a wrong_type failure for a request that adds to a key whose value is not a decimal
/// integer.
Failure not_a_counter(std::string_view key, std::size_t value_bytes);

}  // namespace c10dd
