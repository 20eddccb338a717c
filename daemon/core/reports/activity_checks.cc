// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/reports/activity_checks.h"

#include <algorithm>

#include "protocol/format.h"
#include "protocol/limits.h"
#include "protocol/utf8.h"

namespace c10dd::core {
namespace {

/// Times in a report are below this, so that sums of them do not overflow.
constexpr Duration kLongest = std::chrono::hours(24 * 365 * 10);

Result<void> check_text(std::string_view what, const std::string& text, std::size_t most) {
  if (text.size() > most) {
    return failure(Code::too_large, "activity: the {} has {} bytes, limit {}; choose a shorter one",
                   what, text.size(), most);
  }
  // Other ranks show these texts in errors, so they must be printable.
  if (printable(text, most) == text) return {};
  return failure(Code::invalid_argument,
                 "activity: the {} \"{}\" is not printable text; use UTF-8 without control "
                 "characters",
                 what, printable(text, most));
}

Result<void> check_time(std::string_view what, Duration time) {
  if (time >= Duration::zero() && time <= kLongest) return {};
  return failure(Code::invalid_argument,
                 "activity: the {} is {} ns, which is not within 0 and 10 years; check the clock",
                 what, time.count());
}

Result<void> check_opened(const OpenedGroup& group) {
  if (group.process_group == 0) {
    return failure(Code::invalid_argument,
                   "activity: group \"{}\" has number 0; choose a random number that is not 0",
                   printable_name(group.name));
  }
  if (Result<void> good = check_text("name of a process group", group.name, limits::kNameBytes);
      !good) {
    return good;
  }
  if (Result<void> good = check_text("kind of a process group", group.kind, limits::kNameBytes);
      !good) {
    return good;
  }
  if (group.size == 0 || group.size > limits::kWorldSize) {
    return failure(Code::invalid_argument,
                   "activity: group \"{}\" has size {}; a process group has 1 to {} ranks",
                   group.name, group.size, limits::kWorldSize);
  }
  if (group.rank >= group.size) {
    return failure(Code::invalid_argument,
                   "activity: rank {} is too high for group \"{}\": its size is {}, and its ranks "
                   "begin with 0",
                   group.rank, group.name, group.size);
  }
  if (group.job_rank < limits::kWorldSize) return {};
  return failure(Code::invalid_argument,
                 "activity: rank {} of the job is too high: ranks are below {}", group.job_rank,
                 limits::kWorldSize);
}

Result<void> check_counts(std::string_view what, const OperationCounts& counts) {
  if (counts.not_begun <= counts.unfinished && counts.unfinished <= counts.issued) return {};
  return failure(Code::invalid_argument,
                 "activity: {} {} were issued, {} of them have not ended, and {} have not begun; "
                 "no number may exceed the one before it",
                 counts.issued, what, counts.unfinished, counts.not_begun);
}

Result<void> check_operation(const std::string& name, const std::string& arguments) {
  if (Result<void> good = check_text("name of an operation", name, limits::kOperationNameBytes);
      !good) {
    return good;
  }
  return check_text("list of arguments of an operation", arguments, limits::kOperationNameBytes);
}

Result<void> check_oldest(const UnfinishedOperation& one, const GroupActivity& group) {
  using Kind = UnfinishedOperation::Kind;
  if (one.kind > Kind::receive) {
    return failure(
        Code::invalid_argument,
        "activity: an operation has kind {}; use 0 (collective), 1 (send) or 2 (receive)",
        static_cast<int>(one.kind));
  }
  if (Result<void> good = check_operation(one.name, one.arguments); !good) return good;
  for (const auto& [what, time] : {std::pair("age of an operation", one.age),
                                   std::pair("usual time of an operation", one.usual)}) {
    if (Result<void> good = check_time(what, time); !good) return good;
  }
  if (one.peer < -1 || one.peer >= limits::kWorldSize) {
    return failure(Code::invalid_argument,
                   "activity: an operation has peer {}; use a rank below {}, or -1 for any",
                   one.peer, limits::kWorldSize);
  }
  const bool collective = one.kind == Kind::collective;
  const OperationCounts& counts = collective ? group.collectives : group.messages;
  if (one.sequence < counts.issued) return {};
  return failure(Code::invalid_argument,
                 "activity: {} {} has not ended, but only {} were issued; sequences begin with 0",
                 collective ? "collective" : "message", one.sequence, counts.issued);
}

Result<void> check_ended(const EndedCollective& one, const std::vector<GroupActivity>& groups) {
  const auto group = std::ranges::find(groups, one.process_group, &GroupActivity::process_group);
  if (group == groups.end()) {
    return failure(Code::invalid_argument,
                   "activity: a report tells the last collective of process group {}, but not its "
                   "activity; send both",
                   one.process_group);
  }
  if (one.sequence >= group->collectives.issued) {
    return failure(Code::invalid_argument,
                   "activity: collective {} has ended, but only {} were issued; sequences begin "
                   "with 0",
                   one.sequence, group->collectives.issued);
  }
  return check_operation(one.name, one.arguments);
}

Result<void> check_blocked(const Activity& activity) {
  for (const std::uint64_t blocked : activity.blocked_groups) {
    const auto of = [](const GroupActivity& group) { return group.process_group; };
    if (std::ranges::find(activity.groups, blocked, of) != activity.groups.end()) continue;
    return failure(Code::invalid_argument,
                   "activity: a report tells that process group {} is blocked, but not its "
                   "activity; send both",
                   blocked);
  }
  if (activity.blocked_groups.size() <= activity.groups.size()) return {};
  return failure(Code::invalid_argument,
                 "activity: a report tells {} times that a process group is blocked, but is about "
                 "{}; name each once",
                 activity.blocked_groups.size(), activity.groups.size());
}

Result<void> check_marks(const GroupActivity& group) {
  const std::size_t most = std::max(group.hash_marks.size(), group.time_marks.size());
  if (most > limits::kMarksPerActivity) {
    return failure(Code::too_large,
                   "activity: a report has {} marks of a process group, limit {}; send the newest",
                   most, limits::kMarksPerActivity);
  }
  std::uint64_t highest = 0;
  for (const HashMark& mark : group.hash_marks) highest = std::max(highest, mark.sequence);
  for (const TimeMark& mark : group.time_marks) {
    highest = std::max(highest, mark.sequence);
    for (const auto& [what, time] : {std::pair("clock of a mark", mark.clock),
                                     std::pair("waiting time of a mark", mark.waited)}) {
      if (Result<void> good = check_time(what, time); !good) return good;
    }
  }
  if (highest <= group.collectives.issued) return {};
  return failure(Code::invalid_argument,
                 "activity: a mark is about {} collectives, but only {} were issued", highest,
                 group.collectives.issued);
}

Result<void> check_group(const GroupActivity& group) {
  if (Result<void> good = check_counts("collectives", group.collectives); !good) return good;
  if (Result<void> good = check_counts("messages", group.messages); !good) return good;
  std::size_t collectives = 0;
  for (const UnfinishedOperation& one : group.oldest) {
    if (Result<void> good = check_oldest(one, group); !good) return good;
    if (one.kind == UnfinishedOperation::Kind::collective) ++collectives;
  }
  const std::size_t messages = group.oldest.size() - collectives;
  if (collectives > 1 || messages > 1) {
    return failure(Code::invalid_argument,
                   "activity: process group {} has {} oldest collectives and {} oldest messages; "
                   "send at most one of each",
                   group.process_group, collectives, messages);
  }
  return check_marks(group);
}

/// Fails if a list names a process group twice.
template <class List>
Result<void> check_once(const List& list, std::string_view what) {
  std::vector<std::uint64_t> numbers;
  for (const auto& one : list) numbers.push_back(one.process_group);
  std::ranges::sort(numbers);
  const auto twice = std::ranges::adjacent_find(numbers);
  if (twice == numbers.end()) return {};
  return failure(Code::invalid_argument,
                 "activity: a report {} process group {} twice; name each once", what, *twice);
}

}  // namespace

Result<void> check_values(const Activity& activity) {
  if (activity.groups.size() > limits::kGroupsPerActivity) {
    return failure(
        Code::too_large,
        "activity: a report is about {} process groups, limit {}; send the others in the "
        "next report",
        activity.groups.size(), limits::kGroupsPerActivity);
  }
  for (const OpenedGroup& group : activity.opened) {
    if (Result<void> good = check_opened(group); !good) return good;
  }
  for (const GroupActivity& group : activity.groups) {
    if (Result<void> good = check_group(group); !good) return good;
  }
  if (Result<void> good = check_once(activity.opened, "opens"); !good) return good;
  if (Result<void> good = check_once(activity.groups, "tells of"); !good) return good;
  for (const EndedCollective& one : activity.ended) {
    if (Result<void> good = check_ended(one, activity.groups); !good) return good;
  }
  if (Result<void> good = check_once(activity.ended, "tells the last collective of"); !good) {
    return good;
  }
  return check_blocked(activity);
}

}  // namespace c10dd::core
