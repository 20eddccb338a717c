// SPDX-License-Identifier: Apache-2.0
// What is kept of the process groups of a job: how far each rank has come, as it was reported last.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/memory_ledger.h"
#include "daemon/core/reports/group_marks.h"
#include "protocol/activity_ops.h"
#include "protocol/wait_for.h"

namespace c10dd::core {

/// Name and arguments of operations. Most ranks of a group have the same, so each is kept once.
class OperationTexts {
 public:
  struct Text {
    std::string name;
    std::string arguments;

    auto operator<=>(const Text&) const = default;
  };

  /// Returns the text, which stays valid until it was released as often as it was taken.
  const Text* take(const std::string& name, const std::string& arguments) {
    const auto text = uses_.try_emplace({name, arguments}, 0).first;
    ++text->second;
    return &text->first;
  }
  void release(const Text* text) {
    const auto found = uses_.find(*text);
    if (--found->second == 0) uses_.erase(found);
  }
  std::size_t size() const { return uses_.size(); }

 private:
  std::map<Text, std::size_t> uses_;
};

/// The oldest operation of its kind that a rank has issued and that had not ended.
struct OldestOperation {
  std::uint64_t sequence = 0;
  TimePoint since;
  Duration usual{0};
  const OperationTexts::Text* text = nullptr;  ///< of the group
  std::int32_t peer = -1;
  std::uint8_t told = 0;  ///< in how many reports in a row, at most 255; 0: there is none
  UnfinishedOperation::Kind kind = UnfinishedOperation::Kind::collective;
  bool begun = false;
  /// It was old when it was reported, so the client reports it again and again until it ends.
  bool old = false;

  bool exists() const { return told > 0; }
};

/// One rank of a process group.
struct RankActivity {
  enum class State : std::uint8_t {
    absent,  ///< nobody has opened the group as this rank
    open,
    closed,  ///< it has closed the group, or its session has ended
  };

  static constexpr TimePoint kNever{Duration(-1)};  ///< before any time of a job

  OldestOperation collective;
  OldestOperation message;
  std::uint64_t last_sequence = 0;
  /// Of the group: the collective that was the last to end when it was told; null: not told. It is
  /// not told again while the rank goes on, so later ones may have ended.
  const OperationTexts::Text* last = nullptr;
  TimePoint ended_at;  ///< when it has told for the first time that so many have ended
  OperationCounts collectives;
  OperationCounts messages;
  TimePoint reported = kNever;  ///< when its newest report of this group came
  std::uint32_t reporter = 0;   ///< see CollectiveActivity::reporter()
  Rank job_rank = 0;
  State state = State::absent;
  bool blocked = false;  ///< see Activity::blocked_groups

  /// Returns how many collectives have ended, as far as it is reported.
  std::uint64_t ended() const {
    return collective.exists() ? collective.sequence : collectives.issued;
  }
};
// With its marks (GroupMarks: 8 * 8 bytes and 16 bits) and its group in the list of its session (24
// bytes, and an eighth as much room), a rank of a group takes at most 256 bytes, one of them in
// RankTable. It shares its texts with the other ranks, unless their operations differ.
static_assert(sizeof(RankActivity) <= 256 - 64 - 2 - 27 - 1);

/// The ranks of a group. A rank takes one byte until somebody opens the group as one of its eight
/// neighbours, so a session that names a large size takes no memory for ranks that never come.
class RankTable {
 public:
  class Iterator {
   public:
    using value_type = RankActivity;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const RankTable& of, Rank at) : of_(&of), at_(at) {}
    const RankActivity& operator*() const { return (*of_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return {*of_, at_++}; }
    bool operator==(const Iterator& other) const = default;

   private:
    const RankTable* of_ = nullptr;
    Rank at_ = 0;
  };

  static constexpr Rank kPart = 8;  ///< ranks of which memory is made together
  static constexpr std::size_t kPartBytes = kPart * 256;

  explicit RankTable(Rank size) : size_(size), parts_((size + kPart - 1) / kPart) {}

  Rank size() const { return size_; }
  const RankActivity& operator[](Rank rank) const {
    static const RankActivity kAbsent;
    const auto& part = parts_[rank / kPart];
    return part ? part->ranks[rank % kPart] : kAbsent;
  }
  RankActivity& take(Rank rank) {
    make_part(rank, nullptr);
    return parts_[rank / kPart]->ranks[rank % kPart];
  }
  /// Also of a rank that the group does not have.
  bool has_part(Rank rank) const { return rank < size_ && parts_[rank / kPart] != nullptr; }
  /// Makes room for a rank and its neighbours, unless there is some. `account` pays for it.
  void make_part(Rank rank, const AccountRef& account) {
    auto& part = parts_[rank / kPart];
    if (!part) part = std::make_unique<Part>(Part{{}, Charge(account, kPartBytes)});
  }
  std::size_t charged() const {
    std::size_t bytes = 0;
    for (const auto& part : parts_) bytes += part ? part->charge.bytes() : 0;
    return bytes;
  }
  // All ranks, in their order.
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size_}; }

 private:
  struct Part {
    std::array<RankActivity, kPart> ranks;
    Charge charge;
  };

  Rank size_;
  std::vector<std::unique_ptr<Part>> parts_;
};

/// The most collectives that ranks of a group have issued.
class MostIssued {
 public:
  void note(Rank rank, std::uint64_t issued) {
    if (rank != by_ && issued > most_) {
      second_ = std::exchange(most_, issued);
      by_ = rank;
    } else {
      std::uint64_t& of = rank == by_ ? most_ : second_;
      of = std::max(of, issued);
    }
  }
  std::uint64_t of_others(Rank rank) const { return rank == by_ ? second_ : most_; }

 private:
  Rank by_ = 0;
  std::uint64_t most_ = 0;    // of by_
  std::uint64_t second_ = 0;  // of the others
};

struct ActivityGroup {
  std::string name;      ///< `group "dp"`
  RankTable ranks;       ///< by rank in the group
  TimePoint opened;      ///< when the first rank has opened it
  std::size_t open = 0;  ///< ranks in RankActivity::State::open
  std::size_t old = 0;   ///< operations with OldestOperation::old
  OperationTexts texts = {};
  MostIssued issued = {};
  std::unique_ptr<GroupMarks> marks = {};  ///< null: no rank has reported any
  Charge charge = {};                      ///< for all but the parts of `ranks`

  /// Returns the memory of a group without the parts of `ranks`: most are the times of its marks.
  static std::size_t memory_of(Rank size) { return 768 + std::size_t{size} * 80; }

  Rank size() const { return ranks.size(); }
};

/// A process group that a session has open.
struct OpenPlace {
  std::uint64_t process_group = 0;
  Rank rank = 0;  ///< in the group
  ActivityGroup* group = nullptr;
  Charge charge = {};

  /// Its entry here, the texts of its operations, and its own marks.
  static constexpr std::size_t kBytes = 768;
};

/// A session that has opened process groups.
struct Reporter {
  SessionId session;
  Rank job_rank = 0;
  bool ended = false;
  bool blocked = false;  ///< see Activity::blocked
  TimePoint reported;
  TimePoint went_on;  ///< when it told last that a collective of some group has ended
  std::vector<OpenPlace> open = {};  ///< by process group, ascending
  std::size_t entries = 0;           ///< ranks of groups that refer to it
  RankFacts last = {};               ///< of a session that has ended

  /// Returns its place in a process group that it has open, or null.
  const OpenPlace* place_in(std::uint64_t process_group) const {
    const auto at = std::ranges::lower_bound(open, process_group, {}, &OpenPlace::process_group);
    return at != open.end() && at->process_group == process_group ? &*at : nullptr;
  }
};

}  // namespace c10dd::core
