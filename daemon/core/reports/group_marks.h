// SPDX-License-Identifier: Apache-2.0
// The marks of the ranks of one process group, and what follows from them: that its ranks have
// issued different collectives, or that some ranks come late to most of them. Keeps few marks, and
// ignores those that do not fit together, so that a rank that reports nonsense accuses nobody.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "protocol/activity_ops.h"

namespace c10dd::core {

class GroupMarks {
 public:
  /// A difference is judged when all ranks have marked it, or after this time.
  static constexpr Duration kAllMark = std::chrono::seconds(10);
  /// Ranks are compared over at least so much time of their clocks.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  /// Without a new mark, a straggler is forgotten after so many windows: the group stands.
  static constexpr int kWindowsKept = 3;
  /// Ranks are compared at most so often.
  static constexpr Duration kPause = std::chrono::seconds(1);
  static constexpr std::size_t kKept = 8;  ///< sequences of which marks of each kind are kept

  explicit GroupMarks(Rank size) : size_(size) {}

  /// Takes marks of a rank. A mark that is already known is ignored.
  void add(Rank rank, std::span<const HashMark> hashes, std::span<const TimeMark> times,
           TimePoint now);
  /// Forgets the marks of a rank that another process has now. What was found stays.
  void forget(Rank rank);

  /// Ranks of the group that have issued other collectives than most others: the first difference
  /// is in the sequences from `from` up to, but without, `to`. Holds until the group is forgotten.
  struct Diverged {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    TimePoint since = {};
    std::vector<Rank> ranks = {};   ///< ascending; whose hash is not the one of the most
    std::vector<Rank> others = {};  ///< ascending
  };
  std::optional<Diverged> diverged(TimePoint now) const;

  /// Ranks of the group for which the others have waited all the time of the newest window:
  /// ascending, at most half of them.
  struct Stragglers {
    TimePoint since = {};
    std::vector<Rank> ranks = {};
  };
  std::optional<Stragglers> stragglers(TimePoint now) const;

  /// Returns whether diverged() or stragglers() may return something, now or later.
  bool deviates() const { return difference_.has_value() || late_.has_value(); }

 private:
  /// The hashes of one sequence.
  struct Hashes {
    std::uint64_t sequence = 0;
    std::uint64_t first = 0;   // the hash that was reported first
    std::vector<bool> marked;  // by rank
    std::size_t marks = 0;
    std::map<Rank, std::uint64_t> others = {};  // hashes that are not `first`
  };
  /// In milliseconds, modulo 2^32.
  struct Times {
    std::uint32_t clock = 0;
    std::uint32_t waited = 0;
  };
  struct Timed {
    std::uint64_t sequence = 0;
    std::vector<bool> marked;  // by rank
    std::size_t marks = 0;
    std::vector<Times> times;  // by rank
  };

  void add(Rank rank, const HashMark& mark, TimePoint now);
  void note_difference(Rank rank, std::uint64_t sequence, TimePoint now);
  const Hashes* votes(TimePoint now) const;
  bool add(Rank rank, const TimeMark& mark, TimePoint now);
  void compare(TimePoint now);
  std::uint32_t keep_late(const Timed& begin, const Timed& end, std::vector<bool>& late) const;
  void note_late(const std::vector<bool>& late, Duration window, TimePoint now);

  const Rank size_;
  std::vector<Hashes> hashes_;  // by sequence; at most kKept
  /// Where hashes differ, see Diverged. From then on those of all later sequences do.
  struct Difference {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    TimePoint since;
  };
  std::optional<Difference> difference_;
  std::optional<Hashes> complete_;  // a sequence with a difference that all ranks have marked
  std::vector<Timed> timed_;        // by sequence; at most kKept
  struct Late {
    Stragglers stragglers;
    Duration window{0};
  };
  std::optional<Late> late_;
  TimePoint marked_at_;    // when the newest time mark came
  TimePoint compared_at_;  // when ranks were compared last
  bool due_ = false;       // all ranks have marked a further sequence since then
};

}  // namespace c10dd::core
