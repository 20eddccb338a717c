// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/group_marks.h"

#include <algorithm>
#include <utility>

#include "daemon/core/planted.h"

namespace c10dd::core {
namespace {

constexpr int kLate = 10;  // a late rank waits for less than the others by this part of the time
constexpr std::size_t kSpans = 2;           // of a window, at least
constexpr std::uint64_t kCollectives = 16;  // in a window, at least

std::uint32_t in_milliseconds(Duration duration) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

/// Returns the entry of a sequence, which is made if there is none. Keeps the `most` highest
/// sequences: returns null for a lower one.
template <class Entry>
Entry* entry_of(std::vector<Entry>& all, std::uint64_t sequence, std::size_t most,
                const Entry& none) {
  auto at = std::ranges::lower_bound(all, sequence, {}, &Entry::sequence);
  if (at != all.end() && at->sequence == sequence) return &*at;
  if (all.size() == most) {
    if (at == all.begin()) return nullptr;
    all.erase(all.begin());
    --at;
  }
  at = all.insert(at, none);
  at->sequence = sequence;
  return &*at;
}

/// Notes that a rank has marked a sequence. Returns false if it had before.
template <class Entry>
bool note(Entry& entry, Rank rank, Rank size) {
  if (entry.marked.empty()) entry.marked.resize(size);
  if (entry.marked[rank]) return false;
  entry.marked[rank] = true;
  ++entry.marks;
  return true;
}

}  // namespace

void GroupMarks::add(Rank rank, std::span<const HashMark> hashes, std::span<const TimeMark> times,
                     TimePoint now) {
  std::vector<HashMark> in_order(hashes.begin(), hashes.end());
  std::ranges::sort(in_order, {}, &HashMark::sequence);
  for (const HashMark& mark : in_order) add(rank, mark, now);
  for (const TimeMark& mark : times) {
    if (add(rank, mark, now)) due_ = true;
  }
  if (due_ && now - compared_at_ >= kPause) compare(now);
}

void GroupMarks::add(Rank rank, const HashMark& mark, TimePoint now) {
  if (complete_) return;
  Hashes* const hashes = entry_of(hashes_, mark.sequence, kKept, Hashes{});
  if (hashes == nullptr || !note(*hashes, rank, size_)) return;
  if (hashes->marks == 1) hashes->first = mark.hash;
  if (mark.hash != hashes->first) {
    hashes->others[rank] = mark.hash;
    note_difference(rank, mark.sequence, now);
  }
  if (hashes->others.empty() || hashes->marks < size_) return;
  complete_ = std::move(*hashes);
  hashes_ = {};
}

void GroupMarks::note_difference(Rank rank, std::uint64_t sequence, TimePoint now) {
  if (difference_ && difference_->to <= sequence) return;
  Difference found{.to = sequence, .since = difference_ ? difference_->since : now};
  for (const Hashes& earlier : hashes_) {
    const bool equal = earlier.others.empty() && earlier.marked[rank] && earlier.marks > 1;
    if (earlier.sequence < sequence && equal) found.from = earlier.sequence;
  }
  difference_ = found;
}

/// Returns the hashes that tell which ranks have issued others than most, or null if it is too
/// early. Some ranks may mark only every second sequence of the others.
const GroupMarks::Hashes* GroupMarks::votes(TimePoint now) const {
  if (complete_) return &*complete_;
  if (!difference_ || now - difference_->since < kAllMark) return nullptr;
  const Hashes* most = nullptr;
  for (const Hashes& one : hashes_) {
    if (one.others.empty() || one.marks * 2 <= size_) continue;
    if (most == nullptr || one.marks > most->marks) most = &one;
  }
  return most;
}

/// Returns whether all ranks have marked this sequence now, and had not before.
bool GroupMarks::add(Rank rank, const TimeMark& mark, TimePoint now) {
  Timed* const timed = entry_of(timed_, mark.sequence, kKept, Timed{});
  if (timed == nullptr || !note(*timed, rank, size_)) return false;
  if (timed->times.empty()) timed->times.resize(size_);
  timed->times[rank] = {in_milliseconds(mark.clock), in_milliseconds(mark.waited)};
  marked_at_ = now;
  return timed->marks + (planted(Planted::unequal_marks) ? 1 : 0) >= size_;
}

void GroupMarks::forget(Rank rank) {
  for (Hashes& hashes : hashes_) {
    if (hashes.marked[rank]) --hashes.marks;
    hashes.marked[rank] = false;
    hashes.others.erase(rank);
  }
  for (Timed& timed : timed_) {
    if (timed.marked[rank]) --timed.marks;
    timed.marked[rank] = false;
  }
}

/// Looks for ranks that are late in each span between two marks of the newest window. A rank that
/// has done something long once, such as writing a checkpoint, is late in one span only.
void GroupMarks::compare(TimePoint now) {
  due_ = false;
  compared_at_ = now;
  std::vector<const Timed*> complete;  // the newest first
  for (auto timed = timed_.rbegin(); timed != timed_.rend(); ++timed) {
    const bool all = timed->marks + (planted(Planted::unequal_marks) ? 1 : 0) >= size_;
    if (all) complete.push_back(&*timed);
  }
  std::vector<bool> late(size_, true);
  std::uint32_t window = 0;
  for (std::size_t i = 1; i < complete.size(); ++i) {
    window += keep_late(*complete[i], *complete[i - 1], late);
    const std::uint64_t collectives = complete.front()->sequence - complete[i]->sequence;
    if (i < kSpans || window < in_milliseconds(kWindow) || collectives < kCollectives) continue;
    return note_late(late, std::chrono::milliseconds(window), now);
  }
}

/// Drops those from `late` that were not late between two marks. Returns how long that was.
std::uint32_t GroupMarks::keep_late(const Timed& begin, const Timed& end,
                                    std::vector<bool>& late) const {
  std::uint32_t shortest = ~std::uint32_t{0};
  std::uint32_t longest = 0;
  bool sound = true;
  std::vector<std::uint32_t> waited(size_);
  for (Rank rank = 0; rank < size_; ++rank) {
    const std::uint32_t time = end.times[rank].clock - begin.times[rank].clock;
    waited[rank] = end.times[rank].waited - begin.times[rank].waited;
    shortest = std::min(shortest, time);
    longest = std::max(longest, time);
    sound = sound && waited[rank] <= time + time / kLate;
  }
  // The collectives end at about the same time on all ranks. If clocks say something else, nothing
  // follows.
  sound = sound && longest / 2 <= shortest;
  std::vector<std::uint32_t> sorted = waited;
  std::ranges::nth_element(sorted, sorted.begin() + size_ / 2);
  const std::uint32_t median = sorted[size_ / 2];
  for (Rank rank = 0; rank < size_; ++rank) {
    const bool is_late = sound && median > waited[rank] && median - waited[rank] > longest / kLate;
    late[rank] = late[rank] && is_late;
  }
  return shortest;
}

void GroupMarks::note_late(const std::vector<bool>& late, Duration window, TimePoint now) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < size_; ++rank) {
    if (late[rank]) ranks.push_back(rank);
  }
  if (ranks.empty() || ranks.size() * 2 > size_) return late_.reset();
  const bool same = late_ && late_->stragglers.ranks == ranks;
  const TimePoint since = same ? late_->stragglers.since : now;
  late_ = Late{{since, std::move(ranks)}, window};
}

std::optional<GroupMarks::Diverged> GroupMarks::diverged(TimePoint now) const {
  const Hashes* const hashes = votes(now);
  if (hashes == nullptr) return std::nullopt;
  const auto hash_of = [&](Rank rank) {
    const auto other = hashes->others.find(rank);
    return other == hashes->others.end() ? hashes->first : other->second;
  };
  std::map<std::uint64_t, std::size_t> counts;
  for (Rank rank = 0; rank < size_; ++rank) {
    if (hashes->marked[rank]) ++counts[hash_of(rank)];
  }
  std::size_t most = 0;
  for (const auto& [hash, count] : counts) most = std::max(most, count);
  std::optional<std::uint64_t> common;
  Diverged found{.from = difference_->from, .to = difference_->to, .since = difference_->since};
  for (Rank rank = 0; rank < size_; ++rank) {
    if (!hashes->marked[rank]) continue;
    const std::uint64_t hash = hash_of(rank);
    if (!common && counts[hash] == most) common = hash;
    (common == hash ? found.others : found.ranks).push_back(rank);
  }
  return found;
}

std::optional<GroupMarks::Stragglers> GroupMarks::stragglers(TimePoint now) const {
  if (!late_ || now - marked_at_ > kWindowsKept * late_->window) return std::nullopt;
  return late_->stragglers;
}

}  // namespace c10dd::core
