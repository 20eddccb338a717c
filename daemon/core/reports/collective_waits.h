// SPDX-License-Identifier: Apache-2.0
// Who waits for whom in the process groups of a job, as far as their ranks have reported it. A rank
// waits in the oldest collective that it has not finished, for those ranks that have not come to it
// and for those that are still in an earlier one. A rank of which it is not known how far it has
// come accuses nobody, and is not accused.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/reports/wait_for_list.h"
#include "daemon/core/reports/wait_fors.h"

namespace c10dd::core {

/// What is known of the ranks of a job.
struct RanksOfJob {
  std::uint32_t size = 0;                   ///< as far as sessions and reports tell
  std::map<Rank, std::uint32_t> reporters;  ///< by their rank in the job
  std::size_t strangers = 0;                ///< connected sessions that name no rank
  SessionId stranger = {};                  ///< the last of them
};

class CollectiveWaits {
 public:
  /// A report tells how far a rank has come for so long; a client reports old operations sooner.
  static constexpr Duration kFresh = std::chrono::seconds(3);
  /// After this time without a report, nothing has changed: a client would have reported it.
  static constexpr Duration kSettled = std::chrono::seconds(6);
  /// A client that has connected reports all its groups within this time.
  static constexpr Duration kReported = std::chrono::seconds(2);
  /// A sender that has ended no collective for this time stands still.
  static constexpr Duration kStands = std::chrono::seconds(1);
  /// A client tells within this time that an old operation has ended.
  static constexpr Duration kEndTold = std::chrono::milliseconds(500);

  /// `job_size`: the number of ranks of the job; 0: not known.
  /// `overdue`: groups that have been unsettled for so long that what is not known of a rank counts
  /// as its fault.
  CollectiveWaits(const WaitSources& of, WaitForList& list, std::uint32_t job_size,
                  const std::set<std::uint64_t>& overdue);

  /// Adds the wait-fors of all groups that have an old operation.
  void add_all();
  /// Adds the wait-fors of one group, however old its operations are.
  void add_group(std::uint64_t process_group);
  std::vector<Deviation> deviations();

  /// Returns the process groups of which it is not known who holds them up: a rank has just
  /// connected and has not reported its groups yet, or it may be in the operation in which all
  /// others wait, or be about to end it. Their wait-fors are uncertain.
  const std::vector<std::uint64_t>& unsettled() const { return unsettled_; }

 private:
  using Places = std::vector<std::size_t>;

  /// How far a rank has come among the collectives of its group.
  struct Standing {
    enum class Is : std::uint8_t {
      absent,   ///< nobody has opened the group as this rank
      unknown,  ///< it has connected, and has not reported since
      moving,   ///< it goes on: it has come at least to `sequence`
      waiting,  ///< it waits in `sequence`
      behind,   ///< it waits for nobody in this group, or is lost; it has not finished `sequence`
    };
    Is is = Is::absent;
    std::uint64_t sequence = 0;
    std::size_t place = 0;
    bool blocked = false;      ///< see RankActivity
    std::uint64_t issued = 0;  ///< how many collectives
  };
  /// The ranks that wait in one collective.
  struct Level {
    WaitFor one;
    const OperationTexts::Text* text = nullptr;  ///< of the first of them
    std::vector<std::pair<const OperationTexts::Text*, std::size_t>> differing = {};
    std::vector<std::pair<const OperationTexts::Text*, std::size_t>> ended = {};  ///< have told it
    Places not_begun = {};
    std::vector<Standing> standings = {};  ///< of those who wait, in the order of WaitFor::waiting
    bool ends = false;  ///< a rank has just told that it has ended it, so the others may have
  };
  /// A process of the job, as a reporter.
  struct Process {
    std::optional<std::size_t> place = {};
    TimePoint connected_at = {};
    bool lost = false;
    bool fresh = false;  ///< it has reported within kFresh
  };

  void add(std::uint64_t process_group, const ActivityGroup& group);
  void add_collectives(std::uint64_t process_group, const ActivityGroup& group);
  void add_ended(const ActivityGroup& group, const std::vector<std::pair<Rank, Standing>>& ahead,
                 std::map<std::uint64_t, Level>& levels);
  void add_levels(std::uint64_t process_group, const ActivityGroup& group,
                  std::map<std::uint64_t, Level>& levels, const std::vector<Standing>& others,
                  const Places& absent);
  static void describe(Level& level, std::uint64_t sequence, const ActivityGroup& group);
  void add_messages(std::uint64_t process_group, const ActivityGroup& group);
  void add_message(std::uint64_t process_group, const ActivityGroup& group, Rank rank);

  static void await(Level& level, std::uint64_t sequence, const Standing& rank);
  /// Returns `all_reduce 7 of group "dp"`.
  static std::string operation_text(const std::string& name, std::string_view otherwise,
                                    std::uint64_t sequence, const std::string& group);
  const Process& process_of(const RankActivity& rank) { return process_of(rank.reporter); }
  const Process& process_of(std::uint32_t reporter);
  Standing standing(const RankActivity& rank);
  bool waits(const RankActivity& rank, const OldestOperation& oldest) const;
  bool is_unknown(const RankActivity& rank, const Process& process) const;
  bool is_overdue(std::uint64_t process_group) const { return overdue_.contains(process_group); }
  void add_wait(WaitFor one);
  void await_absent(const ActivityGroup& group, const Places& absent, WaitFor& one);
  const RanksOfJob& ranks_of_job();
  bool has_all_ranks(const ActivityGroup& group);
  std::optional<std::size_t> place_of_rank(Rank job_rank, bool alone);

  const WaitSources& of_;
  WaitForList& list_;
  const TimePoint now_;
  const std::uint32_t job_size_;
  const std::set<std::uint64_t>& overdue_;
  bool any_age_ = false;
  bool settled_ = true;                   // the group that is being added
  std::vector<std::uint64_t> unsettled_;  // ascending
  std::optional<bool> in_order_;          // has_all_ranks() of the group that is being added
  std::optional<RanksOfJob> ranks_of_job_;
  std::vector<Process> processes_;  // by number of the reporter
};

}  // namespace c10dd::core
