// SPDX-License-Identifier: Apache-2.0
// A job whose ranks run collectives and messages of process groups, and report them as clients do.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/core/activity_reports.h"
#include "tests/unit/core/job_run.h"

namespace c10dd::core {

class ActivityRun : public JobRun {
 protected:
  using Ids = std::vector<std::uint64_t>;  ///< of sessions
  static constexpr Duration kTell = std::chrono::milliseconds(250);

  /// Opens a process group of these sessions. The n-th has rank n in it.
  void open_group(std::uint64_t id, const std::string& name, const Ids& sessions) {
    const auto size = static_cast<std::uint32_t>(sessions.size());
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      OpenedGroup opened = opened_group(id, rank, size, name);
      opened.job_rank = static_cast<Rank>(sessions[rank] - 1);
      ranks_[sessions[rank]].groups[id] = {opened, ended(id, 0), {}, {}};
      ask(sessions[rank], opens({opened}));
    }
  }
  /// Lets a session issue a collective, its next one of the group unless another was said.
  void issue(std::uint64_t n, std::uint64_t id, const std::string& name = "all_reduce",
             const std::string& arguments = "of 8 float32 sum") {
    Own& own = ranks_[n].groups.at(id);
    own.collective = {unfinished(own.told.collectives.issued++, {}, name, arguments), now_};
  }
  void issue_all(const Ids& sessions, std::uint64_t id) {
    for (const std::uint64_t n : sessions) issue(n, id);
  }
  /// Lets a session send to, or receive from, a rank of the group.
  void send(std::uint64_t n, std::uint64_t id, std::int64_t peer, const std::string& tag = "") {
    message(n, id, true, peer, tag);
  }
  void receive(std::uint64_t n, std::uint64_t id, std::int64_t peer, const std::string& tag = "") {
    message(n, id, false, peer, tag);
  }
  /// Its backend has not begun with the collective in which a session is.
  void queue(std::uint64_t n, std::uint64_t id) {
    ranks_[n].groups.at(id).collective->operation.begun = false;
  }
  /// Ends the operations of a group in which sessions are. From then on they tell the last one.
  void finish(const Ids& sessions, std::uint64_t id) {
    for (const std::uint64_t n : sessions) {
      Own& own = ranks_[n].groups.at(id);
      if (own.collective) {
        const UnfinishedOperation& one = own.collective->operation;
        own.last = EndedCollective{id, one.sequence, one.name, one.arguments};
        own.told_last = false;
      }
      own.collective.reset();
      own.message.reset();
    }
  }
  void block(const Ids& sessions, bool blocked = true) {
    for (const std::uint64_t n : sessions) ranks_[n].blocked = blocked;
  }
  /// All threads of a session that issue operations of a group wait.
  void block_group(std::uint64_t n, std::uint64_t id, bool blocked = true) {
    ranks_[n].groups.at(id).blocked = blocked;
  }
  /// Returns what a session reports of its groups now. It leaves out those in which it has just
  /// begun to wait.
  Activity report_of(std::uint64_t n) const {
    const Process& process = ranks_.at(n);
    Activity report;
    report.blocked = process.blocked;
    for (const auto& [id, own] : process.groups) {
      if (is_young(own.collective) || is_young(own.message)) continue;
      GroupActivity told = own.told;
      add(told.collectives, own.collective, told);
      add(told.messages, own.message, told);
      report.groups.push_back(told);
      if (own.blocked) report.blocked_groups.push_back(id);
      if (own.last && !own.told_last) report.ended.push_back(*own.last);
    }
    return report;
  }
  ActivityDiagnosis tell(std::uint64_t n) {
    const Activity report = report_of(n);
    for (const EndedCollective& one : report.ended) {
      ranks_.at(n).groups.at(one.process_group).told_last = true;
    }
    return tell(n, report);
  }
  ActivityDiagnosis tell(std::uint64_t n, const Activity& report) {
    const Effects effects = ask(n, report);
    EXPECT_EQ(effects.replies.size(), 1U);
    const Reply& reply = effects.replies.front().result;
    EXPECT_TRUE(reply) << reply.error().detail;
    return reply ? std::get<ActivityDiagnosis>(*reply) : ActivityDiagnosis{};
  }
  /// Opens the session and its groups again, as after a loss of the connection.
  void reconnect(std::uint64_t n, bool reports = true) {
    open(n);
    for (auto& [id, own] : ranks_.at(n).groups) own.told_last = false;
    if (!reports) return;
    Activity report = report_of(n);
    for (const auto& [id, own] : ranks_.at(n).groups) report.opened.push_back(own.opened);
    tell(n, report);
  }
  /// Lets time pass. These sessions live, and report every quarter of a second.
  void live(Duration time, const Ids& living) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      for (const std::uint64_t n : living) tell(n);
      pass(std::min<Duration>(kTell, end - now_), living);
    }
  }
  std::string text() const {
    return state() + " " + std::string(name_of(diagnosis().kind)) + ": " + sentence();
  }

 private:
  struct Running {
    UnfinishedOperation operation;
    TimePoint since;
  };
  struct Own {
    OpenedGroup opened;
    GroupActivity told;
    std::optional<Running> collective;
    std::optional<Running> message;
    std::optional<EndedCollective> last = {};
    bool told_last = false;
    bool blocked = false;
  };
  struct Process {
    std::map<std::uint64_t, Own> groups = {};
    bool blocked = false;
  };

  void message(std::uint64_t n, std::uint64_t id, bool sends, std::int64_t peer,
               const std::string& tag) {
    Own& own = ranks_[n].groups.at(id);
    own.message = {unfinished_message(sends, own.told.messages.issued++, {}, peer), now_};
    if (!tag.empty()) own.message->operation.arguments += " with " + tag;
  }
  bool is_young(const std::optional<Running>& running) const {
    return running && now_ - running->since < CollectiveActivity::kReportedOld;
  }
  void add(OperationCounts& counts, const std::optional<Running>& running,
           GroupActivity& told) const {
    if (!running) return;
    counts.unfinished = 1;
    counts.not_begun = running->operation.begun ? 0 : 1;
    told.oldest.push_back(running->operation);
    told.oldest.back().age = now_ - running->since;
  }

  std::map<std::uint64_t, Process> ranks_;
};

/// The same with ranks 0 to 3, which are sessions 1 to 4, and a group of all of them.
class RanksRun : public ActivityRun {
 protected:
  static constexpr std::uint64_t kDp = 11;  ///< the group
  static constexpr std::uint64_t kTp = 12;  ///< for others
  static constexpr std::uint64_t kPp = 13;

  RanksRun() {
    for (std::uint64_t n = 1; n <= 4; ++n) {
      open(n);
      all_.push_back(n);
    }
    open_group(kDp, "dp", all_);
  }
  Ids all_but(std::uint64_t n) const {
    Ids others = all_;
    std::erase(others, n);
    return others;
  }
  void expect_silence() { EXPECT_TRUE(told_.empty()) << told_.front(); }

  Ids all_;
};

}  // namespace c10dd::core
