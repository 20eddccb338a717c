// SPDX-License-Identifier: Apache-2.0
// Finds calls that do not match, and the ranks that caused a time-out.
#include "collectives/who_waits.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "collectives/wording.h"
#include "protocol/format.h"

namespace c10dd::collectives {
namespace {

/// Returns an entry for each rank in `ranks.ranges`. Copies `cause` and `doing` into each entry,
/// and adds the rank's host and process id if they are known.
std::vector<MissingRank> missing(const SomeRanks& ranks,
                                 const std::vector<ProcessAddress>& processes,
                                 MissingRank::Cause cause, const std::string& doing) {
  std::vector<MissingRank> all;
  for (const Rank rank : ranks_of(ranks.ranges)) {
    all.push_back(missing_rank(rank, processes, cause, doing));
  }
  return all;
}

/// Returns the subject and the verb of a sentence: "rank 1 on host-b (pid 7) is", "ranks [0,2-5]
/// are".
std::string subject(const SomeRanks& ranks, const std::vector<ProcessAddress>& processes) {
  const auto named = missing(ranks, processes, MissingRank::Cause::elsewhere, "");
  std::string text = described(named);
  if (ranks.count > named.size()) {
    text += format(" and {} more", ranks.count - named.size());
  }
  return text + (ranks.count == 1 ? " is" : " are");
}

/// The different calls that have the same sequence. The daemon has sorted them: the call with the
/// fewest ranks comes first.
using Mismatch = std::vector<const SharedCall*>;

/// Returns the mismatch with the lowest sequence; empty if there is none.
Mismatch mismatch_in(const PublishedCalls& calls) {
  std::map<std::uint64_t, Mismatch> by_sequence;
  for (const SharedCall& one : calls.calls) by_sequence[one.call.sequence].push_back(&one);
  for (auto& [sequence, shared] : by_sequence) {
    if (shared.size() > 1) return std::move(shared);
  }
  return {};
}

/// Returns the ranks whose call in `mismatch` is not the expected call. The expected call is the
/// call with the most ranks. In a tie, the expected call is `own`, the call of this rank.
std::vector<MissingRank> odd_ranks(const Mismatch& mismatch, const PublishedCall& own,
                                   const std::vector<ProcessAddress>& processes) {
  const SharedCall& last = *mismatch.back();
  const bool tie = mismatch[mismatch.size() - 2]->ranks.count == last.ranks.count;
  const PublishedCall& expected = tie ? own : last.call;
  std::vector<MissingRank> odd;
  for (const SharedCall* one : mismatch) {
    if (one->call == expected) continue;
    std::ranges::move(
        missing(one->ranks, processes, MissingRank::Cause::elsewhere, text_of(one->call)),
        std::back_inserter(odd));
  }
  std::ranges::sort(odd, {}, &MissingRank::rank);
  return odd;
}

constexpr const char* kNoCall =
    "in no collective of this group, or in one that started less than half a time-out ago";

/// A rank is silent if it has not published a call. Returns the silent ranks in `awaited` (the
/// ranks for which the backend was waiting) or, if there are none, all silent ranks.
std::vector<MissingRank> late_ranks(const std::vector<MissingRank>& awaited,
                                    const PublishedCalls& calls,
                                    const std::vector<ProcessAddress>& processes) {
  auto silent = missing(calls.silent, processes, MissingRank::Cause::not_arrived, kNoCall);
  std::vector<MissingRank> both;
  for (const MissingRank& one : awaited) {
    const auto found = std::ranges::lower_bound(silent, one.rank, {}, &MissingRank::rank);
    if (found != silent.end() && found->rank == one.rank) both.push_back(*found);
  }
  return both.empty() ? silent : both;
}

std::string who_is_in(const SharedCall& one, const std::vector<ProcessAddress>& processes) {
  return format("; {} in {}", subject(one.ranks, processes), text_of(one.call));
}

std::string who_is_where(const PublishedCalls& calls,
                         const std::vector<ProcessAddress>& processes) {
  if (calls.calls.size() == 1 && calls.silent.count == 0) {
    return "; every rank is in " + text_of(calls.calls.front().call);
  }
  std::string text;
  for (const SharedCall& one : calls.calls) text += who_is_in(one, processes);
  if (calls.skipped > 0) text += format("; other ranks are in {} more calls", calls.skipped);
  if (calls.silent.count > 0) text += format("; {} {}", subject(calls.silent, processes), kNoCall);
  return text;
}

}  // namespace

PublishedCall published(const Operation& operation) {
  PublishedCall all;
  all.sequence = operation.sequence;
  const OperationInfo& info = info_of(operation.collective);
  all.collective = info.name;
  if (info.layout == Layout::none) return all;
  const Tensor& common = operation.common();
  all.count = common.count;
  if (operation.lists) {
    // Publishes the number of elements only if it is equal on all ranks. In gather, scatter and
    // all_to_all with lists, each rank has sizes of its own.
    all.count = operation.collective == Collective::all_gather ? count_of(operation.outputs) : 0;
    if (info.reduces) all.count = count_of(operation.inputs);
  }
  if (!operation.lists || all.count > 0) all.dtype = name_of(common.dtype);
  if (info.reduces) all.reduce_op = name_of(operation.reduce);
  if (info.root != Root::none) all.root = operation.root;
  return all;
}

std::string text_of(const PublishedCall& call) {
  std::string text = format("{} {}", call.collective, call.sequence);
  if (!call.dtype.empty()) text += format(" of {} {}", call.count, call.dtype);
  if (!call.reduce_op.empty()) text += " " + call.reduce_op;
  if (call.root >= 0) {
    const OperationInfo* info = find_operation(call.collective);
    const bool receives = info != nullptr && info->root == Root::receives;
    text += format(" {} rank {}", receives ? "to" : "from", call.root);
  }
  return text;
}

void explain(Failure& failure, const CollectiveCall& own, const PublishedCalls& calls,
             const std::vector<ProcessAddress>& processes) {
  const Mismatch mismatch = mismatch_in(calls);
  if (failure.code != Code::timed_out) {
    for (const SharedCall* one : mismatch) failure.detail += who_is_in(*one, processes);
    return;
  }
  if (calls.calls.empty()) return;
  failure.detail += who_is_where(calls, processes);
  if (!mismatch.empty()) {
    failure.missing = odd_ranks(mismatch, published(own.operation), processes);
    return;
  }
  if (calls.silent.count > 0) failure.missing = late_ranks(failure.missing, calls, processes);
  // If this rank waited for less than its time-out, a different rank timed out first.
  const Duration waited = own.finished - own.started;
  if (waited < own.operation.timeout) {
    failure.detail += format("; this rank started its call only {} ago", human(waited));
  }
}

}  // namespace c10dd::collectives
