// SPDX-License-Identifier: Apache-2.0
// A process with process groups that a test changes, a clock that it sets, and a daemon that it is.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/core/activity.h"

namespace c10dd::client {

using namespace std::chrono_literals;

class ActivityTest : public testing::Test {
 protected:
  using Ids = std::vector<std::uint64_t>;
  static constexpr Duration kTimeout = 10min;

  void open(std::uint64_t id) {
    groups_[id].timeout = kTimeout;
    reports_.open({.opened = {.process_group = id, .name = "dp", .kind = "dp", .size = 8},
                   .read = [this, id] { return read(id); },
                   .hopeless =
                       [this, id](const ActivityDiagnosis& found) {
                         hopeless_.push_back(id);
                         sentence_ = found.sentence;
                       }});
  }
  void close(std::uint64_t id) {
    reports_.close(id);
    groups_.erase(id);
  }

  /// The group issues a collective, which does not end.
  void issue(std::uint64_t id, std::string arguments = "of 1000 float32 sum") {
    GroupActivity& activity = groups_[id].activity;
    const std::uint64_t sequence = activity.collectives.issued++;
    ++activity.collectives.unfinished;
    if (!activity.oldest.empty()) return;
    activity.oldest.push_back(
        {.sequence = sequence, .name = "all_reduce", .arguments = std::move(arguments)});
    issued_at_[id] = now_;
  }
  void finish(std::uint64_t id) {
    GroupActivity& activity = groups_[id].activity;
    activity.collectives.unfinished = 0;
    groups_[id].ended =
        EndedCollective{0, activity.collectives.issued - 1, "all_reduce", "of 1000 float32 sum"};
    groups_[id].activity.oldest.clear();
  }
  void run(std::uint64_t id) {
    issue(id);
    finish(id);
  }

  std::optional<Activity> next(bool again = false) { return reports_.next(again, blocked_, now_); }
  std::optional<Activity> next_after(Duration time) {
    now_ += time;
    return next();
  }
  void reply(ActivityDiagnosis found = {}) { reports_.replied(ReplyBody(std::move(found)), now_); }
  void fail(Code code) { reports_.replied(failure(code, "no"), now_); }

  /// Lets some time pass. The daemon replies to what is due.
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      if (next_after(ActivityReports::kPeriod)) reply();
    }
  }
  /// Opens groups that the daemon knows and that have nothing to tell.
  void open_known(const Ids& ids) {
    for (const std::uint64_t id : ids) open(id);
    next();
    reply();
  }

  static Ids opened(const std::optional<Activity>& report) {
    Ids ids;
    if (report) {
      for (const OpenedGroup& group : report->opened) ids.push_back(group.process_group);
    }
    return ids;
  }
  static Ids reported(const std::optional<Activity>& report) {
    Ids ids;
    if (report) {
      for (const GroupActivity& group : report->groups) ids.push_back(group.process_group);
    }
    return ids;
  }

  ReadGroup read(std::uint64_t id) {
    ReadGroup read = groups_.at(id);
    for (UnfinishedOperation& operation : read.activity.oldest) {
      operation.age = now_ - issued_at_[id];
    }
    return read;
  }

  std::map<std::uint64_t, ReadGroup> groups_;
  std::map<std::uint64_t, TimePoint> issued_at_;
  ActivityReports reports_;
  TimePoint now_ = TimePoint(100s);
  bool blocked_ = false;
  Ids hopeless_;
  std::string sentence_;
};

}  // namespace c10dd::client
